/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/table.h"

#include <errno.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/storage.h"

static int half_fwd(const struct mdsk_linear_fwd *a)
{
    struct mdsk_gemm_half p = {.m = a->R,
                               .n = a->out,
                               .k = a->in,
                               .dtype = a->dtype,
                               .to = a->dtype,
                               .by_rows = a->by_rows,
                               .a = {a->x, a->in, 0},
                               .b = {a->w, a->in, 1},
                               .bias = a->b,
                               .c = a->y};

    return mdsk_gemm_half(&p);
}

/* The product adds to the bias instead of a second pass over y. */
static int gemm_and_bias(const struct mdsk_linear_fwd *a)
{
    struct mdsk_operand x = {a->x, a->in, 0}, w = {a->w, a->in, 1};
    float *y = a->y;

    if (a->dtype != MDSK_F32)
        return half_fwd(a);
    if (a->b) {
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(a->R * a->out))
        for (int64_t r = 0; r < a->R; r++)
            memcpy(y + r * a->out, a->b, (size_t)a->out * sizeof *y);
    }
    return mdsk_gemm_of(a->by_rows)(a->R, a->out, a->in, &x, &w, y, a->out,
                                    a->b != NULL);
}

int mdsk_linear_fwd_cpu(void *stream, const struct mdsk_linear_fwd *a)
{
    struct mdsk_activation_fwd act = mdsk_linear_gelu_fwd(a);
    int err = gemm_and_bias(a);

    return err || !a->gelu ? err : mdsk_activation_fwd_cpu(stream, &act);
}

static int half_bwd_input(const struct mdsk_linear_bwd_input *a)
{
    struct mdsk_gemm_half p = {.m = a->R,
                               .n = a->in,
                               .k = a->out,
                               .dtype = a->dtype,
                               .to = a->dtype,
                               .a = {a->dy, a->out, 0},
                               .b = {a->w, a->in, 0},
                               .c = a->dx};

    return mdsk_gemm_half(&p);
}

int mdsk_linear_bwd_input_cpu(void *stream, const struct mdsk_linear_bwd_input *a)
{
    struct mdsk_operand dy = {a->dy, a->out, 0}, w = {a->w, a->in, 0};
    struct mdsk_activation_bwd act = mdsk_linear_gelu_bwd(a);
    int err;

    if (a->dtype != MDSK_F32)
        err = half_bwd_input(a);
    else
        err = mdsk_gemm(a->R, a->in, a->out, &dy, &w, a->dx, a->in, 0);
    return err || !a->u ? err : mdsk_activation_bwd_cpu(stream, &act);
}

struct columns {
    int64_t n;
    enum mdsk_dtype dtype;
    const void *x;
};

/* sum += column sums of rows r0 .. r1-1 of x, through blocks of 64 rows, so that
 * rounding grows with the blocks and not with the rows.  block, scratch [out] */
static void sum_columns_of(const struct columns *a, int64_t r0, int64_t r1, float *sum,
                           float *block, float *scratch)
{
    int64_t n = a->n;

    for (int64_t b0 = r0; b0 < r1; b0 += 64) {
        int64_t b1 = mdsk_min(b0 + 64, r1);

        memset(block, 0, (size_t)n * sizeof *block);
        for (int64_t r = b0; r < b1; r++)
            mdsk_add_to(n, mdsk_read(a->dtype, a->x, r * n, n, scratch), block);
        mdsk_add_to(n, block, sum);
    }
}

int mdsk_add_column_sums(int64_t R, int64_t n, enum mdsk_dtype dtype, const void *x,
                         float *sum)
{
    const struct columns all = {n, dtype, x};
    int64_t parts = mdsk_parts(R), rows = mdsk_ceil_div(R, parts);
    float *sums = mdsk_scratch(3 * parts * n);

    if (!sums)
        return -ENOMEM;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(R *n))
    for (int64_t p = 0; p < parts; p++) {
        memset(sums + p * n, 0, (size_t)n * sizeof *sums);
        sum_columns_of(&all, p * rows, mdsk_min(R, (p + 1) * rows), sums + p * n,
                       sums + (parts + p) * n, sums + (2 * parts + p) * n);
    }
    mdsk_add_partials(parts, n, sums, sum);
    return 0;
}

static int half_bwd_weight(const struct mdsk_linear_bwd_weight *a)
{
    struct mdsk_gemm_half p = {.m = a->out,
                               .n = a->in,
                               .k = a->R,
                               .dtype = a->dtype,
                               .to = MDSK_F32,
                               .a = {a->dy, a->out, 1},
                               .b = {a->x, a->in, 0},
                               .c = a->dw,
                               .add = !a->write};

    return mdsk_gemm_half(&p);
}

int mdsk_linear_bwd_weight_cpu(void *stream, const struct mdsk_linear_bwd_weight *a)
{
    struct mdsk_operand dy = {a->dy, a->out, 1}, x = {a->x, a->in, 0};

    (void)stream;
    if (a->db) {
        int err = mdsk_add_column_sums(a->R, a->out, a->dtype, a->dy, a->db);

        if (err)
            return err;
    }
    if (a->dtype != MDSK_F32)
        return half_bwd_weight(a);
    return mdsk_gemm(a->out, a->in, a->R, &dy, &x, a->dw, a->in, !a->write);
}
