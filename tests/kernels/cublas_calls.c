/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels: which products cuBLASLt is asked for, and which of its algorithms run,
 * without a GPU.  Results are held against the cpu backend. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/cpu/unfused.h"
#include "kernels/cuda/unfused.h"
#include "kernels/cuda/gemm.h"
#include "tests/kernels/fake_cublas.h"

/* ---- problems ---- */

enum { MOST = 8192 };

/* Numbers of a type, aligned as the GPU's memory is. */
struct numbers {
    _Alignas(256) float f[MOST];
    enum mdsk_dtype type;
    int n;
};

static void fill(struct numbers *x, enum mdsk_dtype t, int64_t n, uint32_t seed)
{
    assert_true(n <= MOST);
    x->type = t;
    x->n = (int)n;
    for (int i = 0; i < x->n; i++) {
        seed = seed * 1664525u + 1013904223u;
        fake_put(t, x->f, i, (float)(seed >> 8) * 0x1p-23f - 1);
    }
}

/* One or two roundings apart, as products may be. */
static void assert_close(const char *what, const struct numbers *got,
                         const struct numbers *want)
{
    static const double unit[] = {1e-6, 0x1p-8, 0x1p-11};
    double off = 0, all = 0;

    for (int i = 0; i < got->n; i++) {
        double g = (double)fake_get(got->type, got->f, i),
               w = (double)fake_get(got->type, want->f, i);

        off += (g - w) * (g - w);
        all += w * w;
    }
    if (!(sqrt(off) <= unit[got->type] * sqrt(all)))
        fail_msg("%s is off by %g", what, sqrt(off / all));
}

/* A linear layer twice: the cuda backend's results and the cpu's. */
static struct {
    int64_t R, in, out;
    enum mdsk_dtype t;
    struct numbers x, w, b, dy, u;
    struct numbers y[2], gelu[2], dx[2], dw[2], db[2];
} l;

/* A shape of its own each time: plans are kept. */
static void layer(enum mdsk_dtype t, int64_t in, int64_t out)
{
    static int64_t rows = 8;

    l.R = rows++;
    l.in = in;
    l.out = out;
    l.t = t;
    fill(&l.x, t, l.R * in, 1);
    fill(&l.w, t, out * in, 2);
    fill(&l.b, t, out, 3);
    fill(&l.dy, t, l.R * out, 4);
    fill(&l.u, t, l.R * in, 5);
    for (int i = 0; i < 2; i++) {
        fill(&l.y[i], t, l.R * out, 6);
        fill(&l.gelu[i], t, l.R * out, 6);
        fill(&l.dx[i], t, l.R * in, 6);
        fill(&l.dw[i], MDSK_F32, out * in, 7);
        fill(&l.db[i], MDSK_F32, out, 8);
    }
}

static int forward(int bias, int with_gelu)
{
    struct mdsk_linear_fwd a = {.R = l.R,
                                .in = l.in,
                                .out = l.out,
                                .dtype = l.t,
                                .x = l.x.f,
                                .w = l.w.f,
                                .b = bias ? l.b.f : NULL,
                                .y = l.y[0].f,
                                .gelu = with_gelu ? l.gelu[0].f : NULL};
    int err = mdsk_linear_fwd_cuda(NULL, &a);

    if (err)
        return err;
    a.y = l.y[1].f;
    a.gelu = with_gelu ? l.gelu[1].f : NULL;
    assert_int_equal(mdsk_linear_fwd_cpu(NULL, &a), 0);
    assert_close("y", &l.y[0], &l.y[1]);
    assert_close("gelu", &l.gelu[0], &l.gelu[1]);
    return 0;
}

