/* SPDX-License-Identifier: BSD-3-Clause */
/* engine and model: generation with a cache of keys and values. */
#include "tests/unit/engine_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Several blocks of keys and of queries. */
enum { LENGTH = 208, B = 3, KINDS = 9 };

static int32_t token_at(int64_t s, int64_t b)
{
    return (int32_t)((s * s * 7 + s * 3 + b * 5 + s / 9) % VOCAB);
}

/* GPT and Llama, Llama within a window, with experts, GPT in bf16, Llama in fp16, with
 * muP; Llama with the cache of one block on the host, and within a window of all. */
static struct mds_config config_of(int kind)
{
    struct mds_config c = shapes[kind > 0 && kind != 4]();

    c.model.seq_length = c.model.max_positions = LENGTH;
    c.model.window = kind == 2 || kind == 8 ? 20 : 0;
    c.train.host_caches = kind == 7 ? 1 : kind == 8 ? c.model.layers : 0;
    if (kind == 3)
        c.model.experts = (struct mds_experts_config){
            .scale = 1, .n = 4, .topk = 2, .ffn_hidden = c.model.ffn_hidden};
    if (kind == 6)
        c.model.mup = (struct mds_mup_config){.on = 1,
                                              .base_hidden = 8,
                                              .base_head_dim = 2,
                                              .embedding_mult = 2,
                                              .output_mult = 1};
    c.train.type = kind == 4 ? MDS_TYPE_BF16 : kind == 5 ? MDS_TYPE_F16 : MDS_TYPE_F32;
    c.train.skip_train = 1;
    c.train.act.recompute = MDS_RECOMPUTE_FULL;
    c.train.prefill = LENGTH;
    c.batch.micro = c.batch.global = B;
    return c;
}

/* Let sequences b .. b + n - 1 read tokens up to `end`, `step` at a time. */
static void read_to(struct fixture *f, int64_t b, int64_t n, int64_t from, int64_t end,
                    int64_t step, float *logits)
{
    int32_t token[LENGTH * B];

    for (int64_t first = from; first < end; first += step) {
        struct mds_engine_tokens t = {.B = n, .first = first, .token = token};

        t.n = end - first < step ? end - first : step;
        for (int64_t i = 0; i < t.n * n; i++)
            token[i] = token_at(first + i / n, b + i % n);
        assert_int_equal(
            mds_engine_decode(f->engine, &t, first + t.n == end ? logits : NULL), 0);
    }
}

/* A token at a time, or all at once, or some: the same logits to the bit. */
static void steps_do_not_matter(void **state)
{
    static const int64_t steps[] = {LENGTH, 96, 50, 7};
    static float one[LENGTH][B * VOCAB], some[B * VOCAB];

    (void)state;
    for (int k = 0; k < KINDS; k++) {
        struct mds_config c = config_of(k);
        struct fixture f;

        open_on(&f, &c, "cpu");
        for (int64_t s = 0; s < LENGTH; s++)
            read_to(&f, 0, B, s, s + 1, 1, one[s]);
        for (int i = 0; i < 4; i++)
            for (int64_t end = LENGTH; end > 0; end -= 23) {
                read_to(&f, 0, B, 0, end, steps[i], some);
                assert_memory_equal(some, one[end - 1], sizeof some);
            }
        close_all(&f);
    }
}

/* Nor do the sequences beside it. */
static void batches_do_not_matter(void **state)
{
    float all[B * VOCAB], one[VOCAB];

    (void)state;
    for (int k = 0; k < KINDS; k++) {
        struct mds_config c = config_of(k);
        struct fixture f;

        open_on(&f, &c, "cpu");
        for (int64_t b = 0; b < B; b++) {
            read_to(&f, 0, B, 0, 100, 33, all);
            read_to(&f, 0, B, 100, 110, 1, all);
            read_to(&f, b, 1, 0, 100, 33, one);
            read_to(&f, b, 1, 100, 110, 1, one);
            assert_memory_equal(one, all + b * VOCAB, sizeof one);
        }
        close_all(&f);
    }
}

