/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels: the 8-bit formats, code by code; casts with their scales; and GEMMs of them,
 * beside plain loops in double. */
#include "tests/kernels/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/fp8.h"

/* Relative Euclidean distance of sums in f32 from the double reference. */
static const struct {
    double gemm, sum;
} tolerance = {.gemm = 5e-7, .sum = 3e-7};

/* ---- the formats, by their definition ---- */

/* `fraction` bits under an exponent of at least `least`; the largest code. */
struct format {
    enum mdsk_dtype type;
    int fraction, least, top;
    uint8_t largest;
    float (*to_f32)(uint8_t code);
    uint8_t (*from_f32)(float x);
};

static float e4m3_to(uint8_t code)
{
    return mdsk_e4m3_to_f32(code);
}

static uint8_t e4m3_from(float x)
{
    return mdsk_f32_to_e4m3(x);
}

static float e5m2_to(uint8_t code)
{
    return mdsk_e5m2_to_f32(code);
}

static uint8_t e5m2_from(float x)
{
    return mdsk_f32_to_e5m2(x);
}

static const struct format formats[] = {
    {MDSK_E4M3, 3, -6, 8, 0x7e, e4m3_to, e4m3_from},
    {MDSK_E5M2, 2, -14, 15, 0x7b, e5m2_to, e5m2_from}};

static const struct format *format_of(enum mdsk_dtype t)
{
    return &formats[t == MDSK_E5M2];
}

/* Beyond the largest, NaN; but E5M2's 0x7c is infinity. */
static double meaning(const struct format *f, uint8_t code)
{
    int magnitude = code & 0x7f, exponent = magnitude >> f->fraction;
    double fraction = magnitude & ((1 << f->fraction) - 1), sign = code & 0x80 ? -1 : 1;

    if (magnitude > f->largest)
        return f->type == MDSK_E5M2 && magnitude == 0x7c ? sign * INFINITY : NAN;
    if (exponent == 0)
        return sign * ldexp(fraction, f->least - f->fraction);
    return sign * ldexp(1 + ldexp(fraction, -f->fraction), exponent - 1 + f->least);
}

/* The nearest number of the format, ties to even, by comparing with all of them. */
static double nearest(const struct format *f, double x)
{
    int best = 0;

    for (int code = 1; code <= f->largest; code++) {
        double off = fabs(fabs(x) - meaning(f, (uint8_t)code));
        double now = fabs(fabs(x) - meaning(f, (uint8_t)best));

        if (off < now || (off == now && code % 2 == 0))
            best = code;
    }
    return copysign(meaning(f, (uint8_t)best), x);
}

static void test_every_code(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        for (int code = 0; code < 256; code++) {
            double want = meaning(&formats[t], (uint8_t)code);
            float got = formats[t].to_f32((uint8_t)code);

            assert_true(isnan(want) ? isnan(got) : (double)got == want);
            if (isnan(want))
                assert_true(isnan(formats[t].to_f32(formats[t].from_f32(got))));
            else if (isfinite(want))
                assert_int_equal(formats[t].from_f32(got), code);
        }
}

/* Around every boundary: the middle of two neighbours, and one f32 either side. */
static void test_rounding(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        const struct format *f = &formats[t];

        for (uint8_t code = 0; code < f->largest; code++) {
            double low = meaning(f, code), high = meaning(f, (uint8_t)(code + 1));
            float middle = (float)((low + high) / 2);
            float near[] = {middle, nextafterf(middle, 0), nextafterf(middle, INFINITY),
                            nextafterf((float)low, INFINITY)};

            for (int i = 0; i < 4; i++) {
                double want = nearest(f, (double)near[i]);

                assert_true((double)f->to_f32(f->from_f32(near[i])) == want);
                assert_true((double)f->to_f32(f->from_f32(-near[i])) == -want);
            }
        }
    }
}

static void test_large_and_special(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        const struct format *f = &formats[t];
        float largest = (float)meaning(f, f->largest);

        assert_true(largest == (t ? 57344 : 448));
        assert_int_equal(f->from_f32(nextafterf(largest, INFINITY)), f->largest);
        assert_int_equal(f->from_f32(1e30f), f->largest);
        assert_int_equal(f->from_f32(-INFINITY), f->largest | 0x80);
        assert_true(isnan(f->to_f32(f->from_f32(NAN))));
        assert_int_equal(f->from_f32(0x1p-140f), 0);
        assert_int_equal(f->from_f32(-0.0f), 0x80);
    }
}

/* ---- casts ---- */

/* The largest power of two that keeps `most` in the format, by trying. */
static double reference_factor(const struct format *f, double most)
{
    int e = 126;

    while (most > 0 && ldexp(most, e) > meaning(f, f->largest))
        e--;
    return most > 0 ? ldexp(1, e) : 1;
}

/* Codes and scale of x [R, C], both ways. */
struct cast {
    struct mdsk_fp8_cast a;
    uint8_t *rows, *cols;
    _Alignas(16) float scale[4];
};