static void backward_input(int with_gelu)
{
    struct mdsk_linear_bwd_input a = {.R = l.R,
                                      .in = l.in,
                                      .out = l.out,
                                      .dtype = l.t,
                                      .dy = l.dy.f,
                                      .w = l.w.f,
                                      .u = with_gelu ? l.u.f : NULL,
                                      .dx = l.dx[0].f};

    assert_int_equal(mdsk_linear_bwd_input_cuda(NULL, &a), 0);
    a.dx = l.dx[1].f;
    assert_int_equal(mdsk_linear_bwd_input_cpu(NULL, &a), 0);
    assert_close("dx", &l.dx[0], &l.dx[1]);
}

static void backward_weight(int bias, int write)
{
    struct mdsk_linear_bwd_weight a = {.R = l.R,
                                       .in = l.in,
                                       .out = l.out,
                                       .dtype = l.t,
                                       .write = write,
                                       .x = l.x.f,
                                       .dy = l.dy.f,
                                       .dw = l.dw[0].f,
                                       .db = bias ? l.db[0].f : NULL};

    assert_int_equal(mdsk_linear_bwd_weight_cuda(NULL, &a), 0);
    a.dw = l.dw[1].f;
    a.db = bias ? l.db[1].f : NULL;
    assert_int_equal(mdsk_linear_bwd_weight_cpu(NULL, &a), 0);
    assert_close("dw", &l.dw[0], &l.dw[1]);
    assert_close("db", &l.db[0], &l.db[1]);
}

static void forget_counts(void)
{
    fake.searches = fake.products = fake.beside = fake.events = 0;
}

static int start(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof fake);
    for (int i = 0; i < FAKE_ALGOS; i++)
        fake.ms[i] = 1;
    return 0;
}

/* Unfused attention with two query heads per key head, by the steps of the cuda backend
 * and of the cpu backend. */
static void attend(enum mdsk_dtype t, float drops)
{
    enum { B = 2, A = 4, G = 2, S = 37, D = 11 };
    static struct numbers q, k, v, d_o, o[2], lse[2], dq[2], dk[2], dv[2], delta[2];
    const struct mdsk_attention_shape s = {.B = B,
                                           .A = A,
                                           .G = G,
                                           .Sq = S,
                                           .Sk = S,
                                           .D = D,
                                           .scale = 0.3f,
                                           .dtype = t,
                                           .dropout = {drops, 1, 2, 3}};
    const struct mdsk_unfused_steps *const steps[] = {&mdsk_unfused_steps_cuda,
                                                      &mdsk_unfused_steps_cpu};

    fill(&q, t, B * S * A * D, 1);
    fill(&k, t, B * S * G * D, 2);
    fill(&v, t, B * S * G * D, 3);
    fill(&d_o, t, B * S * A * D, 4);
    for (int i = 0; i < 2; i++) {
        const struct mdsk_heads queries = {NULL, S * A * D, A * D, D};
        const struct mdsk_heads keys = {NULL, S * G * D, G * D, D};
        struct mdsk_attention_fwd f = {.shape = s, .lse = lse[i].f};
        struct mdsk_attention_bwd b = {.shape = s, .lse = lse[0].f};

        fill(&o[i], t, B * S * A * D, 5);
        fill(&lse[i], MDSK_F32, B * A * S, 5);
        fill(&delta[i], MDSK_F32, B * A * S, 5);
        fill(&dq[i], t, B * S * A * D, 5);
        fill(&dk[i], t, B * S * G * D, 5);
        fill(&dv[i], t, B * S * G * D, 5);
        f.q = f.o = b.q = b.o = b.d_o = b.dq = queries;
        f.k = f.v = b.k = b.v = b.dk = b.dv = keys;
        f.q.data = b.q.data = q.f;
        f.k.data = b.k.data = k.f;
        f.v.data = b.v.data = v.f;
        f.o.data = o[i].f;
        b.o.data = o[0].f;
        b.d_o.data = d_o.f;
        b.dq.data = dq[i].f;
        b.dk.data = dk[i].f;
        b.dv.data = dv[i].f;
        b.delta = delta[i].f;
        assert_int_equal(mdsk_unfused_attention_fwd(steps[i], NULL, &f), 0);
        assert_int_equal(mdsk_unfused_attention_bwd(steps[i], NULL, &b), 0);
    }
    assert_close("o", &o[0], &o[1]);
    assert_close("lse", &lse[0], &lse[1]);
    assert_close("dq", &dq[0], &dq[1]);
    assert_close("dk", &dk[0], &dk[1]);
    assert_close("dv", &dv[0], &dv[1]);
}

