/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/table.h"

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/storage.h"
#include "kernels/cpu/vmath.h"

/* 0.5 (1 + tanh(u)) = sigmoid(2u): the same number without the cancellation at u << 0.
 * Twice sqrt(2/pi), and the cubic's coefficient. */
static const float two_root = 1.5957691216f, cubic = 0.044715f;

MDSK_DISPATCH static void gelu(int64_t n, const float *x, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float v = x[i], other;

        y[i] = v * mdsk_sigmoid(two_root * (v + cubic * v * v * v), &other);
    }
}

/* d/dx x s(t(x)) = s + x s (1 - s) t' */
MDSK_DISPATCH static void gelu_bwd(int64_t n, const float *x, const float *dy,
                                   float *dx)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float v = x[i], other;
        float s = mdsk_sigmoid(two_root * (v + cubic * v * v * v), &other);
        float slope = two_root * (1 + 3 * cubic * v * v);

        dx[i] = dy[i] * (s + v * s * other * slope);
    }
}

MDSK_DISPATCH static void exact_gelu(int64_t n, const float *x, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float density;

        y[i] = x[i] * mdsk_normal(x[i], &density);
    }
}

/* d/dx x Phi(x) = Phi + x phi */
MDSK_DISPATCH static void exact_gelu_bwd(int64_t n, const float *x, const float *dy,
                                         float *dx)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float density, below = mdsk_normal(x[i], &density);

        dx[i] = dy[i] * (below + x[i] * density);
    }
}

MDSK_DISPATCH static void squared_relu(int64_t n, const float *x, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] > 0 ? x[i] : 0;

        y[i] = v * v;
    }
}

MDSK_DISPATCH static void squared_relu_bwd(int64_t n, const float *x, const float *dy,
                                           float *dx)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] > 0 ? x[i] : 0;

        dx[i] = dy[i] * (2 * v);
    }
}

MDSK_DISPATCH static void swiglu(int64_t n, const float *gate, const float *up,
                                 float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float other;

        y[i] = gate[i] * mdsk_sigmoid(gate[i], &other) * up[i];
    }
}

MDSK_DISPATCH static void swiglu_bwd(int64_t n, const float *gate, const float *up,
                                     const float *dy, float *dgate, float *dup)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float g = gate[i], u = up[i], other;
        float s = mdsk_sigmoid(g, &other);

        dgate[i] = dy[i] * u * s * (1 + g * other);
        dup[i] = dy[i] * g * s;
    }
}

/* The loops of each activation function, over n elements of x, or of gate and up. */
static const struct {
    void (*fwd)(int64_t n, const float *x, float *y);
    void (*bwd)(int64_t n, const float *x, const float *dy, float *dx);
} ungated[MDSK_ACTIVATION_KINDS] = {
    [MDSK_GELU] = {gelu, gelu_bwd},
    [MDSK_SQUARED_RELU] = {squared_relu, squared_relu_bwd},
    [MDSK_EXACT_GELU] = {exact_gelu, exact_gelu_bwd},
};

static const struct {
    void (*fwd)(int64_t n, const float *gate, const float *up, float *y);
    void (*bwd)(int64_t n, const float *gate, const float *up, const float *dy,
                float *dgate, float *dup);
} gated[MDSK_ACTIVATION_KINDS] = {[MDSK_SWIGLU] = {swiglu, swiglu_bwd}};

void mdsk_activate_row(enum mdsk_activation_kind kind, int64_t F, const float *x,
                       float *y)
{
    if (mdsk_activation_of(kind)->gated)
        gated[kind].fwd(F, x, x + F, y);
    else
        ungated[kind].fwd(F, x, y);
}

void mdsk_activate_row_bwd(enum mdsk_activation_kind kind, int64_t F, const float *x,
                           const float *dy, float *dx)
{
    if (mdsk_activation_of(kind)->gated)
        gated[kind].bwd(F, x, x + F, dy, dx, dx + F);
    else
        ungated[kind].bwd(F, x, dy, dx);
}

/* Tasks for threads: the rows of a gated function; otherwise ranges of MDSK_GRAIN
 * elements, whatever the rows. */
static int64_t tasks_of(enum mdsk_activation_kind kind, int64_t R, int64_t F)
{
    return mdsk_activation_of(kind)->gated ? R : mdsk_ceil_div(R * F, MDSK_GRAIN);
}

/* y of elements at .. at+n-1. */
static void ungated_range(const struct mdsk_activation_fwd *a, int64_t at, int64_t n)
{
    int64_t step = mdsk_step(a->dtype, n);
    float staging[MDSK_STAGING];

    for (int64_t i = at; i < at + n; i += step) {
        int64_t m = mdsk_min(step, at + n - i);
        float *y = mdsk_fill(a->dtype, a->y, i, staging);

        ungated[a->kind].fwd(m, mdsk_read(a->dtype, a->x, i, m, staging), y);
        mdsk_put(a->dtype, y, m, a->y, i);
    }
}

