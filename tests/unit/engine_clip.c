/* SPDX-License-Identifier: BSD-3-Clause */
/* Clipping of attention's logits: what bounds them, and which weights an update scales
 * by which factors. */
#include "tests/unit/engine_fixture.h"

#include "engine/internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const float *weight(const struct fixture *f, const char *name)
{
    const struct mds_params *ps = mds_engine_params(f->engine);
    int id = mds_params_find(ps, name);

    assert_true(id >= 0);
    return mds_param_weight(ps, id);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* ---- the bound ---- */

/* The norm of a token's embedding: what the first block's queries and keys are of. */
static void input_of(const struct fixture *f, int row, int s, double *x)
{
    int64_t H = f->config.model.hidden;
    const float *word =
                    weight(f, "embedding.word.weight") + f->rows[row * (S + 1) + s] * H,
                *position = weight(f, "embedding.position.weight") + s * H;
    double mean = 0, variance = 0;

    for (int64_t i = 0; i < H; i++) {
        x[i] = (double)word[i] + (double)position[i];
        mean += x[i] / (double)H;
    }
    for (int64_t i = 0; i < H; i++)
        variance += (x[i] - mean) * (x[i] - mean) / (double)H;
    for (int64_t i = 0; i < H; i++)
        x[i] = (x[i] - mean) / sqrt(variance + f->config.model.norm_eps);
}

/* Of one head; gains are 1, and all biases 0 before the first update. */
static double product(const struct fixture *f, int64_t head, const double *a,
                      const double *b)
{
    int64_t H = f->config.model.hidden, D = f->config.model.head_dim;
    const float *q = weight(f, "layer.0.attention.q.weight") + head * D * H,
                *k = weight(f, "layer.0.attention.k.weight") + head * D * H;
    double sum = 0;

    for (int64_t d = 0; d < D; d++) {
        double x = 0, y = 0;

        for (int64_t i = 0; i < H; i++) {
            x += (double)q[d * H + i] * a[i];
            y += (double)k[d * H + i] * b[i];
        }
        sum += x * y;
    }
    return sum / sqrt((double)D);
}

static void is_the_largest_log_sum_exp(void **state)
{
    struct mds_config c = gpt_shape();
    struct fixture f;
    double x[S][24];

    (void)state;
    c.train.log_logits = 1;
    c.model.init_std = 0.4;
    open_on(&f, &c, "cpu");
    (void)backward(&f);
    for (int64_t h = 0; h < c.model.heads; h++) {
        double largest = -INFINITY, bound = -INFINITY;

        for (int row = 0; row < ROWS; row++)
            for (int s = 0; s < S; s++) {
                double sum = 0;

                input_of(&f, row, s, x[s]);
                for (int j = 0; j <= s; j++) {
                    double logit = product(&f, h, x[s], x[j]);

                    largest = fmax(largest, logit);
                    sum += exp(logit);
                }
                bound = fmax(bound, log(sum));
            }
        assert_true(fabs(f.engine->logit.all[h] - bound) < 1e-5 * bound);
        assert_true(bound >= largest && bound <= largest + log(S));
    }
    close_all(&f);
}

/* ---- the factors ---- */

/* What an update makes of a model, with a threshold or (0) without. */
static void update(struct fixture *f, const struct mds_config *shape, double threshold)
{
    struct mds_config c = *shape;

    c.optim.qk_clip = threshold > 0;
    c.optim.qk_clip_threshold = threshold;
    c.train.log_logits = 1;
    open_on(f, &c, "cpu");
    (void)backward(f);
    assert_int_equal(mds_engine_update(f->engine, 1e-2), MDS_OK);
}

static double factor_of(const struct fixture *with, const struct fixture *without,
                        const char *name, int64_t head, int64_t n)
{
    const float *a = weight(with, name) + head * n,
                *b = weight(without, name) + head * n;
    float factor = a[0] / b[0];

    for (int64_t i = 0; i < n; i++)
        assert_true(fabsf(a[i] - factor * b[i]) <= 3e-7f * fabsf(b[i]));
    return (double)factor;
}

/* Queries and keys of a head: the product of both factors brings its logits to the
 * threshold, or to less where the group shares a key that others shrink. */
static int check_layer(const struct fixture *with, const struct fixture *without,
                       int layer)
{
    const struct mds_model_config *m = &with->config.model;
    const struct mds_optim_config *o = &with->config.optim;
    int64_t n = m->head_dim * m->hidden, of = m->heads / m->kv_heads;
    const double *bound = without->engine->logit.all + layer * m->heads;
    char q[64], k[64];
    int clipped = 0;

    snprintf(q, sizeof q, "layer.%d.attention.q.weight", layer);
    snprintf(k, sizeof k, "layer.%d.attention.k.weight", layer);
    for (int64_t g = 0; g < m->kv_heads; g++) {
        double key = factor_of(with, without, k, g, n), least = 1;

        for (int64_t h = g * of; h < (g + 1) * of; h++) {
            double shrink = fmin(1, o->qk_clip_threshold / bound[h]);
            double query = factor_of(with, without, q, h, n);

            assert_true(fabs(query - fmin(1, shrink / key)) < 1e-5);
            assert_true(query * key * bound[h] < o->qk_clip_threshold * (1 + 1e-5));
            least = fmin(least, shrink);
            clipped += shrink < 1;
        }
        assert_true(fabs(key - pow(least, 1 - o->qk_clip_alpha)) < 1e-5);
    }
    return clipped;
}

/* As no other parameter changes, all sums of a parameter's values are the same. */
static void check_others(const struct fixture *with, const struct fixture *without)
{
    const struct mds_params *a = mds_engine_params(with->engine),
                            *b = mds_engine_params(without->engine);

    for (int id = 0; id < mds_params_n(a); id++) {
        const struct mds_param *p = mds_params_get(a, id);

        if (!strstr(p->spec.name, "attention.q.") &&
            !strstr(p->spec.name, "attention.k."))
            assert_memory_equal(mds_param_weight(a, id), mds_param_weight(b, id),
                                (size_t)p->count * sizeof(float));
    }
}

static void scales_queries_and_keys(void **state)
{
    (void)state;
    for (int t = 0; t < 4; t++) {
        struct mds_config c = shapes[t % 2]();
        struct fixture with, without;
        double bounds[8];
        int64_t heads = c.model.layers * c.model.heads;
        int clipped = 0;

        c.optim.kind = t / 2 ? MDS_MUON : MDS_ADAMW;
        c.optim.muon_momentum = 0.95;
        c.optim.muon_steps = 5;
        c.optim.muon_extra_scale = 0.2;
        c.optim.qk_clip_alpha = 0.3;
        c.model.init_std = 0.4;
        update(&without, &c, 0);
        memcpy(bounds, without.engine->logit.all, (size_t)heads * sizeof *bounds);
        qsort(bounds, (size_t)heads, sizeof *bounds, compare);
        update(&with, &c, (bounds[heads / 2 - 1] + bounds[heads / 2]) / 2);
        for (int layer = 0; layer < c.model.layers; layer++)
            clipped += check_layer(&with, &without, layer);
        assert_int_equal(clipped, heads / 2);
        assert_int_equal(clipped, with.engine->logit.clipped);
        check_others(&with, &without);
        close_all(&with);
        close_all(&without);
    }
}

/* A step brings the largest logit below the threshold.  What bounds it may still be
 * above, as smaller logits are scaled as well, and then another step follows. */
static void steps_end_below(void **state)
{
    struct mds_config c = gpt_shape();
    struct fixture f;
    double bound[8];

    (void)state;
    c.model.init_std = 0.5;
    c.optim.qk_clip = 1;
    c.optim.qk_clip_alpha = 0.5;
    c.optim.qk_clip_threshold = 6;
    open_on(&f, &c, "cpu");
    for (int i = 0; i < 8; i++) {
        struct mds_step_result r = backward(&f);

        bound[i] = r.logit_bound[0];
        assert_true(r.clipped_heads > 0 || i > 0);
        assert_int_equal(mds_engine_update(f.engine, 1e-6), MDS_OK);
    }
    assert_true(bound[0] > 8 && bound[1] < 7 && bound[7] < 6.1);
    close_all(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_the_largest_log_sum_exp),
        cmocka_unit_test(scales_queries_and_keys),
        cmocka_unit_test(steps_end_below),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
