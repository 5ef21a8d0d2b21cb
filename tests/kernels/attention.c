/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels: causal attention, fused and plain, against the whole matrix in double. */
#include "kernels/attention_scratch.h"
#include "tests/kernels/problem.h"
#include "tests/sample.h"

#include <math.h>

/* What sums in f32 lose grows as the root of their length. */
static double grown(const struct mdsk_attention_shape *s)
{
    return fmax(1, sqrt((double)s->Sk / 300));
}

static const struct shape shapes[] = {
    {1, 1, 1, 1, 1, 1, 0, 0, 0, PACKED, JOINED},
    {1, 1, 1, 3, 3, 3, 0, 0, 0, PACKED, JOINED},
    {2, 3, 3, 17, 17, 5, 0, 0, 0, FUSED, JOINED},
    {1, 4, 2, 65, 65, 17, 0, 0, 0, FUSED, JOINED},
    {2, 6, 2, 129, 129, 64, 0, 0, 0, FUSED, JOINED},
    {1, 2, 1, 300, 300, 33, 0, 0, 0, HEAD_MAJOR, JOINED},
    {1, 2, 2, 50, 177, 16, 127, 0, 0, PACKED,
     JOINED}, /* the last queries of a longer sequence */
    {1, 2, 2, 97, 33, 16, 0, 0, 0, PACKED, JOINED},       /* fewer keys than queries */
    {1, 3, 1, 65, 129, 9, 500, 0, 0, HEAD_MAJOR, JOINED}, /* all keys behind: no mask */
    {2, 4, 2, 99, 99, 32, 0, 0, 0.3f, FUSED, JOINED},
    {1, 2, 1, 70, 130, 17, 60, 0, 0.1f, PACKED, JOINED},
    {1, 1, 1, 65, 65, 200, 0, 0, 0, PACKED, JOINED},
    /* windows: within a block of keys, that block, others, longer than all */
    {2, 4, 2, 131, 131, 17, 0, 2, 0, FUSED, JOINED},
    {1, 2, 2, 300, 300, 33, 0, 5, 0, HEAD_MAJOR, JOINED},
    {1, 4, 2, 290, 290, 16, 0, 48, 0.2f, FUSED, JOINED},
    {2, 2, 1, 401, 401, 64, 0, 96, 0, PACKED, JOINED},
    {1, 2, 1, 777, 777, 9, 0, 131, 0, FUSED, JOINED},
    {1, 2, 1, 200, 200, 72, 0, 5000, 0, PACKED, JOINED},
    {1, 2, 2, 150, 277, 16, 127, 60, 0.1f, PACKED,
     JOINED},                                       /* the first keys: no query's */
    {1, 4, 2, 97, 65, 8, 30, 20, 0, FUSED, JOINED}, /* the last queries see no key */
    {1, 2, 1, 130, 130, 24, 150, 100, 0, PACKED,
     JOINED},                                        /* a chunk before, seen in part */
    {1, 1, 1, 20, 30, 8, 500, 40, 0, FUSED, JOINED}, /* seen by none */
    /* documents, also with windows, for queries behind all keys, and seen by some */
    {2, 2, 1, 500, 500, 16, 0, 0, 0, FUSED, MIXED},
    {3, 2, 1, 333, 333, 33, 0, 0, 0.2f, HEAD_MAJOR, MIXED},
    {1, 2, 1, 200, 200, 64, 0, 0, 0, FUSED, WHOLE},
    {2, 2, 1, 300, 300, 17, 0, 70, 0, FUSED, MIXED},
    {2, 2, 1, 90, 150, 16, 60, 0, 0.1f, PACKED, MIXED},
    {2, 2, 1, 130, 130, 24, 130, 0, 0, PACKED, MIXED},
    {1, 1, 1, 40, 65, 8, 400, 0, 0, FUSED, MIXED},
    /* heads and strides as models have them, which more kernels take */
    {1, 4, 2, 300, 300, 64, 0, 0, 0, PACKED, JOINED},
    {2, 2, 1, 385, 385, 64, 0, 0, 0, HEAD_MAJOR, MIXED},
    {1, 3, 3, 200, 200, 80, 0, 0, 0, PACKED, JOINED},
    {2, 2, 2, 131, 131, 96, 0, 0, 0, HEAD_MAJOR, JOINED},
    {1, 4, 2, 257, 257, 128, 0, 0, 0, PACKED, MIXED},
    {1, 2, 1, 150, 277, 128, 127, 60, 0, PACKED, JOINED},
    {1, 4, 2, 97, 65, 128, 30, 20, 0, HEAD_MAJOR, JOINED},
    {1, 2, 2, 130, 130, 128, 130, 0, 0, PACKED, MIXED},
    {2, 2, 1, 260, 260, 256, 0, 70, 0, PACKED, MIXED},
    {1, 2, 1, 1, 40, 128, 39, 0, 0, PACKED, JOINED},
    {1, 4, 2, 323, 323, 136, 0, 0, 0, PACKED, JOINED},
    {1, 2, 1, 150, 277, 256, 127, 60, 0, PACKED, JOINED},
    {1, 4, 2, 97, 65, 192, 30, 20, 0, HEAD_MAJOR, JOINED},
    {2, 2, 2, 130, 130, 256, 130, 0, 0, PACKED, MIXED},
    {3, 3, 1, 193, 193, 256, 0, 0, 0, PACKED, MIXED},
    /* dropout, likewise; also keys that begin between four random words */
    {1, 4, 2, 300, 300, 64, 0, 0, 0.2f, PACKED, JOINED},
    {2, 2, 1, 386, 386, 64, 0, 0, 0.5f, HEAD_MAJOR, MIXED},
    {1, 3, 3, 199, 199, 80, 0, 0, 0.1f, PACKED, JOINED},
    {1, 4, 2, 257, 257, 128, 0, 0, 0.1f, PACKED, MIXED},
    {2, 2, 1, 260, 260, 128, 0, 0, 0.3f, HEAD_MAJOR, JOINED},
    {1, 2, 1, 150, 278, 128, 127, 60, 0.2f, PACKED, JOINED},
    {1, 4, 2, 97, 65, 96, 30, 20, 0.1f, HEAD_MAJOR, JOINED},
    {1, 2, 1, 323, 323, 136, 0, 0, 0.1f, PACKED, JOINED},
    {2, 4, 2, 260, 260, 256, 0, 70, 0.3f, PACKED, MIXED},
    {1, 2, 2, 130, 130, 256, 130, 0, 0.1f, PACKED, MIXED},
    /* few queries and many keys, as in generation, which some kernels split */
    {1, 8, 2, 1, 3000, 128, 2999, 0, 0, PACKED, JOINED},
    {2, 4, 4, 1, 2001, 64, 2000, 0, 0, PACKED, MIXED},
    {1, 6, 2, 1, 1900, 256, 1850, 700, 0, PACKED, JOINED},
    {2, 4, 1, 5, 2500, 96, 2495, 0, 0, HEAD_MAJOR, JOINED},
    {1, 1, 1, 150, 2000, 128, 1900, 1500, 0, PACKED, MIXED},
    {1, 1, 1, 1100, 1100, 40, 0, 0, 0, PACKED, JOINED},
    /* unfused only: wide heads, and more queries than one block has */
    {1, 2, 1, 40, 40, 300, 0, 0, 0, FUSED, JOINED},
    {1, 1, 1, 3000, 3000, 3, 0, 0, 0, FUSED, JOINED},
};

