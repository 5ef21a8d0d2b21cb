/* SPDX-License-Identifier: BSD-3-Clause */
/* engine and model: rows of several documents. */
#include "tests/unit/engine_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Rows 0 and 1 have many documents, the others one; so few targets count in the first
 * half of the batch. */
static void start_documents(struct fixture *f)
{
    for (int i = 0; i < ROWS * (S + 1); i++) {
        int row = i / (S + 1), token = i % (S + 1);

        f->starts[i] = row == 0 ? token : row == 1 ? token / 3 * 3 : 0;
    }
}

static int count_targets(const struct fixture *f)
{
    int n = 0;

    for (int i = 0; i < ROWS * (S + 1) - 1; i++)
        n += i % (S + 1) < S && f->starts[i] == f->starts[i + 1];
    return n;
}

static double relative_distance(const struct values *a, const struct values *b)
{
    double sum = 0, all = 0;

    for (int64_t i = 0; i < a->n; i++) {
        sum += pow((double)a->v[i] - (double)b->v[i], 2);
        all += pow((double)a->v[i], 2);
    }
    return sqrt(sum / all);
}

/* One micro-batch of all rows, or some with few targets and some with many. */
static void mean_is_over_counted_targets(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct mds_config c = shapes[k]();
        struct mds_step_result whole, parts;
        struct values want, got;
        struct fixture f;

        c.data.eod_mask_loss = 1;
        open_on(&f, &c, "cpu");
        start_documents(&f);
        whole = backward(&f);
        assert_true(whole.targets == count_targets(&f));
        assert_true(fabs(eval_loss(&f) - whole.loss) < 1e-6);
        want = values_of(&f, MDS_ZERO_GRAD);
        close_all(&f);

        c.batch.micro = 1;
        c.batch.accumulation = ROWS;
        open_on(&f, &c, "cpu");
        start_documents(&f);
        parts = backward(&f);
        got = values_of(&f, MDS_ZERO_GRAD);
        close_all(&f);
        assert_true(fabs(whole.loss - parts.loss) < 1e-6);
        assert_true(fabs(whole.grad_norm / parts.grad_norm - 1) < 1e-5);
        assert_true(relative_distance(&want, &got) < 1e-5);
        free(want.v);
        free(got.v);
    }
}

/* The gradient is that of the loss: a weight moved along it changes the loss by its
 * square. */
static void gradient_is_of_the_loss(void **state)
{
    const double h = 1e-2;

    (void)state;
    for (int k = 0; k < 4; k++) {
        struct mds_config c = shapes[k % 2]();
        struct mds_params *ps;
        struct fixture f;
        double norm, loss[2], step = h;

        c.data.eod_mask_loss = 1;
        c.data.reset_attention_mask = c.data.reset_position_ids = k / 2;
        open_on(&f, &c, "cpu");
        start_documents(&f);
        ps = mds_engine_params(f.engine);
        norm = backward(&f).grad_norm;
        for (int side = 0; side < 2; side++, step = -2 * h) {
            double scale = (double)(ROWS * S) / count_targets(&f) / norm;

            for (int id = 0; id < mds_params_n(ps); id++)
                for (int64_t i = 0; i < mds_params_get(ps, id)->count; i++)
                    ((float *)mds_param_weight(ps, id))[i] +=
                        (float)(step * scale * (double)mds_param_grad(ps, id)[i]);
            loss[side] = eval_loss(&f);
        }
        assert_true(fabs((loss[0] - loss[1]) / (2 * h) - norm) < 5e-3 * norm);
        close_all(&f);
    }
}

/* Documents of these lengths: side by side in row 0, or each in a row of its own. */
static void put_documents(struct fixture *f, int apart)
{
    static const int length[] = {5, 2, 7};
    int first = 0;

    for (int i = 0; i < ROWS * (S + 1); i++)
        f->starts[i] = i % (S + 1);
    for (int k = 0; k < 3; k++) {
        int at = apart ? (k + 1) * (S + 1) : first;

        for (int i = 0; i < length[k]; i++) {
            f->rows[at + i] = (3 + first + i * i) % VOCAB;
            f->starts[at + i] = at % (S + 1);
        }
        first += length[k];
    }
}

/* Pairs that are seen within a window, each counted by itself; 0: all. */
static double local_pairs(const struct fixture *f, int64_t window)
{
    double pairs = 0;

    for (int row = 0; row < ROWS; row++)
        for (int q = 0; q < S; q++)
            for (int k = f->starts[row * (S + 1) + q]; k <= q; k++)
                pairs += window == 0 || k > q - window;
    return pairs;
}

/* Loss and gradients of documents in one row are those of the documents by themselves,
 * whatever is kept, in whatever pieces. */
