#include "kernels/activation.h"

#include "kernels/cpu/cpu.h"
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

/* Work is cut into pieces of one row or MDSK_GRAIN elements: GELU has no rows. */
static int64_t rows_of(enum mdsk_activation_kind kind, int64_t R, int64_t F)
{
    return kind == MDSK_GELU ? mdsk_ceil_div(R * F, MDSK_GRAIN) : R;
}

int mdsk_activation_fwd_cpu(void *stream, const struct mdsk_activation_fwd *a)
{
    int64_t pieces = rows_of(a->kind, a->R, a->F), n = a->R * a->F;
    const float *x = a->x;
    float *y = a->y;

    (void)stream;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(n))
    for (int64_t p = 0; p < pieces; p++) {
        int64_t at = p * MDSK_GRAIN;

        if (a->kind == MDSK_GELU)
            gelu(mdsk_min(MDSK_GRAIN, n - at), x + at, y + at);
        else
            swiglu(a->F, x + 2 * p * a->F, x + (2 * p + 1) * a->F, y + p * a->F);
    }
    return 0;
}

int mdsk_activation_bwd_cpu(void *stream, const struct mdsk_activation_bwd *a)
{
    int64_t pieces = rows_of(a->kind, a->R, a->F), n = a->R * a->F;
    const float *x = a->x, *dy = a->dy;
    float *dx = a->dx;

    (void)stream;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(n))
    for (int64_t p = 0; p < pieces; p++) {
        int64_t at = p * MDSK_GRAIN, gate = 2 * p * a->F, up = gate + a->F;

        if (a->kind == MDSK_GELU)
            gelu_bwd(mdsk_min(MDSK_GRAIN, n - at), x + at, dy + at, dx + at);
        else
            swiglu_bwd(a->F, x + gate, x + up, dy + p * a->F, dx + gate, dx + up);
    }
    return 0;
}
