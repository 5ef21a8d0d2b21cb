/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels: activations. */
#include "tests/kernels/check.h"

#include <math.h>
#include <string.h>

/* Relative Euclidean distance from the double reference. */
static const struct {
    double activation;
} tolerance = {.activation = 2e-7};

static const struct {
    int64_t R, H;
} shapes[] = {{1, 1}, {1, 3}, {3, 17}, {17, 65}, {130, 129}, {700, 64}, {5, 3000}};

enum { SHAPES = sizeof shapes / sizeof *shapes };

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
        cmocka_unit_test(test_activation),
        cmocka_unit_test(test_activation_amax),
        cmocka_unit_test(test_activation_slopes),
        cmocka_unit_test(test_activation_extremes),
    };

    mdsk_cpu_set_threads(2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