static void documents_do_not_meet(void **state)
{
    (void)state;
    for (int k = 0; k < 12; k++) {
        struct mds_config c = shapes[k % 2]();
        struct mds_step_result r[2];
        struct values grads[2];

        c.data.reset_attention_mask = c.data.reset_position_ids = 1;
        c.data.eod_mask_loss = 1;
        c.train.flash_attn = k / 2 % 3 != 1;
        c.train.act.recompute = k / 6 ? MDS_RECOMPUTE_FULL : MDS_RECOMPUTE_NONE;
        c.train.act.sequence_tile = k / 6 ? c.batch.micro * 3 : 0;
        c.train.act.loss_tile = k / 2 % 3 == 2 ? 7 : 0;
        c.model.window = k % 4 > 1 ? 3 : 0;
        for (int apart = 0; apart < 2; apart++) {
            struct fixture f;

            open_on(&f, &c, "cpu");
            put_documents(&f, apart);
            r[apart] = backward(&f);
            grads[apart] = values_of(&f, MDS_ZERO_GRAD);
            assert_true(r[apart].targets == 4 + 1 + 6);
            /* 13 inputs: 5, 2 and 6 side by side, or 7 in a row; the rest by itself */
            assert_true(
                fabs(r[apart].seen.global -
                     (apart ? 15 + 3 + 28 + 13 + 8 + 11 + 6 : 15 + 3 + 21 + 3 * 13) /
                         (4 * 91.0)) < 1e-12);
            assert_true(fabs(r[apart].seen.local -
                             local_pairs(&f, c.model.window) / (4 * 91.0)) < 1e-12);
            close_all(&f);
        }
        assert_true(fabs(r[0].loss - r[1].loss) < 1e-6);
        assert_true(relative_distance(&grads[0], &grads[1]) < 1e-5);
        free(grads[0].v);
        free(grads[1].v);
    }
}

/* The tokens before a document change its loss only if attention is not reset. */
static void earlier_tokens_are_not_seen(void **state)
{
    enum { BEFORE = 7 }; /* each a document of one token, without loss */

    (void)state;
    for (int k = 0; k < 4; k++) {
        struct mds_config c = shapes[k % 2]();
        double loss[2];

        c.data.reset_attention_mask = k / 2;
        c.data.reset_position_ids = c.data.eod_mask_loss = 1;
        for (int changed = 0; changed < 2; changed++) {
            struct fixture f;

            open_on(&f, &c, "cpu");
            put_documents(&f, 0);
            for (int i = 0; i < BEFORE; i++) {
                f.starts[i] = i;
                f.rows[i] = (f.rows[i] + 5 * changed) % VOCAB;
            }
            loss[changed] = eval_loss(&f);
            close_all(&f);
        }
        assert_true((loss[0] == loss[1]) == k / 2);
    }
}

/* Kernels get starts for micro-batches with a row of several documents alone: others
 * change no bit, and may use kernels that know no documents. */
static void one_document_is_none(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        struct mds_config c = shapes[k % 2]();
        struct values grads[2];
        double loss[2];

        c.batch.micro = k / 2 ? 1 : ROWS;
        c.batch.accumulation = ROWS / c.batch.micro;
        for (int apart = 0; apart < 2; apart++) {
            struct fixture f;

            c.data.reset_attention_mask = c.data.reset_position_ids = apart;
            c.data.eod_mask_loss = apart;
            open_on(&f, &c, "cpu"); /* starts are 0 */
            loss[apart] = backward(&f).loss;
            grads[apart] = values_of(&f, MDS_ZERO_GRAD);
            close_all(&f);
        }
        assert_true(loss[0] == loss[1]);
        assert_memory_equal(grads[0].v, grads[1].v,
                            (size_t)grads[0].n * sizeof *grads[0].v);
        free(grads[0].v);
        free(grads[1].v);
    }
}

/* ---- kinds ---- */

static const struct mds_kind some_kinds[] = {{"text", 1}, {"repeat", 0.1}, {"tag", 0}};
static const struct mds_kind_table kinds = {some_kinds, 3};

/* Mostly tags in the first rows, and none in the last; the first token of a row is no
 * target. */
static void give_kinds(struct fixture *f)
{
    for (int i = 0; i < ROWS * (S + 1); i++) {
        int row = i / (S + 1), token = i % (S + 1);

        f->kinds[i] =
            (unsigned char)(token * token % 5 > row ? 2 - row % 2 : token % 2);
    }
}

/* The weights of the targets that count, of kind k or of all. */
static double weigh_targets(const struct fixture *f, int k)
{
    double sum = 0;

    for (int i = 0; i < ROWS * (S + 1) - 1; i++)
        if (i % (S + 1) < S && f->starts[i] == f->starts[i + 1] &&
            (k < 0 || f->kinds[i + 1] == k))
            sum += k < 0 ? some_kinds[f->kinds[i + 1]].weight : 1;
    return sum;
}

