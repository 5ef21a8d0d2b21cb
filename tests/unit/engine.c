/* SPDX-License-Identifier: BSD-3-Clause */
/* engine and model: gradients, updates and evaluation, for a GPT and a Llama shape. */
#include "tests/unit/engine_fixture.h"

#include "config/options.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Element i of a direction in which all of a parameter is moved. */
static double along(const struct mds_param *p, int64_t i)
{
    return ((double)(i * 37 % 5) - 2) / sqrt((double)p->count);
}

/* Every parameter, along a random direction: (L(w + h d) - L(w - h d)) / 2h against the
 * gradient.  f32 forward passes bound what differences can show. */
static void gradients_match_differences(void **state)
{
    const double h = 1e-2;

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct mds_config c = shapes[k]();
        struct fixture f;
        struct mds_params *ps;
        double norm;

        open_on(&f, &c, "cpu");
        ps = mds_engine_params(f.engine);
        norm = backward(&f).grad_norm;
        assert_true(norm > 0.01);
        for (int id = 0; id < mds_params_n(ps); id++) {
            const struct mds_param *p = mds_params_get(ps, id);
            float *w = (float *)mds_param_weight(ps, id);
            const float *g = mds_param_grad(ps, id);
            double slope = 0, up, down;

            for (int64_t i = 0; i < p->count; i++)
                slope += along(p, i) * g[i];
            for (int64_t i = 0; i < p->count; i++)
                w[i] += (float)(h * along(p, i));
            up = eval_loss(&f);
            for (int64_t i = 0; i < p->count; i++)
                w[i] -= (float)(2 * h * along(p, i));
            down = eval_loss(&f);
            for (int64_t i = 0; i < p->count; i++)
                w[i] += (float)(h * along(p, i));
            if (fabs((up - down) / (2 * h) - slope) > 2e-3 * norm + 2e-5)
                fail_msg("%s: difference %.6g, gradient %.6g", p->spec.name,
                         (up - down) / (2 * h), slope);
        }
        close_all(&f);
    }
}

static void count_matches_the_formula(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct mds_config c = shapes[k]();
        struct fixture f;

        open_on(&f, &c, "cpu");
        assert_int_equal(mds_params_count(mds_engine_params(f.engine)),
                         mds_model_params(&c.model));
        close_all(&f);
    }
}

/* Matrices begin normal, those that end a branch by 1/sqrt(2L) smaller, and decay; of
 * the rest only gammas are not 0. */
static double start_std(const struct mds_model_config *c, const char *name)
{
    if (!strstr(name, ".weight"))
        return 0;
    return strstr(name, "attention.out.") || strstr(name, "mlp.down.")
               ? c->init_std / sqrt(2.0 * (double)c->layers)
               : c->init_std;
}

static void check_start(const struct mds_param *p, const float *w, double std)
{
    double sum = 0, squares = 0, n = (double)p->count;
    float rest = strstr(p->spec.name, ".gamma") ? 1 : 0;

    for (int64_t i = 0; i < p->count; i++) {
        sum += (double)w[i];
        squares += (double)(w[i] * w[i]);
        if (std == 0 && w[i] != rest)
            fail_msg("%s begins with %g", p->spec.name, (double)w[i]);
    }
    if (std > 0 && (fabs(sum / n) > 5 * std / sqrt(n) ||
                    fabs(sqrt(squares / n) / std - 1) > 5 / sqrt(2 * n)))
        fail_msg("%s: mean %g, deviation %g for %g", p->spec.name, sum / n,
                 sqrt(squares / n), std);
    assert_int_equal(p->spec.decay, std > 0);
}

static void weights_have_their_initial_values(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct mds_config c = shapes[k]();
        struct fixture f;
        struct mds_params *ps;

        open_on(&f, &c, "cpu");
        ps = mds_engine_params(f.engine);
        for (int i = 0; i < mds_params_n(ps); i++) {
            const struct mds_param *p = mds_params_get(ps, i);

            check_start(p, mds_param_weight(ps, i), start_std(&c.model, p->spec.name));
        }
        close_all(&f);
    }
}

/* No gradient of the previous step remains, with or without tiles and recomputation. */
static void gradients_start_from_zero_each_step(void **state)
{
    (void)state;
    for (int way = 0; way < 16; way++) {
        struct mds_config c = shapes[way % 2]();
        struct values first, second;
        struct fixture f;

        c.train.act.loss_tile = way / 2 % 2 ? 7 : 0;
        c.train.act.recompute = way / 4 % 2 ? MDS_RECOMPUTE_FULL : MDS_RECOMPUTE_NONE;
        c.train.act.recompute_layers = 1;
        c.train.act.sequence_tile = way / 4 % 2 ? c.batch.micro * 3 : 0;
        if (way >= 8) {
            c.train.type = MDS_TYPE_BF16;
            c.model.fp8.format = MDS_FP8_HYBRID;
        }
        open_on(&f, &c, "cpu");
        backward(&f);
        first = values_of(&f, MDS_ZERO_GRAD);
        backward(&f);
        second = values_of(&f, MDS_ZERO_GRAD);
        assert_memory_equal(first.v, second.v, (size_t)first.n * sizeof *first.v);
        free(first.v);
        free(second.v);
        close_all(&f);
    }
}

static void dropout_is_off_in_evaluation(void **state)
{
    struct mds_config c = gpt_shape();
    struct fixture f;
    double plain;

    (void)state;
    open_on(&f, &c, "cpu");
    plain = eval_loss(&f);
    assert_true(fabs(plain - backward(&f).loss) < 1e-6);
    close_all(&f);
    with_dropout(&c);
    open_on(&f, &c, "cpu");
    assert_true(eval_loss(&f) == plain);
    assert_true(fabs(backward(&f).loss - plain) > 1e-4);
    close_all(&f);
}