static uint8_t *unset_codes(int64_t rows, int64_t n)
{
    size_t size = (size_t)(rows * mdsk_fp8_ld(n));
    uint8_t *codes = aligned_alloc(16, size);

    assert_non_null(codes);
    memset(codes, 0x55, size);
    return codes;
}

static void cast_both_ways(enum mdsk_dtype type, enum mdsk_dtype to, int64_t R,
                           int64_t C, const void *x, float *sum, struct cast *out)
{
    *out = (struct cast){.a = {.R = R, .C = C, .dtype = type, .to = to, .x = x}};
    out->a.rows = out->rows = unset_codes(R, C);
    out->a.cols = out->cols = unset_codes(C, R);
    out->a.scale = out->scale;
    out->a.sum = sum;
    assert_int_equal(backend()->fp8_cast(NULL, &out->a), 0);
}

static void free_cast(struct cast *c)
{
    free(c->rows);
    free(c->cols);
}

static double largest(int64_t n, const double *x)
{
    double most = 0;

    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(x[i]));
    return most;
}

/* All codes of both results, scaled for numbers up to `most`, and the zeros behind
 * them. */
static void check_codes_up_to(double most, const struct cast *c, const double *x)
{
    const struct format *f = format_of(c->a.to);
    int64_t R = c->a.R, C = c->a.C, ldC = mdsk_fp8_ld(C), ldR = mdsk_fp8_ld(R);
    double factor = reference_factor(f, most);

    assert_true((double)c->scale[0] == 1 / factor);
    for (int64_t r = 0; r < R; r++)
        for (int64_t i = 0; i < C; i++) {
            double want = nearest(f, x[r * C + i] * factor);

            assert_true(meaning(f, c->rows[r * ldC + i]) == want);
            assert_int_equal(c->cols[i * ldR + r], c->rows[r * ldC + i]);
        }
    for (int64_t r = 0; r < R; r++)
        for (int64_t i = C; i < ldC; i++)
            assert_int_equal(c->rows[r * ldC + i], 0);
    for (int64_t i = 0; i < C; i++)
        for (int64_t r = R; r < ldR; r++)
            assert_int_equal(c->cols[i * ldR + r], 0);
}

static void check_codes(const struct cast *c, const double *x)
{
    check_codes_up_to(largest(c->a.R * c->a.C, x), c, x);
}

static const int64_t cast_shapes[][2] = {{1, 1},    {3, 5},    {16, 16},  {17, 33},
                                         {64, 128}, {65, 130}, {130, 65}, {200, 9},
                                         {1, 1030}, {129, 264}};

enum { CASTS = sizeof cast_shapes / sizeof *cast_shapes };

static void test_cast(void **state)
{
    static const double spreads[] = {1e-30, 1e-4, 1, 3e4};

    (void)state;
    for (int t = 0; t < 2 * DTYPES * CASTS; t++) {
        const enum mdsk_dtype type = dtypes[t / 2 % DTYPES];
        int64_t R = cast_shapes[t / 6][0], C = cast_shapes[t / 6][1];
        double spread = type == MDSK_F16 ? 1 : spreads[t % 4];
        struct vec x = vec_random(R * C, (uint32_t)t, spread);
        struct vec sum = vec_random(C, 2, 1);
        void *given = vec_as(type, &x);
        struct cast c;

        cast_both_ways(type, formats[t % 2].type, R, C, given, sum.f, &c);
        check_codes(&c, x.d);
        for (int64_t i = 0; i < R * C; i++)
            sum.d[i % C] += x.d[i];
        assert_near("fp8_cast sum", &sum, tolerance.sum);
        free_cast(&c);
        vec_free(&x);
        vec_free(&sum);
    }
}

/* More rows than partial sums have blocks; the same bits each time. */
static void test_sums_of_many_rows(void **state)
{
    enum { R = 3 * 128 * 512 + 70, C = 3 };
    struct vec x = vec_random(R * C, 1, 1), sum = vec_random(C, 2, 1);
    struct vec again = vec_random(C, 2, 1);
    struct cast c;

    (void)state;
    cast_both_ways(MDSK_F32, MDSK_E4M3, R, C, x.f, sum.f, &c);
    c.a.sum = again.f;
    assert_int_equal(backend()->fp8_cast(NULL, &c.a), 0);
    assert_memory_equal(sum.f, again.f, C * sizeof(float));
    for (int64_t i = 0; i < R * C; i++) {
        sum.d[i % C] += x.d[i];
        assert_int_equal(c.cols[i % C * mdsk_fp8_ld(R) + i / C],
                         c.rows[i / C * mdsk_fp8_ld(C) + i % C]);
    }
    assert_near("fp8_cast sum of many", &sum, 10 * tolerance.sum);
    free_cast(&c);
    vec_free(&x);
    vec_free(&sum);
    vec_free(&again);
}

