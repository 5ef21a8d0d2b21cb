/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels: norms. */
#include "tests/kernels/check.h"

#include <math.h>
#include <string.h>

/* Relative Euclidean distance from the double reference.  Without vectors (sanitizers)
 * a row of 3000 is summed number by number, and squares of 16-bit numbers, which end in
 * zeros, then meet more ties that round down than up: hence 3e-6, and more where a row
 * is longer. */
static const struct {
    double norm, norm_dx, norm_sums;
} tolerance = {.norm = 3e-6, .norm_dx = 1e-6, .norm_sums = 3e-6};

static const struct {
    int64_t R, H;
} shapes[] = {{1, 1}, {1, 3}, {3, 17}, {17, 65}, {130, 129}, {700, 64}, {5, 3000}};

enum { SHAPES = sizeof shapes / sizeof *shapes };

struct norm {
    enum mdsk_norm_kind kind;
    enum mdsk_dtype dtype;
    int64_t R, H;
    struct vec x, r, sum, gamma, beta, y, mean, rstd, dy, dx, dgamma, dbeta;
    int with_r, with_beta, without_y, with_d; /* with_d: dx has a gradient before */
    uint32_t *amax;                           /* as in kernels/norm.h */
};

enum { EPS_INVERSE = 100000 };

static void norm_init(struct norm *n, enum mdsk_norm_kind kind, int64_t R, int64_t H)
{
    *n = (struct norm){.kind = kind,
                       .R = R,
                       .H = H,
                       .with_r = 1,
                       .with_beta = kind == MDSK_LAYERNORM,
                       .with_d = 1};
    n->x = vec_random(R * H, 1, 1);
    n->r = vec_random(R * H, 2, 2);
    n->sum = vec_unset(R * H);
    n->gamma = vec_random(H, 3, 1);
    n->beta = vec_random(H, 4, 1);
    n->y = vec_unset(R * H);
    n->mean = vec_unset(R);
    n->rstd = vec_unset(R);
    n->dy = vec_random(R * H, 5, 1);
    n->dx = vec_random(R * H, 6, 1);
    n->dgamma = vec_random(H, 7, 1);
    n->dbeta = vec_random(H, 8, 1);
}

static void norm_fini(struct norm *n)
{
    struct vec *all[] = {&n->x,    &n->r,    &n->sum, &n->gamma, &n->beta,   &n->y,
                         &n->mean, &n->rstd, &n->dy,  &n->dx,    &n->dgamma, &n->dbeta};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        vec_free(all[i]);
}

static void norm_run_fwd(struct norm *n)
{
    struct mdsk_norm_fwd a = {.kind = n->kind,
                              .R = n->R,
                              .H = n->H,
                              .dtype = n->dtype,
                              .eps = 1.0f / EPS_INVERSE,
                              .x = vec_as(n->dtype, &n->x),
                              .r = n->with_r ? vec_as(n->dtype, &n->r) : NULL,
                              .sum = n->with_r ? vec_as(n->dtype, &n->sum) : NULL,
                              .gamma = vec_as(n->dtype, &n->gamma),
                              .beta = n->with_beta ? vec_as(n->dtype, &n->beta) : NULL,
                              .y = n->without_y ? NULL : vec_as(n->dtype, &n->y),
                              .mean = n->kind == MDSK_LAYERNORM ? n->mean.f : NULL,
                              .rstd = n->rstd.f,
                              .amax = n->amax};

    assert_int_equal(backend()->norm_fwd(NULL, &a), 0);
}

static void norm_run_bwd(struct norm *n)
{
    struct mdsk_norm_bwd a = {.kind = n->kind,
                              .R = n->R,
                              .H = n->H,
                              .dtype = n->dtype,
                              .x = vec_as(n->dtype, &n->sum),
                              .gamma = vec_as(n->dtype, &n->gamma),
                              .mean = n->kind == MDSK_LAYERNORM ? n->mean.f : NULL,
                              .rstd = n->rstd.f,
                              .dy = vec_as(n->dtype, &n->dy),
                              .d = n->with_d ? vec_as(n->dtype, &n->dx) : NULL,
                              .dx = vec_as(n->dtype, &n->dx),
                              .dgamma = n->dgamma.f,
                              .dbeta = n->with_beta ? n->dbeta.f : NULL};

    assert_int_equal(backend()->norm_bwd(NULL, &a), 0);
}