/* A few steps on one batch bring the loss down. */
static void training_learns(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct mds_config c = shapes[k]();
        struct fixture f;
        double first, last = 0;

        open_on(&f, &c, "cpu");
        first = backward(&f).loss;
        for (int i = 0; i < 30; i++) {
            assert_int_equal(mds_engine_update(f.engine, 0.01), MDS_OK);
            last = backward(&f).loss;
        }
        assert_true(last < 0.5 * first);
        close_all(&f);
    }
}

/* Some steps, an evaluation in between; weights are read while the last update may
 * still be under way. */
static void train_a_little(const struct mds_config *c, int is_late, double loss[5],
                           struct values *weights)
{
    struct fixture f;

    be_late(is_late);
    open_on(&f, c, "cpu");
    be_late(0);
    for (int i = 0; i < 4; i++) {
        loss[i] = backward(&f).loss;
        assert_int_equal(mds_engine_update(f.engine, 0.01), MDS_OK);
        if (i == 1)
            loss[4] = eval_loss(&f);
        if (i == 2) /* all of an update, while nobody acquires */
            free(values_of(&f, MDS_ZERO_WEIGHT).v);
    }
    *weights = values_of(&f, MDS_ZERO_WEIGHT);
    close_all(&f);
}

/* Wherever the optimizer is, and whenever copies are done: the same bits. */
static void host_update_gives_the_same_weights(void **state)
{
    static const enum mds_number_type types[] = {MDS_TYPE_F32, MDS_TYPE_BF16};

    (void)state;
    for (int way = 0; way < 16; way++) {
        struct mds_config c = shapes[way % 2]();
        struct values want, got;
        double a[5], b[5];

        c.model.layers = 6; /* more units than are under way at once */
        c.train.type = types[way / 2 % 2];
        train_a_little(&c, 0, a, &want);
        c.parallel.offload_optimizer = MDS_PLACE_CPU;
        c.parallel.zero_stage = way / 8 ? 3 : 0;
        c.parallel.offload_params = way / 8 ? MDS_PLACE_CPU : MDS_PLACE_DEVICE;
        train_a_little(&c, way / 4 % 2, b, &got);
        assert_memory_equal(a, b, sizeof a);
        assert_memory_equal(want.v, got.v, (size_t)want.n * sizeof *want.v);
        assert_true(a[3] < a[0]);
        free(want.v);
        free(got.v);
    }
}

static int64_t zeroed(struct mds_config c, int layers)
{
    struct fixture f;
    int64_t calls;

    c.model.layers = layers;
    open_on(&f, &c, "dry");
    calls = mds_dev_ledger(f.dev)->op[MDS_OP_ZERO].calls;
    backward(&f);
    calls = mds_dev_ledger(f.dev)->op[MDS_OP_ZERO].calls - calls;
    close_all(&f);
    return calls;
}

/* Positions that a step has reported, as numbers that grow with its progress. */
struct reports {
    int n, at[64], training;
    int64_t layers;
};

static void take_report(void *ctx, const struct mds_step_position *at)
{
    struct reports *r = ctx;
    int layers = (int)r->layers;
    int done = at->backward ? 2 * layers - 1 - at->layer : at->layer;

    assert_true(r->n < 64);
    assert_int_equal(at->training, r->training);
    r->at[r->n++] = at->micro_batch * 2 * layers + done;
}

/* Each block of each pass once, in order, however blocks are recomputed; and in
 * evaluation. */
static void steps_report_each_block(void **state)
{
    static const enum mds_recompute ways[] = {
        MDS_RECOMPUTE_NONE, MDS_RECOMPUTE_SELECTIVE, MDS_RECOMPUTE_FULL};

    (void)state;
    for (size_t k = 0; k < 3; k++) {
        struct mds_config c = gpt_shape();
        struct reports r = {.layers = 5};
        struct fixture f;

        c.model.layers = r.layers;
        c.train.act.recompute = ways[k];
        c.train.act.recompute_layers = 2;
        c.batch.micro = ROWS / 2;
        c.batch.accumulation = 2;
        open_on(&f, &c, "cpu");
        mds_engine_report_to(f.engine, take_report, &r);
        eval_loss(&f);
        assert_int_equal(r.n, 2 * r.layers);
        for (int i = 0; i < r.n; i++)
            assert_int_equal(r.at[i], i % r.layers + i / r.layers * 2 * r.layers);
        r.n = 0;
        r.training = 1;
        backward(&f);
        assert_int_equal(r.n, 2 * 2 * r.layers);
        for (int i = 0; i < r.n; i++)
            assert_int_equal(r.at[i], i);
        close_all(&f);
    }
}

/* Gradients that are added to lie side by side; products write the others. */
static void a_layer_is_zeroed_in_one_call(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++)
        assert_int_equal(zeroed(shapes[k](), 5) - zeroed(shapes[k](), 2), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_match_differences),
        cmocka_unit_test(count_matches_the_formula),
        cmocka_unit_test(weights_have_their_initial_values),
        cmocka_unit_test(gradients_start_from_zero_each_step),
        cmocka_unit_test(dropout_is_off_in_evaluation),
        cmocka_unit_test(training_learns),
        cmocka_unit_test(host_update_gives_the_same_weights),
        cmocka_unit_test(steps_report_each_block),
        cmocka_unit_test(a_layer_is_zeroed_in_one_call),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