/* The mean of two kinds of one weight is that without kinds; and the loss of a kind is
 * that of the others masked by weight 0. */
static void kinds_are_parts_of_the_loss(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct mds_config c = shapes[k]();
        struct mds_kind alone[3], alike[3];
        struct mds_step_result all, one;
        struct values want, got;
        struct fixture f;

        open_on(&f, &c, "cpu");
        all = backward(&f);
        want = values_of(&f, MDS_ZERO_GRAD);
        close_all(&f);
        for (int i = 0; i < 3; i++) {
            alike[i] = some_kinds[i];
            alike[i].weight = 3;
        }
        c.data.kinds = (struct mds_kind_table){alike, 3};
        open_on(&f, &c, "cpu");
        give_kinds(&f);
        one = backward(&f);
        got = values_of(&f, MDS_ZERO_GRAD);
        assert_true(fabs(one.loss - all.loss) < 1e-6);
        assert_true(fabs(one.targets - 3.0 * ROWS * S) < 1e-9);
        assert_true(relative_distance(&want, &got) < 1e-5);
        for (int i = 0; i < 3; i++)
            assert_true(one.by_kind.count[i] == weigh_targets(&f, i));
        close_all(&f);
        free(want.v);
        free(got.v);

        for (int i = 0; i < 3; i++) {
            struct mds_step_result r;

            for (int j = 0; j < 3; j++) {
                alone[j] = some_kinds[j];
                alone[j].weight = i == j;
            }
            c.data.kinds.kind = alone;
            open_on(&f, &c, "cpu");
            give_kinds(&f);
            r = backward(&f);
            assert_true(fabs(r.loss - one.by_kind.sum[i] / one.by_kind.count[i]) <
                        1e-12);
            close_all(&f);
        }
    }
}

/* The gradient of the weighted loss, however it is computed, in any micro-batches. */
static void weighted_gradient_is_of_the_loss(void **state)
{
    const double h = 1e-2;

    (void)state;
    for (int k = 0; k < 6; k++) {
        struct mds_config c = shapes[k % 2]();
        struct mds_params *ps;
        struct fixture f;
        double norm, loss[2], step = h;

        c.data.kinds = kinds;
        c.data.eod_mask_loss = k / 2 == 1;
        c.batch.micro = k / 2 == 2 ? 1 : ROWS;
        c.batch.accumulation = ROWS / c.batch.micro;
        c.train.act.recompute = k / 2 == 2 ? MDS_RECOMPUTE_FULL : MDS_RECOMPUTE_NONE;
        c.train.act.sequence_tile = k / 2 == 2 ? 3 : 0;
        c.train.act.loss_tile = k / 2 == 1 ? 7 : 0;
        open_on(&f, &c, "cpu");
        if (k / 2 == 1)
            start_documents(&f);
        give_kinds(&f);
        ps = mds_engine_params(f.engine);
        norm = backward(&f).grad_norm;
        for (int side = 0; side < 2; side++, step = -2 * h) {
            double scale = (double)(ROWS * S) / weigh_targets(&f, -1) / norm;

            for (int id = 0; id < mds_params_n(ps); id++)
                for (int64_t i = 0; i < mds_params_get(ps, id)->count; i++)
                    ((float *)mds_param_weight(ps, id))[i] +=
                        (float)(step * scale * (double)mds_param_grad(ps, id)[i]);
            loss[side] = eval_loss(&f);
        }
        assert_true(fabs((loss[0] - loss[1]) / (2 * h) - norm) < 5e-3 * norm);
        close_all(&f);
    }
}

/* No target in the whole batch: no loss, no gradient, and an update that is none. */
static void nothing_counts(void **state)
{
    struct mds_config c = gpt_shape();
    struct mds_step_result r;
    struct fixture f;

    (void)state;
    c.data.eod_mask_loss = 1;
    open_on(&f, &c, "cpu");
    for (int i = 0; i < ROWS * (S + 1); i++)
        f.starts[i] = i % (S + 1);
    r = backward(&f);
    assert_true(r.loss == 0 && r.grad_norm == 0 && r.targets == 0 && !r.overflow);
    assert_int_equal(mds_engine_update(f.engine, 0.01), MDS_OK);
    assert_true(isfinite(eval_loss(&f)) == 0); /* a mean over nothing */
    close_all(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mean_is_over_counted_targets),
        cmocka_unit_test(gradient_is_of_the_loss),
        cmocka_unit_test(documents_do_not_meet),
        cmocka_unit_test(earlier_tokens_are_not_seen),
        cmocka_unit_test(one_document_is_none),
        cmocka_unit_test(kinds_are_parts_of_the_loss),
        cmocka_unit_test(weighted_gradient_is_of_the_loss),
        cmocka_unit_test(nothing_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
