/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels: norms and activations. */
#include "tests/kernels/check.h"

#include <math.h>
#include <string.h>

/* Relative Euclidean distance from the double reference.  Without vectors (sanitizers)
 * a row of 3000 is summed number by number, and squares of 16-bit numbers, which end in
 * zeros, then meet more ties that round down than up: hence 3e-6, and more where a row
 * is longer. */
static const struct {
    double norm, norm_dx, norm_sums, activation;
} tolerance = {.norm = 3e-6, .norm_dx = 1e-6, .norm_sums = 3e-6, .activation = 2e-7};

static const struct {
    int64_t R, H;
} shapes[] = {{1, 1}, {1, 3}, {3, 17}, {17, 65}, {130, 129}, {700, 64}, {5, 3000}};

enum { SHAPES = sizeof shapes / sizeof *shapes };

/* ---- norms ------------------------------------------------------------------------
 */

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

static void norm_compare(struct norm *n)
{
    double longer = n->H > 3000 ? (double)n->H / 3000 : 1;

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

/* ---- activations ------------------------------------------------------------------
 */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double silu(double x)
{
    return x * sigmoid(x);
}

static double silu_slope(double x)
{
    return sigmoid(x) * (1 + x * sigmoid(-x));
}

static double gelu_inside(double x)
{
    return 2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
}

/* Not by tanh: below 0, 1 + tanh cancels in double, too. */
static double gelu(double x)
{
    return x * sigmoid(gelu_inside(x));
}

static double gelu_slope(double x)
{
    double u = gelu_inside(x), du = 2 * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);

    return sigmoid(u) * (1 + x * du * sigmoid(-u));
}

static double squared_relu(double x)
{
    return x > 0 ? x * x : 0;
}

static double squared_relu_slope(double x)
{
    return x > 0 ? 2 * x : 0;
}

static double exact_gelu(double x)
{
    return 0.5 * x * erfc(-x / sqrt(2));
}

static double exact_gelu_slope(double x)
{
    return 0.5 * erfc(-x / sqrt(2)) + x * exp(-x * x / 2) / sqrt(2 * M_PI);
}

/* Of x, or of the gate. */
static const struct {
    double (*value)(double x), (*slope)(double x);
} function[MDSK_ACTIVATION_KINDS] = {
    [MDSK_GELU] = {gelu, gelu_slope},
    [MDSK_SWIGLU] = {silu, silu_slope},
    [MDSK_SQUARED_RELU] = {squared_relu, squared_relu_slope},
    [MDSK_EXACT_GELU] = {exact_gelu, exact_gelu_slope},
};

struct activation {
    enum mdsk_activation_kind kind;
    enum mdsk_dtype dtype;
    int64_t R, F, wide; /* wide: of a row of x */
    struct vec x, y, dy, dx;
};

static void activation_init(struct activation *v, enum mdsk_activation_kind kind,
                            int64_t R, int64_t F)
{
    *v = (struct activation){
        .kind = kind, .R = R, .F = F, .wide = mdsk_activation_inputs(kind, 1, F)};
    v->x = vec_random(R * v->wide, 1, 4);
    v->y = vec_unset(R * F);
    v->dy = vec_random(R * F, 2, 1);
    v->dx = vec_unset(R * v->wide);
}

static void activation_fini(struct activation *v)
{
    vec_free(&v->x);
    vec_free(&v->y);
    vec_free(&v->dy);
    vec_free(&v->dx);
}

static double activation_loss(void *ctx)
{
    struct activation *v = ctx;

    for (int64_t r = 0; r < v->R; r++)
        for (int64_t i = 0; i < v->F; i++) {
            const double *x = v->x.d + r * v->wide + i;

            v->y.d[r * v->F + i] =
                function[v->kind].value(x[0]) * (v->wide > v->F ? x[v->F] : 1);
        }
    return inner(v->R * v->F, v->y.d, v->dy.d);
}

static void activation_reference_bwd(struct activation *v)
{
    for (int64_t r = 0; r < v->R; r++)
        for (int64_t i = 0; i < v->F; i++) {
            int64_t at = r * v->wide + i;
            double x = v->x.d[at], dy = v->dy.d[r * v->F + i];

            v->dx.d[at] = dy * function[v->kind].slope(x);
            if (v->wide == v->F)
                continue;
            v->dx.d[at] *= v->x.d[at + v->F];
            v->dx.d[at + v->F] = dy * function[v->kind].value(x);
        }
}

