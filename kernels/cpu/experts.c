/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of rows in the order of experts, and the experts' linear layers. */
#include "kernels/experts.h"
#include "kernels/table.h"

#include <errno.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/storage.h"

int mdsk_dispatch_cpu(void *stream, const struct mdsk_dispatch *a)
{
    size_t bytes = (size_t)a->H * mdsk_dtype_size(a->dtype);
    const char *x = a->x;
    char *y = a->y;

    (void)stream;
#pragma omp parallel for schedule(static)                                              \
    num_threads(mdsk_threads_for(a->R * a->k * a->H))
    for (int64_t c = 0; c < a->R * a->k; c++)
        memcpy(y + (size_t)c * bytes, x + (size_t)(a->from[c] / a->k) * bytes, bytes);
    return 0;
}

/* staging [2H] */
static void combine_row(const struct mdsk_combine *a, int64_t r, float *staging)
{
    float *y = mdsk_fill(a->dtype, a->y, r * a->H, staging);

    memset(y, 0, (size_t)a->H * sizeof *y);
    for (int64_t j = 0; j < a->k; j++) {
        int64_t at = a->to[r * a->k + j] * a->H;

        mdsk_add_to(a->H, mdsk_read(a->dtype, a->x, at, a->H, staging + a->H), y);
    }
    mdsk_put(a->dtype, y, a->H, a->y, r * a->H);
}

int mdsk_combine_cpu(void *stream, const struct mdsk_combine *a)
{
    int threads = mdsk_threads_for(a->R * a->k * a->H);
    int64_t floats = mdsk_staging_floats(a->dtype, 2 * a->H);
    float *staging = mdsk_scratch(threads * floats);

    (void)stream;
    if (!staging)
        return -ENOMEM;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t r = 0; r < a->R; r++)
        combine_row(a, r, staging + omp_get_thread_num() * floats);
    return 0;
}

MDSK_DISPATCH static void scale(int64_t n, float s, const float *x, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = s * x[i];
}

MDSK_DISPATCH static float dot(int64_t n, const float *x, const float *y)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* The index of a copy's weight. */
static int64_t weight_at(const int32_t *from, int64_t c)
{
    return from ? from[c] : c;
}

int mdsk_weigh_cpu(void *stream, const struct mdsk_weigh *a)
{
    int threads = mdsk_threads_for(a->R * a->k * a->F);
    int64_t wide = mdsk_activation_inputs(a->kind, 1, a->F);
    int64_t floats = wide + a->F;
    float *staging = mdsk_scratch(threads * floats);

    (void)stream;
    if (!staging)
        return -ENOMEM;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t c = 0; c < a->R * a->k; c++) {
        float *mine = staging + omp_get_thread_num() * floats;
        const float *x = mdsk_read(a->dtype, a->x, c * wide, wide, mine);
        float *y = mdsk_fill(a->dtype, a->y, c * a->F, mine + wide);

        mdsk_activate_row(a->kind, a->F, x, y);
        scale(a->F, a->weight[weight_at(a->from, c)], y, y);
        mdsk_put(a->dtype, y, a->F, a->y, c * a->F);
    }
    return 0;
}

int mdsk_weigh_bwd_cpu(void *stream, const struct mdsk_weigh_bwd *a)
{
    int threads = mdsk_threads_for(a->R * a->k * a->F);
    int64_t wide = mdsk_activation_inputs(a->kind, 1, a->F);
    int64_t floats = 2 * (wide + a->F);
    float *staging = mdsk_scratch(threads * floats);

    (void)stream;
    if (!staging)
        return -ENOMEM;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t c = 0; c < a->R * a->k; c++) {
        float *mine = staging + omp_get_thread_num() * floats;
        float *y = mine + wide, *other = y + a->F;
        const float *x = mdsk_read(a->dtype, a->x, c * wide, wide, mine);
        const float *dy = mdsk_read(a->dtype, a->dy, c * a->F, a->F, other);
        float *dx = mdsk_fill(a->dtype, a->dx, c * wide, other + a->F);

        mdsk_activate_row(a->kind, a->F, x, y);
        a->dweight[weight_at(a->from, c)] = dot(a->F, y, dy);
        scale(a->F, a->weight[weight_at(a->from, c)], dy, y);
        mdsk_activate_row_bwd(a->kind, a->F, x, y, dx);
        mdsk_put(a->dtype, dx, wide, a->dx, c * wide);
    }
    return 0;
}

/* ---- linear layers of all experts ---- */

/* Row `row` of a tensor with `cols` columns. */
static const void *row_of(enum mdsk_dtype t, const void *x, int64_t row, int64_t cols)
{
    return (const char *)x + (size_t)(row * cols) * mdsk_dtype_size(t);
}

static void *row_to(enum mdsk_dtype t, void *x, int64_t row, int64_t cols)
{
    return (char *)x + (size_t)(row * cols) * mdsk_dtype_size(t);
}

int mdsk_experts_fwd_cpu(void *stream, const struct mdsk_experts_fwd *a)
{
    int err = 0;

    for (int64_t e = 0; e < a->E && !err; e++) {
        const struct mdsk_linear_fwd one = {
            .R = a->first[e + 1] - a->first[e],
            .in = a->in,
            .out = a->out,
            .dtype = a->dtype,
            .by_rows = a->by_rows,
            .x = row_of(a->dtype, a->x, a->first[e], a->in),
            .w = row_of(a->dtype, a->w, e, a->step),
            .y = row_to(a->dtype, a->y, a->first[e], a->out)};

        err = one.R > 0 ? mdsk_linear_fwd_cpu(stream, &one) : 0;
    }
    return err;
}

int mdsk_experts_bwd_input_cpu(void *stream, const struct mdsk_experts_bwd_input *a)
{
    int err = 0;

    for (int64_t e = 0; e < a->E && !err; e++) {
        const struct mdsk_linear_bwd_input one = {
            .R = a->first[e + 1] - a->first[e],
            .in = a->in,
            .out = a->out,
            .dtype = a->dtype,
            .dy = row_of(a->dtype, a->dy, a->first[e], a->out),
            .w = row_of(a->dtype, a->w, e, a->step),
            .dx = row_to(a->dtype, a->dx, a->first[e], a->in)};

        err = one.R > 0 ? mdsk_linear_bwd_input_cpu(stream, &one) : 0;
    }
    return err;
}

int mdsk_experts_bwd_weight_cpu(void *stream, const struct mdsk_experts_bwd_weight *a)
{
    int err = 0;

    for (int64_t e = 0; e < a->E && !err; e++) {
        const struct mdsk_linear_bwd_weight one = {
            .R = a->first[e + 1] - a->first[e],
            .in = a->in,
            .out = a->out,
            .dtype = a->dtype,
            .write = a->write,
            .x = row_of(a->dtype, a->x, a->first[e], a->in),
            .dy = row_of(a->dtype, a->dy, a->first[e], a->out),
            .dw = a->dw + e * a->step};

        if (one.R > 0)
            err = mdsk_linear_bwd_weight_cpu(stream, &one);
        else if (one.write)
            mdsk_cpu_zero(one.dw, a->in * a->out * (int64_t)sizeof *one.dw);
    }
    return err;
}
