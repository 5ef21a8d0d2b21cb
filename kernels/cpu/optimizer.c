/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/table.h"

#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/storage.h"

MDSK_DISPATCH static void adamw(const struct mdsk_adamw *a, int span, int64_t from,
                                int64_t n)
{
    float width = a->wide >> span & 1 ? a->width : 1, lr = a->lr / width;
    float decay = a->decays >> span & 1 ? a->weight_decay : 0;
    float *w = a->master + from, *m = a->m + from, *v = a->v + from;
    const float *grad = a->grad + from;
    float beta1 = a->beta1, beta2 = a->beta2, eps = a->eps / width;
    float keep = 1 - lr * decay, step = lr / a->correction1;
    float root = 1 / sqrtf(a->correction2), scale = a->grad_scale;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float g = grad[i] * scale;

        m[i] = beta1 * m[i] + (1 - beta1) * g;
        v[i] = beta2 * v[i] + (1 - beta2) * g * g;
        w[i] = w[i] * keep - step * m[i] / (sqrtf(v[i]) * root + eps);
    }
    if (a->weight)
        mdsk_narrow(a->dtype, w, n, a->weight, from);
}

/* Elements from .. to - 1, span by span. */
static void adamw_range(const struct mdsk_adamw *a, int64_t from, int64_t to)
{
    for (int s = 0; s < a->spans && from < to; s++) {
        int64_t n = mdsk_min(a->span_end[s], to) - from;

        if (n <= 0)
            continue;
        adamw(a, s, from, n);
        from += n;
    }
}

int mdsk_adamw_cpu(void *stream, const struct mdsk_adamw *a)
{
    (void)stream;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(a->n))
    for (int64_t i = 0; i < a->n; i += MDSK_GRAIN)
        adamw_range(a, i, mdsk_min(i + MDSK_GRAIN, a->n));
    return 0;
}

MDSK_DISPATCH static void muon_momentum(const struct mdsk_muon_momentum *a,
                                        int64_t from, int64_t n)
{
    float *m = a->m + from, *d = a->d + from, beta = a->beta, scale = a->grad_scale;
    const float *grad = a->grad + from;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float g = grad[i] * scale;

        m[i] = beta * m[i] + (1 - beta) * g;
        d[i] = a->nesterov ? beta * m[i] + (1 - beta) * g : m[i];
    }
}

int mdsk_muon_momentum_cpu(void *stream, const struct mdsk_muon_momentum *a)
{
    (void)stream;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(a->n))
    for (int64_t i = 0; i < a->n; i += MDSK_GRAIN)
        muon_momentum(a, i, mdsk_min(MDSK_GRAIN, a->n - i));
    return 0;
}

MDSK_DISPATCH static void combine(int64_t n, float a, const float *x, float b, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = a * x[i] + b * y[i];
}

static void combine_range(const struct mdsk_axpby *a, float scale, int64_t from,
                          int64_t to)
{
    float scratch[2 * MDSK_STAGING];

    for (int64_t i = from, n; i < to; i += n) {
        const float *x;
        float *y;

        n = mdsk_min(MDSK_STAGING, to - i);
        y = a->b != 0 ? mdsk_edit(a->to, a->y, i, n, scratch + MDSK_STAGING)
                      : mdsk_fill(a->to, a->y, i, scratch + MDSK_STAGING);
        for (int64_t k = 0; k < n && a->b == 0; k++)
            y[k] = 0;
        x = a->x ? mdsk_read(a->from, a->x, i, n, scratch) : y;
        combine(n, a->x ? a->a * scale : 0, x, a->b * scale, y);
        mdsk_put(a->to, y, n, a->y, i);
    }
}

int mdsk_axpby_cpu(void *stream, const struct mdsk_axpby *a)
{
    double norm = a->squares ? sqrt(*a->squares) : 1;
    float scale = (float)(1 / (norm > 1e-7 ? norm : 1e-7));

    (void)stream;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(a->n))
    for (int64_t i = 0; i < a->n; i += MDSK_GRAIN)
        combine_range(a, scale, i, mdsk_min(i + MDSK_GRAIN, a->n));
    return 0;
}

static int multiply_f32(const struct mdsk_muon_product *a, const float *x,
                        const float *w, const float *z, float *y)
{
    const struct mdsk_operand left = {x, a->flip_x ? a->m : a->k, a->flip_x};
    const struct mdsk_operand right = {w, a->flip_w ? a->k : a->n, a->flip_w};
    int64_t n = a->m * a->n;
    int err = mdsk_gemm(a->m, a->n, a->k, &left, &right, y, a->n, 0);

    if (err)
        return err;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(n))
    for (int64_t i = 0; i < n; i++)
        y[i] = a->alpha * y[i] + (z ? a->beta * z[i] : 0);
    return 0;
}

/* Product i of the batch. */
static int multiply(const struct mdsk_muon_product *a, int64_t i)
{
    int64_t elem = (int64_t)mdsk_dtype_size(a->dtype);
    const char *x = (const char *)a->x + i * a->m * a->k * elem;
    const char *w = (const char *)a->w + i * a->k * a->n * elem;
    const char *z = a->z ? (const char *)a->z + i * a->m * a->n * elem : NULL;
    char *y = (char *)a->y + i * a->m * a->n * elem;
    const float factors[] = {a->alpha, a->beta};
    const struct mdsk_gemm_half half = {.m = a->m,
                                        .n = a->n,
                                        .k = a->k,
                                        .dtype = a->dtype,
                                        .to = a->dtype,
                                        .a = {x, a->flip_x ? a->m : a->k, a->flip_x},
                                        .b = {w, a->flip_w ? a->k : a->n, a->flip_w},
                                        .c = y,
                                        .factors = factors,
                                        .z = z};

    return a->dtype == MDSK_F32 ? multiply_f32(a, (const void *)x, (const void *)w,
                                               (const void *)z, (void *)y)
                                : mdsk_gemm_half(&half);
}

int mdsk_muon_product_cpu(void *stream, const struct mdsk_muon_product *a)
{
    int err = 0;

    (void)stream;
    for (int64_t i = 0; i < a->batch && !err; i++)
        err = multiply(a, i);
    return err;
}

static void muon_step_range(const struct mdsk_muon_step *a, int64_t from, int64_t to)
{
    float keep = 1 - a->lr * a->weight_decay, scratch[MDSK_STAGING];

    for (int64_t i = from, n; i < to; i += n) {
        n = mdsk_min(MDSK_STAGING, to - i);
        combine(n, -a->rate, mdsk_read(a->o_dtype, a->o, i, n, scratch), keep,
                a->master + i);
        if (a->weight)
            mdsk_narrow(a->dtype, a->master + i, n, a->weight, i);
    }
}

int mdsk_muon_step_cpu(void *stream, const struct mdsk_muon_step *a)
{
    (void)stream;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(a->n))
    for (int64_t i = 0; i < a->n; i += MDSK_GRAIN)
        muon_step_range(a, i, mdsk_min(i + MDSK_GRAIN, a->n));
    return 0;
}