enum { ALL_SHAPES = sizeof shapes / sizeof *shapes, SHAPES = ALL_SHAPES - 2 };

/* Queries without a key: -infinity on both sides, which has no distance. */
static void match_lse_without_keys(struct problem *p)
{
    for (int64_t i = 0; i < p->lse.n; i++)
        if (p->lse.d[i] == -INFINITY && p->lse.f[i] == -INFINITY)
            p->lse.d[i] = p->lse.f[i] = 0;
}

static const double few[] = {[MDSK_BF16] = 0x1p-9, [MDSK_F16] = 0x1p-12};

/* The elements between the heads belong to nobody and stay 0 on both sides. */
static void against_the_matrix(int unfused, int n, int64_t alibi)
{
    for (int t = 0; t < DTYPES * n; t++) {
        const enum mdsk_dtype type = dtypes[t % DTYPES];
        struct problem p;
        /* With ALiBi scores are larger, and few keys have most of the size. */
        double near = spare(type) + (alibi ? few[type] : 0), more;

        if (!is_sampled(t, DTYPES))
            continue;
        problem_init(&p, &shapes[t / DTYPES]);
        p.s.dtype = type;
        p.s.unfused = unfused;
        p.s.alibi_heads = alibi;
        /* Scores grow with distances, to Sk / 2; f32 loses 2^-24 of them. */
        more = alibi ? fmax(4, (double)p.s.Sk / 30) : grown(&p.s);
        run_fwd(&p);
        reference_fwd(&p);
        assert_near_as(type, "attention o", &p.o, more * tolerance.o + near);
        match_lse_without_keys(&p);
        assert_near("attention lse", &p.lse, more * tolerance.lse + spare(type) / 100);
        run_bwd(&p); /* from o as it is stored, and so does the reference */
        reference_bwd(&p);
        assert_near_as(type, "attention dq", &p.dq, more * tolerance.dq + near);
        assert_near_as(type, "attention dk", &p.dk, more * tolerance.dk + near);
        assert_near_as(type, "attention dv", &p.dv, more * tolerance.dv + near);
        problem_fini(&p);
    }
}