/* One result alone has the same codes. */
static void test_cast_one_way(void **state)
{
    struct vec x = vec_random(33 * 70, 1, 1);
    struct mdsk_fp8_cast a;
    struct cast c, both;

    (void)state;
    cast_both_ways(MDSK_F32, MDSK_E4M3, 33, 70, x.f, NULL, &both);
    cast_both_ways(MDSK_F32, MDSK_E4M3, 33, 70, x.f, NULL, &c);
    memset(c.rows, 0, 33 * 80);
    memset(c.cols, 0, 70 * 48);
    a = c.a;
    a.cols = NULL;
    assert_int_equal(backend()->fp8_cast(NULL, &a), 0);
    a = c.a;
    a.rows = NULL;
    assert_int_equal(backend()->fp8_cast(NULL, &a), 0);
    assert_memory_equal(c.rows, both.rows, 33 * 80);
    assert_memory_equal(c.cols, both.cols, 70 * 48);
    free_cast(&c);
    free_cast(&both);
    vec_free(&x);
}

/* The search keeps the largest magnitude; a cast that is given one, here four times as
 * large, believes it. */
static void test_known_amax(void **state)
{
    (void)state;
    for (int t = 0; t < DTYPES * CASTS; t++) {
        int64_t R = cast_shapes[t / DTYPES][0], C = cast_shapes[t / DTYPES][1];
        struct vec x = vec_random(R * C, (uint32_t)t, 1);
        uint32_t amax = 0x55555555;
        struct cast c;
        double most;

        cast_both_ways(dtypes[t % DTYPES], MDSK_E5M2, R, C,
                       vec_as(dtypes[t % DTYPES], &x), NULL, &c);
        c.a.amax = &amax;
        assert_int_equal(backend()->fp8_cast(NULL, &c.a), 0);
        most = largest(R * C, x.d);
        assert_int_equal(amax, vec_amax(&x));
        amax += 2u << 23;
        c.a.amax_known = 1;
        assert_int_equal(backend()->fp8_cast(NULL, &c.a), 0);
        assert_true((double)mdsk_f32_of_bits(amax) == 4 * most);
        check_codes_up_to(4 * most, &c, x.d);
        free_cast(&c);
        vec_free(&x);
    }
}

/* All zeros, one outlier of 1e4, subnormal numbers of f32, and the largest of all. */
static void test_cast_of_extremes(void **state)
{
    enum { N = 40 };

    (void)state;
    for (int t = 0; t < 2; t++) {
        struct vec x = vec_zero(N);
        struct cast c;

        cast_both_ways(MDSK_F32, formats[t].type, 4, 10, x.f, NULL, &c);
        check_codes(&c, x.d);
        assert_true(c.scale[0] == 1);
        free_cast(&c);
        for (int i = 0; i < N; i++)
            x.d[i] = (double)(x.f[i] = (float)(i - 20) * 1e-3f);
        x.d[7] = (double)(x.f[7] = 1e4f);
        cast_both_ways(MDSK_F32, formats[t].type, 10, 4, x.f, NULL, &c);
        check_codes(&c, x.d);
        free_cast(&c);
        for (int i = 0; i < N; i++)
            x.d[i] = (double)(x.f[i] = (float)(i - 20) * 0x1p-130f);
        cast_both_ways(MDSK_F32, formats[t].type, 10, 4, x.f, NULL, &c);
        assert_true(c.scale[0] == 0x1p-126f);
        check_codes(&c, x.d);
        free_cast(&c);
        for (int i = 0; i < N; i++)
            x.d[i] = (double)(x.f[i] = i % 2 ? 0x1.fffffep127f : -1);
        cast_both_ways(MDSK_F32, formats[t].type, 10, 4, x.f, NULL, &c);
        check_codes(&c, x.d);
        free_cast(&c);
        vec_free(&x);
    }
}

/* The largest power of two that fits: at either side of 1.75 times one. */
static void test_scale_at_its_steps(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        for (int k = -20; k <= 20; k++) {
            float edge = ldexpf(1.75f, k);
            float factor = ldexpf(1, formats[t].top - k);

            assert_true(mdsk_fp8_factor(formats[t].type, mdsk_f32_bits(edge)) ==
                        factor);
            edge = nextafterf(edge, INFINITY);
            assert_true(mdsk_fp8_factor(formats[t].type, mdsk_f32_bits(edge)) ==
                        factor / 2);
        }
}

/* ---- GEMMs ---- */

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
        return tolerance.gemm;
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
        cmocka_unit_test(test_every_code),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_large_and_special),
        cmocka_unit_test(test_cast),
        cmocka_unit_test(test_sums_of_many_rows),
        cmocka_unit_test(test_cast_one_way),
        cmocka_unit_test(test_known_amax),
        cmocka_unit_test(test_cast_of_extremes),
        cmocka_unit_test(test_scale_at_its_steps),
        cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_gemm_of_what_is_not_finite),
        cmocka_unit_test(test_results_do_not_depend_on_the_scale),
    };

    mdsk_cpu_set_threads(2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
