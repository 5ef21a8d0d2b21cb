/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels: the 8-bit formats, code by code, and casts with their scales. */
#include "tests/kernels/fp8_formats.h"

/* Relative Euclidean distance of sums in f32 from the double reference. */
static const double sum_tolerance = 3e-7;

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

static double largest(int64_t n, const double *x)
{
    double most = 0;

    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(x[i]));
    return most;
}

/* All codes of both results, scaled for numbers up to `most`, of an x from a to b, and
 * the zeros behind them. */
static void check_codes_between(double most, const struct cast *c, const double *a,
                                const double *b)
{
    const struct format *f = format_of(c->a.to);
    int64_t R = c->a.R, C = c->a.C, ldC = mdsk_fp8_ld(C), ldR = mdsk_fp8_ld(R);
    double factor = reference_factor(f, most);

    assert_true((double)c->scale[0] == 1 / factor);
    for (int64_t r = 0; r < R; r++)
        for (int64_t i = 0; i < C; i++) {
            double got = meaning(f, c->rows[r * ldC + i]);
            double one = nearest(f, a[r * C + i] * factor);
            double other = got == one ? one : nearest(f, b[r * C + i] * factor);

            assert_true(fmin(one, other) <= got && got <= fmax(one, other));
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
    check_codes_between(largest(c->a.R * c->a.C, x), c, x, x);
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
        assert_near("fp8_cast sum", &sum, sum_tolerance);
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
    assert_near("fp8_cast sum of many", &sum, 10 * sum_tolerance);
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
        check_codes_between(4 * most, &c, x.d, x.d);
        free_cast(&c);
        vec_free(&x);
    }
}

/* y = f(x) as type t holds it, in f a little less and in d a little more; rows.c holds
 * this f to doubles. */
static void activate(enum mdsk_activation_kind kind, enum mdsk_dtype t, int64_t R,
                     int64_t F, const struct vec *x, struct vec *less, struct vec *more)
{
    const double off = 1e-5; /* GPUs approximate exp */
    struct mdsk_activation_fwd act = {kind, R, F, MDSK_F32, x->f, less->f};

    assert_int_equal(mdsk_cpu()->activation_fwd(NULL, &act), 0);
    for (int64_t i = 0; i < R * F; i++) {
        less->d[i] = rounded(t, (double)less->f[i] * (1 - off));
        more->d[i] = rounded(t, (double)less->f[i] * (1 + off));
    }
}

/* The cpu has the same bits as activation and cast one after the other. */
static void check_two_steps(const struct cast *one, struct vec *y)
{
    const struct mdsk_fp8_cast *a = &one->a;
    struct mdsk_activation_fwd act = {a->kind,  a->R, a->C,
                                      a->dtype, a->x, vec_as(a->dtype, y)};
    struct cast two;

    if (backend() != mdsk_cpu())
        return;
    assert_int_equal(backend()->activation_fwd(NULL, &act), 0);
    cast_both_ways(a->dtype, a->to, a->R, a->C, act.y, NULL, &two);
    assert_true(two.scale[0] == one->scale[0]);
    assert_memory_equal(two.rows, one->rows, (size_t)(a->R * mdsk_fp8_ld(a->C)));
    assert_memory_equal(two.cols, one->cols, (size_t)(a->C * mdsk_fp8_ld(a->R)));
    free_cast(&two);
}

static void test_cast_of_activation(void **state)
{
    enum { KINDS = MDSK_ACTIVATION_KINDS };

    (void)state;
    for (int t = 0; t < KINDS * DTYPES * CASTS; t++) {
        const enum mdsk_activation_kind kind = (enum mdsk_activation_kind)(t % KINDS);
        const enum mdsk_dtype type = dtypes[t / KINDS % DTYPES];
        int64_t R = cast_shapes[t / KINDS / DTYPES][0];
        int64_t C = cast_shapes[t / KINDS / DTYPES][1];
        struct vec x = vec_random(mdsk_activation_inputs(kind, R, C), (uint32_t)t, 2);
        struct vec less = vec_unset(R * C), more = vec_unset(R * C);
        uint32_t amax = 0;
        struct cast c;
        double most;

        cast_both_ways(type, formats[t % 2].type, R, C, vec_as(type, &x), NULL, &c);
        c.a.activated = 1;
        c.a.kind = kind;
        c.a.amax = &amax;
        assert_int_equal(backend()->fp8_cast(NULL, &c.a), 0);
        activate(kind, type, R, C, &x, &less, &more);
        most = (double)mdsk_f32_of_bits(amax);
        assert_true(largest(R * C, less.d) <= most && most <= largest(R * C, more.d));
        check_codes_between(most, &c, less.d, more.d);
        check_two_steps(&c, &less);
        free_cast(&c);
        vec_free(&x);
        vec_free(&less);
        vec_free(&more);
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
        cmocka_unit_test(test_cast_of_activation),
        cmocka_unit_test(test_cast_of_extremes),
        cmocka_unit_test(test_scale_at_its_steps),
    };

    mdsk_cpu_set_threads(2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