/* ---- FP8 ---- */

/* One operand: rows of codes and their scale, as the cpu backend casts them. */
struct codes {
    _Alignas(256) uint8_t code[MOST];
    _Alignas(16) float scale;
};

static struct mdsk_fp8_operand cast(enum mdsk_dtype to, int64_t rows, int64_t K,
                                    uint32_t seed, struct codes *out)
{
    static struct numbers x;
    struct mdsk_fp8_cast a = {
        .R = rows, .C = K, .to = to, .x = x.f, .rows = out->code, .scale = &out->scale};

    fill(&x, MDSK_F32, rows * K, seed);
    assert_true(rows * mdsk_fp8_ld(K) <= MOST);
    assert_int_equal(mdsk_fp8_cast_cpu(NULL, &a), 0);
    return (struct mdsk_fp8_operand){to, out->code, &out->scale};
}

/* The forward GEMM with a bias (dtype bf16), or a weight's gradient (f32). */
static void multiply_fp8(enum mdsk_dtype ta, enum mdsk_dtype tb, enum mdsk_dtype type,
                         int with, int64_t K)
{
    enum { N = 32 };
    static int64_t rows = 5; /* another shape each time */
    static struct codes a, b;
    static struct numbers y[2], bias;
    struct mdsk_fp8_gemm g = {.M = rows++,
                              .N = N,
                              .K = K,
                              .dtype = type,
                              .fast = type != MDSK_F32,
                              .add = with && type == MDSK_F32,
                              .bias = with && type != MDSK_F32 ? bias.f : NULL};

    fill(&bias, type, N, 3);
    g.a = cast(ta, g.M, K, 1, &a);
    g.b = cast(tb, N, K, 2, &b);
    for (int i = 0; i < 2; i++)
        fill(&y[i], type, g.M * N, 6);
    g.y = y[0].f;
    assert_int_equal(mdsk_fp8_gemm_cuda(NULL, &g), 0);
    assert_int_equal(fake.last_fast, g.fast);
    g.y = y[1].f;
    assert_int_equal(mdsk_fp8_gemm_cpu(NULL, &g), 0);
    assert_close("y of FP8", &y[0], &y[1]);
}

/* ---- tests ---- */

static void fp8_as_the_cpu_multiplies_it(void **state)
{
    (void)state;
    for (int with = 0; with < 2; with++)
        for (int64_t K = 16; K < 60; K += 13) {
            multiply_fp8(MDSK_E4M3, MDSK_E4M3, MDSK_BF16, with, K);
            multiply_fp8(MDSK_E5M2, MDSK_E4M3, MDSK_BF16, 0, K);
            multiply_fp8(MDSK_E5M2, MDSK_E4M3, MDSK_F32, with, K);
        }
}

/* A sum's accumulation belongs to its plan; plans of 16 bits have no scale. */
static void fp8_and_16_bits_do_not_mix(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        multiply_fp8(MDSK_E4M3, MDSK_E4M3, MDSK_BF16, 1, 32);
        layer(MDSK_BF16, 32, 32);
        assert_int_equal(forward(1, 0), 0);
        backward_input(0);
        backward_weight(1, 0);
    }
}

/* Twice each: the first call searches. */
static void all_twice(enum mdsk_dtype t, int64_t in, int64_t out)
{
    for (int bias = 0; bias < 2; bias++)
        for (int more = 0; more < 2; more++) {
            layer(t, in, out);
            for (int i = 0; i < 2; i++) {
                assert_int_equal(forward(bias, more), 0);
                backward_input(more);
                backward_weight(bias, more);
            }
        }
}