static double loss_of(const float *logits, int32_t target)
{
    double sum = 0;

    for (int v = 0; v < VOCAB; v++)
        sum += exp((double)logits[v] - (double)logits[target]);
    return log(sum);
}

/* The sum of losses of the same tokens by an evaluation. */
static double evaluate(const struct mds_config *of)
{
    static int32_t rows[B * (LENGTH + 1)];
    struct mds_config c = *of;
    struct mds_kind_losses sums;
    struct mds_engine_rows r = {.token = rows};
    struct fixture f;

    c.train.prefill = 0;
    open_on(&f, &c, "cpu");
    for (int64_t i = 0; i < B * (LENGTH + 1); i++)
        rows[i] = token_at(i % (LENGTH + 1), i / (LENGTH + 1));
    assert_int_equal(mds_engine_eval(f.engine, &r, 1, &sums), 0);
    close_all(&f);
    assert_true(sums.count[0] == B * LENGTH);
    return sums.sum[0];
}

/* But for rounding: products of other shapes, by OpenBLAS. */
static void losses_are_those_of_evaluation(void **state)
{
    static float logits[B * VOCAB];

    (void)state;
    for (int k = 0; k < KINDS; k++) {
        struct mds_config c = config_of(k);
        double want = evaluate(&c), is = 0;
        struct fixture f;

        open_on(&f, &c, "cpu");
        for (int64_t s = 0; s < LENGTH; s++) {
            read_to(&f, 0, B, s, s + 1, 1, logits);
            for (int64_t b = 0; b < B; b++)
                is += loss_of(logits + b * VOCAB, token_at(s + 1, b));
        }
        assert_true(fabs(is / want - 1) < (k < 4 || k > 6 ? 1e-7 : 1e-4));
        close_all(&f);
    }
}

/* What a dry run says is what there is, and steps of other shapes take no more. */
static void memory_is_measured(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        struct mds_config c = config_of(k);
        int64_t G = c.model.kv_heads, D = c.model.head_dim;
        int64_t element = k < 4 || k > 6 ? 4 : 2, host = c.train.host_caches;
        int64_t block = LENGTH * B * 2 * G * D * element, cache = (2 - host) * block;
        struct mds_engine_need more;
        float logits[B * VOCAB];
        struct fixture f;

        open_on(&f, &c, "cpu");
        for (int64_t step = 1; step < LENGTH; step += 50)
            read_to(&f, 0, B, 0, LENGTH, step, logits);
        assert_int_equal(mds_dev_ledger(f.dev)->memory.total_peak <=
                             f.need.state_bytes + f.need.step_bytes,
                         1);
        assert_int_equal(mds_dev_ledger(f.host)->memory.total_peak, f.need.host_bytes);
        close_all(&f);
        c.model.seq_length = c.model.max_positions = LENGTH + 1;
        assert_int_equal(mds_engine_measure(&c, 1, 0, 1, &more), 0);
        assert_true(more.state_bytes - f.need.state_bytes >= cache / LENGTH);
        assert_true(f.need.state_bytes >= cache);
        assert_int_equal(f.need.host_bytes, host * block);
    }
}

static void contract(void **state)
{
    struct mds_config c = config_of(0);
    const int32_t token[B * 2] = {0};
    const struct mds_engine_tokens bad[] = {
        {.B = B + 1, .n = 1, .token = token}, {.B = 0, .n = 1, .token = token},
        {.B = 1, .n = 0, .token = token},     {.B = 1, .n = 3, .token = token},
        {.B = 1, .first = -1, .n = 1},        {.B = 1, .first = LENGTH, .n = 1}};
    struct fixture f;

    (void)state;
    c.train.prefill = 2;
    open_on(&f, &c, "cpu");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(mds_engine_decode(f.engine, &bad[i], NULL), MDS_EBUG);
    close_all(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_do_not_matter),
        cmocka_unit_test(batches_do_not_matter),
        cmocka_unit_test(losses_are_those_of_evaluation),
        cmocka_unit_test(memory_is_measured),
        cmocka_unit_test(contract),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