static void test_against_the_matrix(void **state)
{
    (void)state;
    against_the_matrix(0, SHAPES, 0);
}

/* Numbers of heads that are a power of 2, and that are not. */
static void test_alibi_against_the_matrix(void **state)
{
    (void)state;
    against_the_matrix(0, SHAPES, 7);
    against_the_matrix(1, SHAPES, 16);
}

/* Those of BLOOM and MPT with 8 and with 12 heads. */
static void test_alibi_slopes(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        assert_true(mdsk_alibi_slope(8, i) == ldexpf(1, -i - 1));
        assert_true(mdsk_alibi_slope(12, i) == ldexpf(1, -i - 1));
    }
    for (int i = 0; i < 4; i++)
        assert_true(fabsf(mdsk_alibi_slope(12, 8 + i) * ldexpf(1, i) - sqrtf(0.5f)) <
                    1e-7f);
    assert_true(mdsk_alibi_slope(1, 0) == ldexpf(1, -8));
}

static void test_plain_against_the_matrix(void **state)
{
    (void)state;
    against_the_matrix(1, ALL_SHAPES, 0);
}

static void assert_same_bits(const struct problem *a, const struct problem *b)
{
    size_t queries = (size_t)a->o.n * sizeof(float);
    size_t keys = (size_t)a->k.n * sizeof(float);

    assert_memory_equal(a->o.f, b->o.f, queries);
    assert_memory_equal(a->dq.f, b->dq.f, queries);
    assert_memory_equal(a->dk.f, b->dk.f, keys);
    assert_memory_equal(a->dv.f, b->dv.f, keys);
}

/* Documents that nothing is before change no bit. */
static void test_one_document_is_no_document(void **state)
{
    struct shape c = {2, 4, 2, 333, 333, 33, 0, 0, 0.2f, FUSED, JOINED};

    (void)state;
    for (int t = 0; t < 2 * DTYPES; t++) {
        struct problem p[2];

        for (int i = 0; i < 2; i++) {
            c.documents = i ? WHOLE : JOINED;
            problem_init(&p[i], &c);
            p[i].s.dtype = dtypes[t / 2];
            p[i].s.unfused = t % 2;
            run_fwd(&p[i]);
            run_bwd(&p[i]);
        }
        assert_same_bits(&p[0], &p[1]);
        problem_fini(&p[0]);
        problem_fini(&p[1]);
    }
}

/* A window of one key, or documents of one token: its value is the result, and scores
 * do not matter. */
static void test_window_of_one(void **state)
{
    static const struct shape c[] = {{2, 3, 3, 131, 131, 16, 0, 1, 0, PACKED, JOINED},
                                     {2, 3, 3, 131, 131, 16, 0, 0, 0, PACKED, SINGLE}};
    struct problem p;

    (void)state;
    for (int t = 0; t < 4; t++) {
        problem_init(&p, &c[t / 2]);
        p.s.unfused = t % 2;
        run_fwd(&p);
        run_bwd(&p);
        for (int64_t i = 0; i < p.o.n; i++) {
            assert_true(fabsf(p.o.f[i] - p.v.f[i]) < 1e-6f);
            assert_true(fabsf(p.dv.f[i] - p.d_o.f[i]) < 1e-6f);
            assert_true(fabsf(p.dq.f[i]) < 1e-5f && fabsf(p.dk.f[i]) < 1e-5f);
        }
        problem_fini(&p);
    }
}