static void norm_reference_row(struct norm *n, int64_t row)
{
    double *x = n->sum.d + row * n->H, *y = n->y.d + row * n->H;
    double mean = 0, var = 0, rstd;

    for (int64_t i = 0; i < n->H; i++) {
        x[i] = n->x.d[row * n->H + i] + (n->with_r ? n->r.d[row * n->H + i] : 0);
        x[i] = rounded(n->dtype, x[i]); /* statistics are of the sum as stored */
        mean += x[i] / (double)n->H;
    }
    if (n->kind == MDSK_RMSNORM)
        mean = 0;
    for (int64_t i = 0; i < n->H; i++)
        var += (x[i] - mean) * (x[i] - mean) / (double)n->H;
    rstd = 1 / sqrt(var + 1.0 / EPS_INVERSE);
    for (int64_t i = 0; i < n->H; i++)
        y[i] = (x[i] - mean) * rstd * n->gamma.d[i] + (n->with_beta ? n->beta.d[i] : 0);
    n->mean.d[row] = mean;
    n->rstd.d[row] = rstd;
}

static double norm_loss(void *ctx)
{
    struct norm *n = ctx;

    for (int64_t row = 0; row < n->R; row++)
        norm_reference_row(n, row);
    return inner(n->R * n->H, n->y.d, n->dy.d);
}

static void norm_reference_row_bwd(struct norm *n, int64_t row)
{
    const double *x = n->sum.d + row * n->H, *dy = n->dy.d + row * n->H;
    double *dx = n->dx.d + row * n->H;
    double rstd = n->rstd.d[row], mean = n->mean.d[row], g = 0, gx = 0;

    for (int64_t i = 0; i < n->H; i++) {
        double xhat = (x[i] - mean) * rstd;

        g += dy[i] * n->gamma.d[i] / (double)n->H;
        gx += dy[i] * n->gamma.d[i] * xhat / (double)n->H;
        n->dgamma.d[i] += dy[i] * xhat;
        n->dbeta.d[i] += n->with_beta ? dy[i] : 0;
    }
    if (n->kind == MDSK_RMSNORM)
        g = 0;
    for (int64_t i = 0; i < n->H; i++)
        dx[i] = (n->with_d ? dx[i] : 0) +
                rstd * (dy[i] * n->gamma.d[i] - g - (x[i] - mean) * rstd * gx);
}

/* How much more a long row may be off. */
static double longer_row(int64_t H)
{
    return H > 3000 ? (double)H / 3000 : 1;
}

static void norm_compare(struct norm *n)
{
    double longer = longer_row(n->H);

    norm_run_fwd(n);
    norm_loss(n);
    assert_near_as(n->dtype, "norm y", &n->y, longer * tolerance.norm);
    assert_near("norm rstd", &n->rstd, longer * tolerance.norm);
    vec_back(n->dtype, &n->sum);
    assert_near("norm sum", &n->sum, tolerance.norm);
    norm_run_bwd(n);
    for (int64_t row = 0; row < n->R; row++)
        norm_reference_row_bwd(n, row);
    assert_near_as(n->dtype, "norm dx", &n->dx, longer * tolerance.norm_dx);
    assert_near("norm dgamma", &n->dgamma, longer * tolerance.norm_sums);
    assert_near("norm dbeta", &n->dbeta, tolerance.norm_sums);
}

