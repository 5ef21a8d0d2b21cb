/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels: GEMMs of the 8-bit formats, beside plain loops in double. */
#include "tests/kernels/fp8_formats.h"

/* Relative Euclidean distance of sums in f32 from the double reference. */
static const double tolerance = 5e-7;

/* What codes mean: [rows, n]. */
static double *values(const struct format *f, const uint8_t *code, int64_t rows,
                      int64_t n, float scale)
{
    double *v = malloc((size_t)(rows * n) * sizeof *v);

    assert_non_null(v);
    for (int64_t i = 0; i < rows * n; i++)
        v[i] = meaning(f, code[i / n * mdsk_fp8_ld(n) + i % n]) * (double)scale;
    return v;
}

struct operand {
    struct vec x;
    struct cast c;
    double *v; /* what it is multiplied as */
};

static struct operand make_operand(enum mdsk_dtype to, int64_t rows, int64_t K,
                                   uint32_t seed, double spread)
{
    struct operand o = {.x = vec_random(rows * K, seed, spread)};

    cast_both_ways(MDSK_F32, to, rows, K, o.x.f, NULL, &o.c);
    o.v = values(format_of(to), o.c.rows, rows, K, o.c.scale[0]);
    return o;
}

static void free_operand(struct operand *o)
{
    vec_free(&o->x);
    free_cast(&o->c);
    free(o->v);
}

static struct mdsk_fp8_operand operand_of(const struct operand *o)
{
    return (struct mdsk_fp8_operand){o->c.a.to, o->c.rows, o->c.scale};
}

static void multiply(const struct operand *a, const struct operand *b, int64_t M,
                     int64_t N, int64_t K, double *y)
{
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++)
            for (int64_t p = 0; p < K; p++)
                y[i * N + j] += a->v[i * K + p] * b->v[j * K + p];
}

/* Hopper sums products in 14 bits, and moves the sum to f32 every 128 of them, or with
 * `fast` at the end. */
static double gemm_tolerance(int fast, int64_t K)
{
    if (backend() == mdsk_cpu())
        return tolerance;
    return fast ? 0x1p-11 * sqrt((double)K) : 1e-3;
}

/* GPUs need whole vectors along N. */
static int64_t columns_here(int64_t N)
{
    return backend() == mdsk_cpu() ? N : mdsk_fp8_ld(N);
}

static void check_gemm(enum mdsk_dtype ta, enum mdsk_dtype tb, enum mdsk_dtype type,
                       const int64_t *s, int with)
{
    int64_t M = s[0], N = columns_here(s[1]), K = s[2];
    int add = with && type == MDSK_F32, biased = with && type != MDSK_F32;
    struct operand a = make_operand(ta, M, K, 1, 30),
                   b = make_operand(tb, N, K, 2, .01);
    struct vec y = add ? vec_random(M * N, 3, 1) : vec_unset(M * N);
    struct vec bias = vec_random(N, 4, 1);
    struct mdsk_fp8_gemm g = {.M = M,
                              .N = N,
                              .K = K,
                              .dtype = type,
                              .fast = type != MDSK_F32,
                              .add = add,
                              .a = operand_of(&a),
                              .b = operand_of(&b),
                              .bias = biased ? vec_as(type, &bias) : NULL,
                              .y = vec_as(type, &y)};

    assert_int_equal(backend()->fp8_gemm(NULL, &g), 0);
    for (int64_t i = 0; i < M * N && !add; i++)
        y.d[i] = biased ? bias.d[i % N] : 0;
    multiply(&a, &b, M, N, K, y.d);
    assert_near_as(type, "fp8_gemm y", &y, gemm_tolerance(g.fast, K));
    free_operand(&a);
    free_operand(&b);
    vec_free(&y);
    vec_free(&bias);
}