static double problem_loss(void *ctx)
{
    struct problem *p = ctx;

    reference_fwd(p);
    return inner(p->o.n, p->o.d, p->d_o.d);
}

static void test_slopes(void **state)
{
    static const int cases[] = {3, 6, 9, 10, 12, 14, 18, 19, 26};
    enum { CASES = sizeof cases / sizeof *cases };

    (void)state;
    for (int t = 0; t < 2 * CASES; t++) {
        struct problem p;

        problem_init(&p, &shapes[cases[t % CASES]]);
        p.s.unfused = t / CASES;
        run_fwd(&p);
        run_bwd(&p);
        assert_slope("attention dq", &p.q, p.dq.f, NULL, problem_loss, &p, 40);
        assert_slope("attention dk", &p.k, p.dk.f, NULL, problem_loss, &p, 40);
        assert_slope("attention dv", &p.v, p.dv.f, NULL, problem_loss, &p, 40);
        problem_fini(&p);
    }
}

/* Scores of hundreds must not overflow, and a later larger maximum rescales. */
static void large_scores(int unfused)
{
    static const struct shape c = {1, 1, 1, 200, 200, 16, 0, 0, 0, PACKED, JOINED};
    struct problem p;

    problem_init(&p, &c);
    p.s.unfused = unfused;
    for (int64_t i = 0; i < p.k.n; i++) {
        p.k.f[i] *= (float)(i / 16) / 4;
        p.k.d[i] = (double)p.k.f[i];
    }
    run_fwd(&p);
    reference_fwd(&p);
    assert_near("attention o, large scores", &p.o, 1e-4);
    assert_near("attention lse, large scores", &p.lse, 1e-6);
    problem_fini(&p);
}

static void test_large_scores(void **state)
{
    (void)state;
    large_scores(0);
    large_scores(1);
}

static void same_bits(const struct shape *c, int threads_a, int threads_b)
{
    struct problem p[2];

    for (int t = 0; t < 2; t++) {
        problem_init(&p[t], c);
        mdsk_cpu_set_threads(t ? threads_b : threads_a);
        run_fwd(&p[t]);
        run_bwd(&p[t]);
    }
    assert_same_bits(&p[0], &p[1]);
    problem_fini(&p[0]);
    problem_fini(&p[1]);
    mdsk_cpu_set_threads(2);
}

/* 5 threads on 4 heads take the two walks of the backward pass, 2 and 1 the single. */
static void test_same_bits_for_any_threads(void **state)
{
    static const struct shape cases[] = {
        {2, 4, 2, 333, 333, 64, 0, 0, 0.2f, FUSED, JOINED},
        {2, 4, 2, 333, 333, 64, 0, 100, 0.2f, FUSED, JOINED}};

    (void)state;
    for (int t = 0; t < 2; t++) {
        same_bits(&cases[t], 2, 2);
        same_bits(&cases[t], 1, 2);
        same_bits(&cases[t], 1, 3);
        same_bits(&cases[t], 1, 5);
    }
}

static void test_cost(void **state)
{
    struct mdsk_attention_fwd a = {
        .shape = {.B = 2, .A = 3, .G = 1, .Sq = 5, .Sk = 5, .D = 7}};

    (void)state;
    assert_true(mdsk_attention_fwd_cost(&a).flops == 4.0 * 7 * 6 * 15);
    assert_true(mdsk_attention_fwd_cost(&a).bytes ==
                4.0 * (2 * 2 * 5 * 3 * 7 + 2 * 2 * 5 * 1 * 7 + 2 * 5 * 3));
    a.shape.q_offset = 2; /* sees 3, 4, 5, 5, 5 */
    assert_true(mdsk_attention_fwd_cost(&a).flops == 4.0 * 7 * 6 * 22);
    a.shape.q_offset = 9;
    assert_true(mdsk_attention_fwd_cost(&a).flops == 4.0 * 7 * 6 * 25);
    a.shape.q_offset = 0;
    a.shape.Sk = 100;
    assert_true(mdsk_attention_fwd_cost(&a).flops == 4.0 * 7 * 6 * 15);
}