static void test_norm(void **state)
{
    (void)state;
    /* from the second shape on: one column is its own mean, and leaves only rounding */
    for (int t = 2 * DTYPES; t < 2 * DTYPES * SHAPES; t++) {
        struct norm n;

        norm_init(&n, t % 2 ? MDSK_RMSNORM : MDSK_LAYERNORM, shapes[t / 6].R,
                  shapes[t / 6].H);
        n.dtype = dtypes[t / 2 % DTYPES];
        n.with_d = t / 6 % 2;
        norm_compare(&n);
        norm_fini(&n);
    }
}

/* Widths of models, which backends may treat each in its own way. */
static void test_norm_of_models(void **state)
{
    static const int64_t wide[][2] = {{130, 256},  {130, 768}, {90, 1024}, {70, 1600},
                                      {70, 2048},  {40, 4096}, {21, 5120}, {21, 8192},
                                      {10, 12288}, {7, 16384}};

    (void)state;
    for (int t = 0; t < 2 * (int)(sizeof wide / sizeof *wide); t++) {
        struct norm n;

        norm_init(&n, t % 2 ? MDSK_RMSNORM : MDSK_LAYERNORM, wide[t / 2][0],
                  wide[t / 2][1]);
        n.dtype = MDSK_BF16;
        n.with_d = t / 2 % 3 != 1;
        norm_compare(&n);
        norm_fini(&n);
    }
}

/* It is that of y as stored, and asking for it changes nothing; NaN is the largest.
 * The shapes reach every way of dividing a row among threads. */
static void test_norm_amax(void **state)
{
    static const int64_t more[][2] = {{9, 1024}, {3, 4096}, {2, 12288}, {2, 40000}};
    enum { MORE = sizeof more / sizeof *more };

    (void)state;
    for (int t = 0; t < 2 * DTYPES * (SHAPES + MORE); t++) {
        int s = t / (2 * DTYPES);
        int64_t R = s < SHAPES ? shapes[s].R : more[s - SHAPES][0];
        int64_t H = s < SHAPES ? shapes[s].H : more[s - SHAPES][1];
        uint32_t amax = 0x7fffffff;
        struct norm n, m;

        norm_init(&n, t % 2 ? MDSK_RMSNORM : MDSK_LAYERNORM, R, H);
        norm_init(&m, n.kind, R, H);
        n.dtype = m.dtype = dtypes[t / 2 % DTYPES];
        m.amax = &amax;
        norm_run_fwd(&n);
        norm_run_fwd(&m);
        vec_back(n.dtype, &n.y);
        vec_back(m.dtype, &m.y);
        assert_memory_equal(n.y.f, m.y.f, (size_t)(R * H) * sizeof(float));
        assert_int_equal(amax, vec_amax(&m.y));
        m.x.f[R * H - 1] = NAN;
        norm_run_fwd(&m);
        assert_true(amax > 0x7f800000);
        norm_fini(&n);
        norm_fini(&m);
    }
}

/* Without r the sum is neither read nor written; LayerNorm without beta. */
static void test_norm_without_residual_or_beta(void **state)
{
    struct norm n;

    (void)state;
    norm_init(&n, MDSK_LAYERNORM, 33, 65);
    n.with_r = n.with_beta = 0;
    norm_run_fwd(&n);
    norm_loss(&n);
    assert_near("norm y, no residual", &n.y, tolerance.norm);
    assert_true(isnan(n.sum.f[0]));
    norm_fini(&n);
}

/* Statistics without y are those with it; the result is not touched. */
static void test_norm_statistics_alone(void **state)
{
    (void)state;
    for (int t = 0; t < 2 * DTYPES * SHAPES; t++) {
        struct norm n, m;

        norm_init(&n, t % 2 ? MDSK_RMSNORM : MDSK_LAYERNORM, shapes[t / 6].R,
                  shapes[t / 6].H);
        norm_init(&m, n.kind, n.R, n.H);
        n.dtype = m.dtype = dtypes[t / 2 % DTYPES];
        m.without_y = 1;
        norm_run_fwd(&n);
        norm_run_fwd(&m);
        assert_memory_equal(n.rstd.f, m.rstd.f, (size_t)n.R * sizeof(float));
        if (n.kind == MDSK_LAYERNORM)
            assert_memory_equal(n.mean.f, m.mean.f, (size_t)n.R * sizeof(float));
        norm_fini(&n);
        norm_fini(&m);
    }
}