static void gated_row(const struct mdsk_activation_fwd *a, int64_t r)
{
    int64_t step = mdsk_step(a->dtype, a->F);
    float staging[2 * MDSK_STAGING];

    for (int64_t i = 0; i < a->F; i += step) {
        int64_t m = mdsk_min(step, a->F - i), at = r * a->F + i, x = at + r * a->F;
        const float *gate = mdsk_read(a->dtype, a->x, x, m, staging);
        const float *up =
            mdsk_read(a->dtype, a->x, x + a->F, m, staging + MDSK_STAGING);
        float *y = mdsk_fill(a->dtype, a->y, at, staging);

        gated[a->kind].fwd(m, gate, up, y);
        mdsk_put(a->dtype, y, m, a->y, at);
    }
}

void mdsk_activate(const struct mdsk_activation_fwd *a, int64_t row, int64_t c,
                   int64_t n, float *y)
{
    int is_gated = mdsk_activation_of(a->kind)->gated;
    int64_t at = (is_gated ? 2 : 1) * row * a->F + c;
    float staging[2 * MDSK_STAGING], *up = staging + MDSK_STAGING;
    const float *x = mdsk_read(a->dtype, a->x, at, n, staging);
    uint16_t half[MDSK_STAGING];

    if (is_gated)
        gated[a->kind].fwd(n, x, mdsk_read(a->dtype, a->x, at + a->F, n, up), y);
    else
        ungated[a->kind].fwd(n, x, y);
    mdsk_put(a->dtype, y, n, half, 0);
    if (a->dtype != MDSK_F32)
        mdsk_widen(a->dtype, half, 0, n, y);
}

int mdsk_activation_fwd_cpu(void *stream, const struct mdsk_activation_fwd *a)
{
    int64_t tasks = tasks_of(a->kind, a->R, a->F), n = a->R * a->F;

    (void)stream;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(n))
    for (int64_t t = 0; t < tasks; t++) {
        if (mdsk_activation_of(a->kind)->gated)
            gated_row(a, t);
        else
            ungated_range(a, t * MDSK_GRAIN, mdsk_min(MDSK_GRAIN, n - t * MDSK_GRAIN));
    }
    return 0;
}

/* The backward functions return the largest magnitude, if it is asked for. */
static uint32_t ungated_bwd_range(const struct mdsk_activation_bwd *a, int64_t at,
                                  int64_t n)
{
    int64_t step = mdsk_step(a->dtype, n);
    float staging[2 * MDSK_STAGING];
    uint32_t most = 0;

    for (int64_t i = at; i < at + n; i += step) {
        int64_t m = mdsk_min(step, at + n - i);
        const float *x = mdsk_read(a->dtype, a->x, i, m, staging);
        const float *dy = mdsk_read(a->dtype, a->dy, i, m, staging + MDSK_STAGING);
        float *dx = mdsk_fill(a->dtype, a->dx, i, staging);

        ungated[a->kind].bwd(m, x, dy, dx);
        mdsk_put(a->dtype, dx, m, a->dx, i);
        most = a->amax ? mdsk_amax(m, dx, most) : 0;
    }
    return most;
}

static uint32_t gated_bwd_row(const struct mdsk_activation_bwd *a, int64_t r)
{
    int64_t step = mdsk_step(a->dtype, a->F);
    float staging[3 * MDSK_STAGING], *other = staging + MDSK_STAGING;
    uint32_t most = 0;

    for (int64_t i = 0; i < a->F; i += step) {
        int64_t m = mdsk_min(step, a->F - i), at = r * a->F + i, x = at + r * a->F;
        const float *gate = mdsk_read(a->dtype, a->x, x, m, staging);
        const float *up = mdsk_read(a->dtype, a->x, x + a->F, m, other);
        const float *dy = mdsk_read(a->dtype, a->dy, at, m, other + MDSK_STAGING);
        float *dgate = mdsk_fill(a->dtype, a->dx, x, staging);
        float *dup = mdsk_fill(a->dtype, a->dx, x + a->F, other);

        gated[a->kind].bwd(m, gate, up, dy, dgate, dup);
        mdsk_put(a->dtype, dgate, m, a->dx, x);
        mdsk_put(a->dtype, dup, m, a->dx, x + a->F);
        most = a->amax ? mdsk_amax(m, dup, mdsk_amax(m, dgate, most)) : 0;
    }
    return most;
}

int mdsk_activation_bwd_cpu(void *stream, const struct mdsk_activation_bwd *a)
{
    int64_t tasks = tasks_of(a->kind, a->R, a->F), n = a->R * a->F;
    uint32_t most = 0;

    (void)stream;
#pragma omp parallel for schedule(static) reduction(max                                \
                                                    : most)                            \
    num_threads(mdsk_threads_for(n))
    for (int64_t t = 0; t < tasks; t++) {
        int64_t at = t * MDSK_GRAIN;
        uint32_t bits = mdsk_activation_of(a->kind)->gated
                            ? gated_bwd_row(a, t)
                            : ungated_bwd_range(a, at, mdsk_min(MDSK_GRAIN, n - at));

        most = bits > most ? bits : most;
    }
    mdsk_put_amax(a->dtype, most, a->amax);
    return 0;
}
