/* SPDX-License-Identifier: BSD-3-Clause */
/* muP: what a model computes changes in a few steps by about as much at all widths, and
 * a model as wide as the base is the model without muP. */
#include "tests/unit/engine_fixture.h"

#include "engine/internal.h"
#include "optim/zero.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BASE = 16, WIDEST = 128, STEPS = 5 };

/* Twice as wide: as many heads of twice the size. */
static struct mds_config shape_of(int64_t width, enum mds_optimizer kind, int mup)
{
    struct mds_config c = llama_shape();

    c.model.hidden = width;
    c.model.head_dim = width / c.model.heads;
    c.model.rotary_percent = 1;
    c.model.ffn_hidden = 2 * width;
    c.model.init_std = 1 / sqrt(BASE);
    c.optim.kind = kind;
    c.optim.weight_decay = 0;
    c.optim.muon_momentum = 0.95;
    c.optim.muon_nesterov = 1;
    c.optim.muon_steps = 5;
    c.optim.muon_extra_scale = 0.2;
    if (!mup)
        c.model.init_std *= sqrt((double)BASE / (double)width);
    c.model.mup = (struct mds_mup_config){.on = mup,
                                          .base_hidden = BASE,
                                          .base_head_dim = BASE / 4,
                                          .embedding_mult = 1,
                                          .output_mult = 1};
    return c;
}

/* One rank has all weights, of f32, where they are. */
static enum mds_rc copy_weights(void *ctx, enum mds_zero_what what, int unit,
                                int64_t first, int64_t n, float *out)
{
    struct fixture *f = ctx;
    const float *w = mds_params_unit(mds_engine_params(f->engine), unit)->weight;

    assert_int_equal(what, MDS_ZERO_WEIGHT);
    memcpy(out, w + first, (size_t)n * sizeof *out);
    return MDS_OK;
}

/* What an evaluation keeps of all tokens. */
struct kept {
    int64_t n;
    float *values; /* free() it */
};

/* Of the model that f trains, as it is now. */
static struct kept evaluate(struct fixture *f, enum mds_hidden hidden)
{
    struct mds_engine_rows rows = {
        .token = f->rows, .start = f->starts, .kind = f->kinds};
    struct mds_config c = f->config;
    struct mds_kind_losses losses[1];
    struct fixture eval;
    struct kept k = {0};

    c.train.hidden = hidden;
    c.train.skip_train = 1;
    open_on(&eval, &c, "cpu");
    assert_int_equal(mds_zero_load(mds_engine_zero(eval.engine), copy_weights, f, 0),
                     MDS_OK);
    assert_int_equal(mds_engine_eval(eval.engine, &rows, 1, losses), MDS_OK);
    k.n = eval.engine->hidden_bytes / (int64_t)sizeof *k.values;
    k.values = malloc((size_t)eval.engine->hidden_bytes);
    assert_non_null(k.values);
    memcpy(k.values, eval.engine->hidden, (size_t)eval.engine->hidden_bytes);
    close_all(&eval);
    return k;
}

static double rms_of_difference(struct kept *a, struct kept *b)
{
    double sum = 0;

    for (int64_t i = 0; i < a->n; i++) {
        double d = (double)a->values[i] - (double)b->values[i];

        sum += d * d;
    }
    free(a->values);
    free(b->values);
    return sqrt(sum / (double)a->n);
}

/* What some steps change: of the stream behind the last block, and of logits. */
struct change {
    double stream, logits;
};

static struct change change_of(const struct mds_config *c)
{
    struct fixture f;
    struct kept stream[2], logits[2];

    open_on(&f, c, "cpu");
    stream[0] = evaluate(&f, MDS_HIDDEN_STREAM);
    logits[0] = evaluate(&f, MDS_HIDDEN_LOGITS);
    for (int i = 0; i < STEPS; i++) {
        (void)backward(&f);
        assert_int_equal(mds_engine_update(f.engine, 4e-3), MDS_OK);
    }
    stream[1] = evaluate(&f, MDS_HIDDEN_STREAM);
    logits[1] = evaluate(&f, MDS_HIDDEN_LOGITS);
    close_all(&f);
    return (struct change){rms_of_difference(&stream[0], &stream[1]),
                           rms_of_difference(&logits[0], &logits[1])};
}

/* How many times more the widest model changes than the base. */
static struct change growth(enum mds_optimizer kind, enum mds_muon_scale scale, int mup)
{
    struct mds_config narrow = shape_of(BASE, kind, mup),
                      wide = shape_of(WIDEST, kind, mup);
    struct change a, b;

    narrow.optim.muon_scale = wide.optim.muon_scale = scale;
    a = change_of(&narrow);
    b = change_of(&wide);
    b.stream /= a.stream;
    b.logits /= a.logits;
    print_message("%s, scale %d, %s muP: %d times as wide, the stream changes %.2f "
                  "times as much, logits %.2f times\n",
                  kind == MDS_MUON ? "Muon" : "AdamW", (int)scale,
                  mup ? "with" : "without", WIDEST / BASE, b.stream, b.logits);
    return b;
}

/* Logits begin smaller in the wider model, and less of what is random there is lost. */
static void assert_alike(struct change c)
{
    assert_true(c.stream > 0.7 && c.stream < 1.35);
    assert_true(c.logits > 0.35 && c.logits < 1.3);
}

static void widths_change_alike(void **state)
{
    (void)state;
    assert_true(growth(MDS_ADAMW, 0, 0).stream > 2.3);
    assert_true(growth(MDS_MUON, MDS_MUON_SPECTRAL, 0).logits > 2);
    assert_alike(growth(MDS_ADAMW, 0, 1));
    for (int scale = MDS_MUON_SPECTRAL; scale <= MDS_MUON_UNIT; scale++)
        assert_alike(growth(MDS_MUON, scale, 1));
}

/* To the bit: all factors are 1 then. */
static void the_base_is_as_without(void **state)
{
    struct values v[2];

    (void)state;
    for (int mup = 0; mup < 2; mup++) {
        struct mds_config c = shape_of(64, MDS_ADAMW, mup);
        struct fixture f;

        c.model.init_std = 0.2;
        c.model.mup.base_hidden = 64;
        c.model.mup.base_head_dim = 16;
        open_on(&f, &c, "cpu");
        for (int i = 0; i < 3; i++) {
            (void)backward(&f);
            assert_int_equal(mds_engine_update(f.engine, 1e-2), MDS_OK);
        }
        v[mup] = values_of(&f, MDS_ZERO_WEIGHT);
        close_all(&f);
    }
    assert_int_equal(v[0].n, v[1].n);
    assert_memory_equal(v[0].v, v[1].v, (size_t)v[0].n * sizeof *v[0].v);
    free(v[0].v);
    free(v[1].v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widths_change_alike),
        cmocka_unit_test(the_base_is_as_without),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