/* ---- norms whose columns several ranks have ---- */

enum { RANKS = 3 };

/* Columns c .. c + n - 1 of each of R rows of H. */
static void copy_columns(struct vec *to, const struct vec *from, int64_t R, int64_t H,
                         int64_t c)
{
    int64_t n = to->n / R;

    for (int64_t i = 0; i < to->n; i++) {
        to->f[i] = from->f[i / n * H + c + i % n];
        to->d[i] = from->d[i / n * H + c + i % n];
    }
}

static void norm_step_fwd(struct norm *n, const struct mdsk_norm_part *part)
{
    int rest = part->step == MDSK_NORM_REST;
    struct mdsk_norm_fwd a = {.kind = n->kind,
                              .R = n->R,
                              .H = n->H,
                              .dtype = n->dtype,
                              .eps = 1.0f / EPS_INVERSE,
                              .x = vec_as(n->dtype, &n->x),
                              .gamma = vec_as(n->dtype, &n->gamma),
                              .beta = n->with_beta ? vec_as(n->dtype, &n->beta) : NULL,
                              .y = rest ? vec_as(n->dtype, &n->y) : NULL,
                              .mean = n->kind == MDSK_LAYERNORM ? n->mean.f : NULL,
                              .rstd = n->rstd.f,
                              .part = *part};

    assert_int_equal(backend()->norm_fwd(NULL, &a), 0);
}

static void norm_step_bwd(struct norm *n, const struct mdsk_norm_part *part)
{
    int rest = part->step == MDSK_NORM_REST;
    void *dx = rest ? vec_as(n->dtype, &n->dx) : NULL;
    struct mdsk_norm_bwd a = {.kind = n->kind,
                              .R = n->R,
                              .H = n->H,
                              .dtype = n->dtype,
                              .x = vec_as(n->dtype, &n->x),
                              .gamma = vec_as(n->dtype, &n->gamma),
                              .mean = n->kind == MDSK_LAYERNORM ? n->mean.f : NULL,
                              .rstd = n->rstd.f,
                              .dy = vec_as(n->dtype, &n->dy),
                              .d = dx,
                              .dx = dx,
                              .dgamma = rest ? n->dgamma.f : NULL,
                              .dbeta = rest && n->with_beta ? n->dbeta.f : NULL,
                              .part = *part};

    assert_int_equal(backend()->norm_bwd(NULL, &a), 0);
}

/* A step of all ranks, and the totals for the next. */
static void norm_step(struct norm n[RANKS], enum mdsk_norm_step step, int64_t W,
                      void (*run)(struct norm *n, const struct mdsk_norm_part *part),
                      struct vec *totals)
{
    struct vec sums = vec_unset(totals->n), before = vec_zero(totals->n);
    int reads = step == MDSK_NORM_REST ||
                (step == MDSK_NORM_SQUARES && n->kind == MDSK_LAYERNORM);

    memcpy(before.f, totals->f, (size_t)totals->n * sizeof(float));
    memset(totals->f, 0, (size_t)totals->n * sizeof(float));
    for (int i = 0; i < RANKS; i++) {
        const struct mdsk_norm_part part = {step, W, reads ? before.f : NULL,
                                            step == MDSK_NORM_REST ? NULL : sums.f};

        run(&n[i], &part);
        for (int64_t r = 0; r < totals->n && part.sums; r++)
            totals->f[r] += sums.f[r];
    }
    vec_free(&sums);
    vec_free(&before);
}