/* Whatever is fastest, with and without epilogues, and by shapes those do not suit. */
static void all_ways_lead_to_the_same(void **state)
{
    (void)state;
    for (int way = 0; way < 8; way++) {
        start(NULL);
        fake.epilogue_ms = way & 1 ? 3.0f : 0.1f;
        fake.separate_ms = 1;
        fake.no_epilogue = way >> 1 & 1;
        fake.repeatable = way >> 2;
        for (int t = MDSK_F32; t <= MDSK_F16; t++) {
            all_twice((enum mdsk_dtype)t, 16, 24);
            all_twice((enum mdsk_dtype)t, 13, 21);
        }
    }
}

static void the_fastest_is_kept(void **state)
{
    (void)state;
    fake.ms[1] = 0.5f;
    fake.ms[2] = 0.48f; /* not clearly faster than the one before */
    layer(MDSK_BF16, 16, 24);
    forward(0, 0);
    assert_int_equal(fake.last_algo, 1);
    assert_int_equal(fake.searches, 1);
    assert_true(fake.products > 2 * MDSK_CUDA_CANDIDATES &&
                fake.events == 2 * MDSK_CUDA_CANDIDATES);
    forget_counts();
    fake.ms[1] = 9; /* nobody looks again */
    forward(0, 0);
    assert_int_equal(fake.last_algo, 1);
    assert_int_equal(fake.searches + fake.events, 0);
    assert_int_equal(fake.products, 1);
}

static int last_algo_at(double seconds)
{
    fake.seconds = seconds;
    forget_counts();
    forward(0, 0);
    return (int)fake.last_algo;
}

/* A second later: the first two that were close, and the winner. */
static void a_hot_gpu_races_again(void **state)
{
    static const float cold[] = {1, 1.5f, 1.01f, 1.02f, 0.94f};

    (void)state;
    memcpy(fake.ms, cold, sizeof cold);
    layer(MDSK_BF16, 16, 24);
    assert_int_equal(last_algo_at(5), 4);
    fake.ms[1] = fake.ms[3] = 0.1f;
    fake.ms[2] = 0.93f;
    assert_int_equal(last_algo_at(5.9), 4);
    assert_int_equal(fake.events, 0);
    assert_int_equal(last_algo_at(6.1), 2);
    assert_int_equal(fake.events, 2 * 3);
    assert_true(fake.products > 3 * 120); /* 120 ms each */
    assert_int_equal(fake.searches, 0);
    fake.ms[2] = 9; /* nobody looks again */
    assert_int_equal(last_algo_at(60), 2);
    assert_int_equal(fake.products, 1);
}

/* Where two seconds are long. */
static void a_hot_gpu_races_when_it_pays(void **state)
{
    (void)state;
    mdsk_cuda_set_hot_after(60);
    layer(MDSK_BF16, 16, 24);
    last_algo_at(5);
    last_algo_at(64.9);
    assert_int_equal(fake.events, 0);
    last_algo_at(65.1);
    assert_true(fake.events > 0);
    mdsk_cuda_set_hot_after(1);
}

static void small_products_race_once(void **state)
{
    (void)state;
    for (int i = 0; i < FAKE_ALGOS; i++)
        fake.ms[i] = 0.01f;
    layer(MDSK_BF16, 16, 24);
    last_algo_at(0);
    last_algo_at(60);
    assert_int_equal(fake.products, 1);
}

/* Sums of columns go along until a hot race says that they cost more there. */
static void what_goes_along_is_decided_again(void **state)
{
    (void)state;
    fake.separate_ms = 0.3f;
    fake.epilogue_ms = 0.2f;
    layer(MDSK_BF16, 16, 24);
    for (int hot = 0; hot < 2; hot++) {
        backward_weight(1, 0);
        forget_counts();
        backward_weight(1, 0);
        assert_int_equal(fake.products, 1);
        assert_int_equal(fake.beside, hot);
        fake.seconds = 2;
        fake.epilogue_ms = 0.4f;
    }
}