/* amax: as in kernels/activation.h */
static void activation_run(struct activation *v, uint32_t *amax)
{
    struct mdsk_activation_fwd f = {.kind = v->kind,
                                    .R = v->R,
                                    .F = v->F,
                                    .dtype = v->dtype,
                                    .x = vec_as(v->dtype, &v->x),
                                    .y = vec_as(v->dtype, &v->y)};
    struct mdsk_activation_bwd b = {.kind = v->kind,
                                    .R = v->R,
                                    .F = v->F,
                                    .dtype = v->dtype,
                                    .x = f.x,
                                    .dy = vec_as(v->dtype, &v->dy),
                                    .dx = vec_as(v->dtype, &v->dx),
                                    .amax = amax};

    assert_int_equal(backend()->activation_fwd(NULL, &f), 0);
    assert_int_equal(backend()->activation_bwd(NULL, &b), 0);
}

static void test_activation(void **state)
{
    (void)state;
    for (int t = 0; t < MDSK_ACTIVATION_KINDS * DTYPES * SHAPES; t++) {
        int shape = t / (MDSK_ACTIVATION_KINDS * DTYPES);
        struct activation v;

        activation_init(&v, t % MDSK_ACTIVATION_KINDS, shapes[shape].R,
                        shapes[shape].H);
        v.dtype = dtypes[t / MDSK_ACTIVATION_KINDS % DTYPES];
        activation_run(&v, NULL);
        activation_loss(&v);
        activation_reference_bwd(&v);
        assert_near_as(v.dtype, "activation y", &v.y, tolerance.activation);
        assert_near_as(v.dtype, "activation dx", &v.dx, tolerance.activation);
        activation_fini(&v);
    }
}

/* It is that of dx as stored, and asking for it changes nothing; NaN is the largest. */
static void test_activation_amax(void **state)
{
    (void)state;
    for (int t = 0; t < MDSK_ACTIVATION_KINDS * DTYPES * SHAPES; t++) {
        int shape = t / (MDSK_ACTIVATION_KINDS * DTYPES);
        int64_t R = shapes[shape].R, F = shapes[shape].H;
        struct activation v, w;
        uint32_t amax = 0x7fffffff;

        activation_init(&v, t % MDSK_ACTIVATION_KINDS, R, F);
        activation_init(&w, t % MDSK_ACTIVATION_KINDS, R, F);
        v.dtype = w.dtype = dtypes[t / MDSK_ACTIVATION_KINDS % DTYPES];
        activation_run(&v, NULL);
        activation_run(&w, &amax);
        vec_back(v.dtype, &v.dx);
        vec_back(w.dtype, &w.dx);
        assert_memory_equal(v.dx.f, w.dx.f, (size_t)w.dx.n * sizeof *w.dx.f);
        assert_int_equal(amax, vec_amax(&w.dx));
        w.dy.f[R * F - 1] = NAN;
        activation_run(&w, &amax);
        assert_true(amax > 0x7f800000);
        activation_fini(&v);
        activation_fini(&w);
    }
}

static void test_activation_slopes(void **state)
{
    (void)state;
    for (int kind = 0; kind < MDSK_ACTIVATION_KINDS; kind++) {
        struct activation v;

        activation_init(&v, kind, 5, 33);
        activation_run(&v, NULL);
        assert_slope("activation dx", &v.x, v.dx.f, NULL, activation_loss, &v, 400);
        activation_fini(&v);
    }
}

/* Far out the answer is 0 or x, never NaN; and dx may replace x. */
static void test_activation_extremes(void **state)
{
    float x[] = {-1e3f, -200, -50, 0, 50, 200, 1e3f}, y[7], one[7];
    struct mdsk_activation_fwd f = {.kind = MDSK_GELU, .R = 1, .F = 7, .x = x, .y = y};
    struct mdsk_activation_bwd b = {
        .kind = MDSK_GELU, .R = 1, .F = 7, .x = x, .dy = one, .dx = x};

    (void)state;
    for (int i = 0; i < 7; i++)
        one[i] = 1;
    assert_int_equal(backend()->activation_fwd(NULL, &f), 0);
    for (int i = 0; i < 7; i++)
        assert_true(fabsf(y[i] - (x[i] > 0 ? x[i] : 0)) < 1e-30f);
    assert_int_equal(backend()->activation_bwd(NULL, &b), 0);
    for (int i = 0; i < 7; i++)
        assert_true(fabsf(x[i] - (i == 3 ? 0.5f : i < 3 ? 0 : 1)) < 1e-25f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norm),
        cmocka_unit_test(test_norm_of_models),
        cmocka_unit_test(test_norm_amax),
        cmocka_unit_test(test_norm_without_residual_or_beta),
        cmocka_unit_test(test_norm_statistics_alone),
        cmocka_unit_test(test_norm_sum_in_place),
        cmocka_unit_test(test_norm_far_from_zero),
        cmocka_unit_test(test_norm_slopes),
        cmocka_unit_test(test_norm_same_bits_for_any_threads),
        cmocka_unit_test(test_activation),
        cmocka_unit_test(test_activation_amax),
        cmocka_unit_test(test_activation_slopes),
        cmocka_unit_test(test_activation_extremes),
    };

    mdsk_cpu_set_threads(2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