static void norm_compare_parts(struct norm *whole, struct norm part[RANKS])
{
    struct vec one = vec_zero(whole->R), two = vec_zero(2 * whole->R);
    double longer = longer_row(part->H); /* each is summed by itself */

    if (whole->kind == MDSK_LAYERNORM)
        norm_step(part, MDSK_NORM_SUMS, whole->H, norm_step_fwd, &one);
    norm_step(part, MDSK_NORM_SQUARES, whole->H, norm_step_fwd, &one);
    norm_step(part, MDSK_NORM_REST, whole->H, norm_step_fwd, &one);
    norm_step(part, MDSK_NORM_SUMS, whole->H, norm_step_bwd, &two);
    norm_step(part, MDSK_NORM_REST, whole->H, norm_step_bwd, &two);
    for (int i = 0; i < RANKS; i++) {
        struct norm want = part[i];
        int64_t c = whole->H * i / RANKS;

        want.y = vec_zero(part[i].y.n);
        want.dx = vec_zero(part[i].dx.n);
        copy_columns(&want.y, &whole->y, whole->R, whole->H, c);
        copy_columns(&want.dx, &whole->dx, whole->R, whole->H, c);
        memcpy(part[i].y.d, want.y.d, (size_t)want.y.n * sizeof(double));
        memcpy(part[i].dx.d, want.dx.d, (size_t)want.dx.n * sizeof(double));
        memcpy(part[i].rstd.d, whole->rstd.d, (size_t)whole->R * sizeof(double));
        memcpy(part[i].dgamma.d, whole->dgamma.d + c,
               (size_t)part[i].H * sizeof(double));
        assert_near_as(whole->dtype, "norm y, in parts", &part[i].y,
                       longer * tolerance.norm);
        assert_near("norm rstd, in parts", &part[i].rstd, longer * tolerance.norm);
        assert_near_as(whole->dtype, "norm dx, in parts", &part[i].dx,
                       longer * tolerance.norm_dx);
        assert_near("norm dgamma, in parts", &part[i].dgamma,
                    longer * tolerance.norm_sums);
        vec_free(&want.y);
        vec_free(&want.dx);
    }
    vec_free(&one);
    vec_free(&two);
}

static void test_norm_in_parts(void **state)
{
    static const int64_t more[][2] = {{9, 768}, {7, 4101}, {6, 6144}, {3, 60000}};
    enum { MORE = sizeof more / sizeof *more };

    (void)state;
    for (int t = 4 * DTYPES; t < 2 * DTYPES * (SHAPES + MORE); t++) {
        int s = t / (2 * DTYPES);
        struct norm n, part[RANKS];

        norm_init(&n, t % 2 ? MDSK_RMSNORM : MDSK_LAYERNORM,
                  s < SHAPES ? shapes[s].R : more[s - SHAPES][0],
                  s < SHAPES ? shapes[s].H : more[s - SHAPES][1]);
        n.dtype = dtypes[t / 2 % DTYPES];
        n.with_r = 0;
        (void)vec_as(n.dtype, &n.x); /* rounds */
        (void)vec_as(n.dtype, &n.gamma);
        (void)vec_as(n.dtype, &n.beta);
        (void)vec_as(n.dtype, &n.dy);
        (void)vec_as(n.dtype, &n.dx);
        for (int i = 0; i < RANKS; i++) {
            int64_t c = n.H * i / RANKS;

            norm_init(&part[i], n.kind, n.R, n.H * (i + 1) / RANKS - c);
            part[i].dtype = n.dtype;
            copy_columns(&part[i].x, &n.x, n.R, n.H, c);
            copy_columns(&part[i].dy, &n.dy, n.R, n.H, c);
            copy_columns(&part[i].dx, &n.dx, n.R, n.H, c);
            copy_columns(&part[i].gamma, &n.gamma, 1, n.H, c);
            copy_columns(&part[i].beta, &n.beta, 1, n.H, c);
            copy_columns(&part[i].dgamma, &n.dgamma, 1, n.H, c);
        }
        norm_loss(&n);
        for (int64_t row = 0; row < n.R; row++)
            norm_reference_row_bwd(&n, row);
        norm_compare_parts(&n, part);
        for (int i = 0; i < RANKS; i++)
            norm_fini(&part[i]);
        norm_fini(&n);
    }
}

