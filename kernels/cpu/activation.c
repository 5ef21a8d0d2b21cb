#include "kernels/activation.h"

#include <errno.h>

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

/* Work is cut into pieces of one row or, since GELU has no rows, MDSK_GRAIN elements;
 * this many, and this many elements of y in each but perhaps the last. */
static int64_t pieces_of(enum mdsk_activation_kind kind, int64_t R, int64_t F)
{
    return kind == MDSK_GELU ? mdsk_ceil_div(R * F, MDSK_GRAIN) : R;
}

static int64_t piece_size(enum mdsk_activation_kind kind, int64_t F)
{
    return kind == MDSK_GELU ? MDSK_GRAIN : F;
}

/* Piece p; room [two pieces]. */
static void fwd_piece(const struct mdsk_activation_fwd *a, int64_t p, float *room)
{
    int64_t size = piece_size(a->kind, a->F),
            n = mdsk_min(size, a->R * a->F - p * size);
    int wide = a->kind == MDSK_SWIGLU ? 2 : 1;
    const float *x = mdsk_read(a->dtype, a->x, wide * p * size, wide * n, room);
    float *y = mdsk_fill(a->dtype, a->y, p * size, room);

    if (a->kind == MDSK_GELU)
        gelu(n, x, y);
    else
        swiglu(n, x, x + n, y);
    mdsk_put(a->dtype, y, n, a->y, p * size);
}

int mdsk_activation_fwd_cpu(void *stream, const struct mdsk_activation_fwd *a)
{
    int64_t pieces = pieces_of(a->kind, a->R, a->F);
    int64_t floats = mdsk_room(a->dtype, 2 * piece_size(a->kind, a->F));
    int threads = mdsk_threads_for(a->R * a->F);
    float *room = mdsk_scratch(threads * floats);

    (void)stream;
    if (!room)
        return -ENOMEM;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t p = 0; p < pieces; p++)
        fwd_piece(a, p, room + omp_get_thread_num() * floats);
    return 0;
}

/* Piece p; room [three pieces]. */
static void bwd_piece(const struct mdsk_activation_bwd *a, int64_t p, float *room)
{
    int64_t size = piece_size(a->kind, a->F),
            n = mdsk_min(size, a->R * a->F - p * size);
    int wide = a->kind == MDSK_SWIGLU ? 2 : 1;
    const float *x = mdsk_read(a->dtype, a->x, wide * p * size, wide * n, room);
    const float *dy = mdsk_read(a->dtype, a->dy, p * size, n, room + 2 * size);
    float *dx = mdsk_fill(a->dtype, a->dx, wide * p * size, room);

    if (a->kind == MDSK_GELU)
        gelu_bwd(n, x, dy, dx);
    else
        swiglu_bwd(n, x, x + n, dy, dx, dx + n);
    mdsk_put(a->dtype, dx, wide * n, a->dx, wide * p * size);
}

int mdsk_activation_bwd_cpu(void *stream, const struct mdsk_activation_bwd *a)
{
    int64_t pieces = pieces_of(a->kind, a->R, a->F);
    int64_t floats = mdsk_room(a->dtype, 3 * piece_size(a->kind, a->F));
    int threads = mdsk_threads_for(a->R * a->F);
    float *room = mdsk_scratch(threads * floats);

    (void)stream;
    if (!room)
        return -ENOMEM;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t p = 0; p < pieces; p++)
        bwd_piece(a, p, room + omp_get_thread_num() * floats);
    return 0;
}