/* Backward, a query costs the keys of its block and of the window. */
static void test_window_bwd_blocks(void **state)
{
    static const struct {
        int64_t heads, window, queries;
    } rows[] = {
        {16, 1024, 1024}, {32, 1024, 1024}, /* no fewer than the window has */
        {16, 100, 1024},  {16, 128, 896},   {128, 5, 128},    {4, 1024, 3072},
        {2, 1024, 7168}, /* few heads: more queries in a call */
        {1, 1024, 8192},  {1, 8192, 8192},  {16, 8192, 8192}, {16, 10000, 10112},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int64_t S = 64; S <= 1 << 20; S *= 128) {
            const struct mdsk_attention_shape s = {
                .A = rows[i].heads, .Sq = S, .Sk = S, .window = rows[i].window};

            assert_int_equal(mdsk_attention_window_bwd_block(&s),
                             S < rows[i].queries ? S : rows[i].queries);
        }
}

/* Of every shape above, counted one by one. */
static void test_window_cost(void **state)
{
    (void)state;
    for (int t = 0; t < ALL_SHAPES; t++) {
        const struct shape *c = &shapes[t];
        struct mdsk_attention_fwd a = {.shape = {.B = 1,
                                                 .A = 1,
                                                 .G = 1,
                                                 .Sq = c->Sq,
                                                 .Sk = c->Sk,
                                                 .D = 1,
                                                 .q_offset = c->q_offset,
                                                 .window = c->window}};
        int64_t pairs = 0;

        for (int64_t i = 0; i < c->Sq; i++)
            for (int64_t j = 0; j < c->Sk && j <= i + c->q_offset; j++)
                pairs += c->window == 0 || j > i + c->q_offset - c->window;
        assert_true(mdsk_attention_fwd_cost(&a).flops == 4.0 * (double)pairs);
    }
}

/* Of a million tokens only a few queries' scores are there at a time. */
static void test_plain_memory(void **state)
{
    const int64_t MiB = 1 << 20;
    struct mdsk_attention_fwd f = {.shape = {.B = 4,
                                             .A = 32,
                                             .G = 8,
                                             .Sq = 1 << 20,
                                             .Sk = 1 << 20,
                                             .D = 128,
                                             .dtype = MDSK_BF16}};
    struct mdsk_attention_bwd b = {.shape = f.shape};

    (void)state;
    assert_in_range(mdsk_attention_fwd_scratch(&f), 32 * MiB, 40 * MiB); /* a block's */
    f.shape.unfused = b.shape.unfused = 1;
    assert_in_range(mdsk_attention_fwd_scratch(&f), 512 * MiB, 640 * MiB);
    assert_in_range(mdsk_attention_bwd_scratch(&b), (512 + 1024) * MiB,
                    (512 + 1024 + 256) * MiB);
    f.shape.Sq = f.shape.Sk = b.shape.Sq = b.shape.Sk = 2048;
    assert_in_range(mdsk_attention_fwd_scratch(&f), 24 * MiB, 32 * MiB);
    assert_in_range(mdsk_attention_bwd_scratch(&b), 48 * MiB, 64 * MiB);
    assert_true(mdsk_attention_bwd_cost(&b).bytes >
                (4 * 4 + 5 * 2) * 128 * 2048.0 * 2048 / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_the_matrix),
        cmocka_unit_test(test_plain_against_the_matrix),
        cmocka_unit_test(test_alibi_against_the_matrix),
        cmocka_unit_test(test_alibi_slopes),
        cmocka_unit_test(test_one_document_is_no_document),
        cmocka_unit_test(test_window_of_one),
        cmocka_unit_test(test_slopes),
        cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_same_bits_for_any_threads),
        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_window_bwd_blocks),
        cmocka_unit_test(test_window_cost),
        cmocka_unit_test(test_plain_memory),
    };

    mdsk_cpu_set_threads(2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