/* The sum may replace x or r. */
static void test_norm_sum_in_place(void **state)
{
    struct norm n, m;

    (void)state;
    norm_init(&n, MDSK_LAYERNORM, 5, 33);
    norm_init(&m, MDSK_LAYERNORM, 5, 33);
    norm_run_fwd(&n);
    memcpy(m.sum.f, m.x.f, 5 * 33 * sizeof(float));
    struct mdsk_norm_fwd a = {.kind = MDSK_LAYERNORM,
                              .R = 5,
                              .H = 33,
                              .eps = 1.0f / EPS_INVERSE,
                              .x = m.sum.f,
                              .r = m.r.f,
                              .sum = m.sum.f,
                              .gamma = m.gamma.f,
                              .beta = m.beta.f,
                              .y = m.y.f,
                              .mean = m.mean.f,
                              .rstd = m.rstd.f};
    assert_int_equal(backend()->norm_fwd(NULL, &a), 0);
    assert_memory_equal(n.y.f, m.y.f, 5 * 33 * sizeof(float));
    assert_memory_equal(n.sum.f, m.sum.f, 5 * 33 * sizeof(float));
    norm_fini(&n);
    norm_fini(&m);
}

/* A mean far from 0 must not cancel the variance away. */
static void test_norm_far_from_zero(void **state)
{
    struct norm n;

    (void)state;
    norm_init(&n, MDSK_LAYERNORM, 4, 300);
    n.with_r = 0;
    for (int64_t i = 0; i < n.x.n; i++)
        n.x.f[i] += 1000;
    vec_adopt(&n.x);
    norm_run_fwd(&n);
    norm_loss(&n);
    assert_near("norm rstd, far from zero", &n.rstd, 1e-5);
    norm_fini(&n);
}

static void test_norm_slopes(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        struct norm n, before;

        norm_init(&n, t ? MDSK_RMSNORM : MDSK_LAYERNORM, 17, 33);
        norm_init(&before, n.kind, 17, 33);
        norm_run_fwd(&n);
        norm_run_bwd(&n);
        assert_slope("norm dx", &n.x, n.dx.f, before.dx.f, norm_loss, &n, 60);
        assert_slope("norm dgamma", &n.gamma, n.dgamma.f, before.dgamma.f, norm_loss,
                     &n, 60);
        assert_slope("norm dbeta", &n.beta, n.dbeta.f, before.dbeta.f, norm_loss, &n,
                     60);
        norm_fini(&n);
        norm_fini(&before);
    }
}

static void test_norm_same_bits_for_any_threads(void **state)
{
    struct norm n[3];
    size_t bytes = 700 * 129 * sizeof(float);

    (void)state;
    for (int t = 0; t < 3; t++) {
        mdsk_cpu_set_threads(t + 1);
        norm_init(&n[t], MDSK_LAYERNORM, 700, 129);
        norm_run_fwd(&n[t]);
        norm_run_bwd(&n[t]);
        assert_memory_equal(n[t].dx.f, n[0].dx.f, bytes);
        assert_memory_equal(n[t].dgamma.f, n[0].dgamma.f, 129 * sizeof(float));
        assert_memory_equal(n[t].dbeta.f, n[0].dbeta.f, 129 * sizeof(float));
    }
    for (int t = 0; t < 3; t++)
        norm_fini(&n[t]);
    mdsk_cpu_set_threads(2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norm),
        cmocka_unit_test(test_norm_of_models),
        cmocka_unit_test(test_norm_amax),
        cmocka_unit_test(test_norm_without_residual_or_beta),
        cmocka_unit_test(test_norm_statistics_alone),
        cmocka_unit_test(test_norm_in_parts),
        cmocka_unit_test(test_norm_sum_in_place),
        cmocka_unit_test(test_norm_far_from_zero),
        cmocka_unit_test(test_norm_slopes),
        cmocka_unit_test(test_norm_same_bits_for_any_threads),
    };

    mdsk_cpu_set_threads(2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