static void bits_matter_more_than_time(void **state)
{
    (void)state;
    fake.repeatable = 1;
    fake.ms[2] = 0.1f;
    layer(MDSK_BF16, 16, 24);
    forward(1, 1);
    backward_weight(1, 0);
    assert_int_equal(fake.events, 0);
    assert_int_equal(fake.last_algo, 0);
    assert_int_equal(fake.products, 2);
    assert_int_equal(fake.beside, 2);
}

/* Two launches or one, whatever takes less in all; the same for GELU's gradient and for
 * sums of columns. */
static void work_goes_along_if_that_is_faster(void **state)
{
    static const struct {
        float epilogue_ms, separate_ms;
        int fused;
    } cases[] = {{0.2f, 0.5f, 1}, {0.5f, 0.2f, 0}};

    (void)state;
    for (int i = 0; i < 2; i++) {
        fake.epilogue_ms = cases[i].epilogue_ms;
        fake.separate_ms = cases[i].separate_ms;
        layer(MDSK_BF16, 16, 24);
        for (int again = 0; again < 2; again++) {
            forget_counts();
            forward(0, 1);
            backward_input(1);
            backward_weight(1, 0);
        }
        assert_int_equal(fake.searches + fake.events, 0);
        assert_int_equal(fake.products, 3);
        assert_int_equal(fake.beside, cases[i].fused ? 0 : 3);
    }
}