static void test_gemm(void **state)
{
    static const int64_t shapes[][3] = {{1, 1, 1},    {3, 5, 7},     {17, 33, 65},
                                        {16, 16, 16}, {129, 48, 64}, {70, 1030, 31},
                                        {5, 64, 1027}};
    static const enum mdsk_dtype pairs[][2] = {
        {MDSK_E4M3, MDSK_E4M3}, {MDSK_E5M2, MDSK_E4M3}, {MDSK_E4M3, MDSK_E5M2}};

    (void)state;
    for (int s = 0; s < (int)(sizeof shapes / sizeof *shapes); s++)
        for (int t = 0; t < 3 * 2 * DTYPES; t++)
            check_gemm(pairs[t % 3][0], pairs[t % 3][1], dtypes[t / 6], shapes[s],
                       t / 3 % 2);
}

/* NaN or infinity anywhere in an operand leave nothing finite. */
static void test_gemm_of_what_is_not_finite(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    enum { M = 20, N = 16, K = 40 };

    (void)state;
    for (int t = 0; t < 3; t++) {
        struct operand b = make_operand(MDSK_E4M3, N, K, 2, 1);
        struct vec x = vec_random(M * K, 1, 1), y = vec_zero(M * N);
        struct cast c;
        struct mdsk_fp8_gemm g = {
            .M = M, .N = N, .K = K, .b = operand_of(&b), .y = y.f};

        x.f[3 * K + 5] = bad[t];
        cast_both_ways(MDSK_F32, MDSK_E5M2, M, K, x.f, NULL, &c);
        g.a = (struct mdsk_fp8_operand){MDSK_E5M2, c.rows, c.scale};
        assert_int_equal(backend()->fp8_gemm(NULL, &g), 0);
        for (int i = 0; i < M * N; i++)
            assert_true(isnan(y.f[i]));
        free_cast(&c);
        free_operand(&b);
        vec_free(&x);
        vec_free(&y);
    }
}

/* Another scale, because of other elements, changes nothing: each half of the rows by
 * itself, the second 100 times smaller, has the results that both have together. */
static void test_results_do_not_depend_on_the_scale(void **state)
{
    enum { M = 32, N = 16, K = 64, HALF = M / 2 };
    struct operand b = make_operand(MDSK_E4M3, N, K, 2, 1);
    struct vec x = vec_random(M * K, 1, 1), whole = vec_unset(M * N);
    struct vec parts = vec_unset(M * N);
    struct mdsk_fp8_gemm g = {.M = M, .N = N, .K = K, .b = operand_of(&b)};
    float scale[2];

    (void)state;
    for (int i = HALF * K; i < M * K; i++)
        x.f[i] /= 100;
    for (int i = 0; i < M * K; i++) /* normal with either scale */
        x.f[i] = copysignf(fmaxf(fabsf(x.f[i]), 1e-3f), x.f[i]);
    for (int half = -1; half < 2; half++) {
        int64_t first = half > 0 ? HALF : 0;
        struct cast c;

        g.M = half < 0 ? M : HALF;
        cast_both_ways(MDSK_F32, MDSK_E4M3, g.M, K, x.f + first * K, NULL, &c);
        g.a = (struct mdsk_fp8_operand){MDSK_E4M3, c.rows, c.scale};
        g.y = half < 0 ? whole.f : parts.f + first * N;
        assert_int_equal(backend()->fp8_gemm(NULL, &g), 0);
        scale[half > 0] = c.scale[0];
        free_cast(&c);
    }
    assert_true(scale[0] > 16 * scale[1]);
    if (backend() == mdsk_cpu())
        assert_memory_equal(whole.f, parts.f, M * N * sizeof(float));
    for (int i = 0; i < M * N; i++)
        whole.d[i] = (double)parts.f[i];
    assert_near("fp8_gemm in parts", &whole, gemm_tolerance(0, K));
    free_operand(&b);
    vec_free(&x);
    vec_free(&whole);
    vec_free(&parts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_gemm_of_what_is_not_finite),
        cmocka_unit_test(test_results_do_not_depend_on_the_scale),
    };

    mdsk_cpu_set_threads(2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