/* Vectors of 16 bytes, or GELU by itself: cuBLASLt's epilogues read beside others. */
static void odd_shapes_have_no_gelu_epilogue(void **state)
{
    (void)state;
    fake.separate_ms = 100;
    layer(MDSK_BF16, 12, 24);
    forward(1, 1);
    assert_int_equal(fake.last_epilogue, CUBLASLT_EPILOGUE_BIAS);
    layer(MDSK_BF16, 16, 20);
    forward(1, 1);
    assert_int_equal(fake.last_epilogue, CUBLASLT_EPILOGUE_BIAS);
    layer(MDSK_BF16, 16, 24);
    forward(1, 1);
    assert_int_equal(fake.last_epilogue, CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
}

static void addresses_have_plans_of_their_own(void **state)
{
    struct mdsk_linear_fwd a;

    (void)state;
    layer(MDSK_BF16, 16, 24);
    forward(0, 0);
    a = (struct mdsk_linear_fwd){.R = l.R,
                                 .in = l.in,
                                 .out = l.out,
                                 .dtype = l.t,
                                 .x = l.x.f,
                                 .w = l.w.f,
                                 .y = (uint16_t *)l.gelu[0].f + 1};
    assert_int_equal(mdsk_linear_fwd_cuda(NULL, &a), 0);
    assert_int_equal(fake.searches, 2);
    assert_int_equal(mdsk_linear_fwd_cuda(NULL, &a), 0);
    assert_int_equal(fake.searches, 2);
}

/* Products that add are timed beside what they add to. */
static void attention_is_products(void **state)
{
    (void)state;
    for (int t = MDSK_F32; t <= MDSK_F16; t++) {
        attend((enum mdsk_dtype)t, 0);
        attend((enum mdsk_dtype)t, 0.25f);
    }
}

/* Algorithm 66 runs only where its splits divide K, which is `in` here, by as many
 * suggestions as it takes. */
static void uneven_splits_are_left_out(void **state)
{
    static const struct {
        int32_t id;
        int32_t splits;
        int64_t in;
        uint64_t runs;
    } cases[] = {{66, 16, 24, 10},
                 {66, 12, 16, 10},
                 {66, 12, 24, 0},
                 {66, 1, 24, 0},
                 {65, 16, 24, 0}};

    (void)state;
    for (int i = 0; i < 5; i++)
        for (int t = MDSK_F32; t <= MDSK_F16; t++) {
            for (int a = 0; a < 10; a++) {
                fake.id[a] = cases[i].id;
                fake.splits[a] = cases[i].splits;
            }
            layer((enum mdsk_dtype)t, cases[i].in, 24);
            assert_int_equal(forward(1, 0), 0);
            assert_int_equal(fake.last_algo, cases[i].runs);
        }
}

/* Where every suggestion is such a split, those are asked for that do not split. */
static void without_even_splits_nothing_is_split(void **state)
{
    const int last = FAKE_ALGOS - 1;

    (void)state;
    fake.most = last;
    for (int a = 0; a < FAKE_ALGOS; a++) {
        fake.id[a] = 66;
        fake.splits[a] = 16;
    }
    layer(MDSK_BF16, 24, 24);
    assert_int_equal(forward(0, 0), -ENOTSUP);
    assert_int_equal(fake.products, 0);
    fake.splits[last] = 1;
    layer(MDSK_BF16, 20, 24);
    assert_int_equal(forward(0, 0), 0);
    assert_int_equal(fake.last_algo, last);
}

/* Of three matrices one after the other, in every orientation. */
static void batches_are_products(void **state)
{
    static struct numbers x, w, z, y[2];

    (void)state;
    for (int c = 0; c < 3 * 8; c++) {
        const enum mdsk_dtype t = (enum mdsk_dtype)(MDSK_F32 + c / 8);
        struct mdsk_muon_product a = {.batch = 3,
                                      .m = 17,
                                      .n = 24,
                                      .k = 9,
                                      .flip_x = c & 1,
                                      .flip_w = c >> 1 & 1,
                                      .dtype = t,
                                      .alpha = 2.25f,
                                      .beta = -4.75f,
                                      .x = x.f,
                                      .w = w.f,
                                      .z = c & 4 ? z.f : NULL,
                                      .y = y[0].f};

        fill(&x, t, a.batch * a.m * a.k, 1);
        fill(&w, t, a.batch * a.k * a.n, 2);
        fill(&z, t, a.batch * a.m * a.n, 3);
        fill(&y[0], t, a.batch * a.m * a.n, 4);
        fill(&y[1], t, a.batch * a.m * a.n, 5);
        assert_int_equal(mdsk_muon_product_cuda(NULL, &a), 0);
        assert_int_equal(fake.allocations, 0); /* as no product adds to itself */
        a.y = y[1].f;
        assert_int_equal(mdsk_muon_product_cpu(NULL, &a), 0);
        assert_close("y", &y[0], &y[1]);
    }
}

static void no_algorithm_is_said(void **state)
{
    (void)state;
    fake.nothing = 1;
    layer(MDSK_BF16, 16, 24);
    assert_int_equal(forward(0, 0), -ENOTSUP);
    assert_int_equal(forward(1, 0), -ENOTSUP);
    assert_int_equal(fake.products, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(all_ways_lead_to_the_same, start),
        cmocka_unit_test_setup(fp8_as_the_cpu_multiplies_it, start),
        cmocka_unit_test_setup(fp8_and_16_bits_do_not_mix, start),
        cmocka_unit_test_setup(the_fastest_is_kept, start),
        cmocka_unit_test_setup(a_hot_gpu_races_again, start),
        cmocka_unit_test_setup(a_hot_gpu_races_when_it_pays, start),
        cmocka_unit_test_setup(small_products_race_once, start),
        cmocka_unit_test_setup(what_goes_along_is_decided_again, start),
        cmocka_unit_test_setup(bits_matter_more_than_time, start),
        cmocka_unit_test_setup(work_goes_along_if_that_is_faster, start),
        cmocka_unit_test_setup(odd_shapes_have_no_gelu_epilogue, start),
        cmocka_unit_test_setup(addresses_have_plans_of_their_own, start),
        cmocka_unit_test_setup(attention_is_products, start),
        cmocka_unit_test_setup(uneven_splits_are_left_out, start),
        cmocka_unit_test_setup(without_even_splits_nothing_is_split, start),
        cmocka_unit_test_setup(batches_are_products, start),
        cmocka_unit_test_setup(no_algorithm_is_said, start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
