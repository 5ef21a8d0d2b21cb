/* SPDX-License-Identifier: BSD-3-Clause */
/* FP8 as GPUs have it, emulated: the same codes and scales, and sums in f32. */
#include "kernels/table.h"

#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/storage.h"

enum { ROWS = 64 }; /* of a block: a cache line of transposed codes */

MDSK_DISPATCH static void multiply(int64_t n, const float *x, float by, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * by;
}

/* What is cast of row r: n elements from column c on. */
static const float *values(const struct mdsk_fp8_cast *a, int64_t r, int64_t c,
                           int64_t n, float *scratch)
{
    struct mdsk_activation_fwd act = {a->kind, a->R, a->C, a->dtype, a->x, NULL};

    if (!a->activated)
        return mdsk_read(a->dtype, a->x, r * a->C + c, n, scratch);
    mdsk_activate(&act, r, c, n, scratch);
    return scratch;
}

static uint32_t amax_of_tensor(const struct mdsk_fp8_cast *a)
{
    uint32_t most = 0;

#pragma omp parallel for schedule(static) reduction(max                                \
                                                    : most)                            \
    num_threads(mdsk_threads_for(a->R * a->C))
    for (int64_t r = 0; r < a->R; r++)
        for (int64_t c = 0; c < a->C; c += MDSK_STAGING) {
            float scratch[MDSK_STAGING];
            int64_t n = mdsk_min(MDSK_STAGING, a->C - c);

            most = mdsk_amax(n, values(a, r, c, n, scratch), most);
        }
    return most;
}

/* Codes of n elements from column c of row r on, to both results. */
static void cast_part(const struct mdsk_fp8_cast *a, float factor, int64_t r, int64_t c,
                      int64_t n)
{
    float scratch[MDSK_STAGING], scaled[MDSK_STAGING];
    uint8_t code[MDSK_STAGING], *rows = a->rows, *cols = a->cols;

    multiply(n, values(a, r, c, n, scratch), factor, scaled);
    mdsk_narrow(a->to, scaled, n, code, 0);
    if (rows)
        memcpy(rows + r * mdsk_fp8_ld(a->C) + c, code, (size_t)n);
    for (int64_t i = 0; cols && i < n; i++)
        cols[(c + i) * mdsk_fp8_ld(a->R) + r] = code[i];
}

/* Zeros behind the end of each row of codes. */
static void pad(int64_t R, int64_t C, uint8_t *rows)
{
    int64_t ld = mdsk_fp8_ld(C);

    for (int64_t r = 0; rows && C < ld && r < R; r++)
        memset(rows + r * ld + C, 0, (size_t)(ld - C));
}

int mdsk_fp8_cast_cpu(void *stream, const struct mdsk_fp8_cast *a)
{
    uint32_t amax = a->amax_known ? *a->amax : amax_of_tensor(a);
    float factor = mdsk_fp8_factor(a->to, amax);

    (void)stream;
    if (a->amax)
        *a->amax = amax;
    *a->scale = 1 / factor;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(a->R * a->C))
    for (int64_t r0 = 0; r0 < a->R; r0 += ROWS)
        for (int64_t r = r0; r < mdsk_min(r0 + ROWS, a->R); r++)
            for (int64_t c = 0; c < a->C; c += MDSK_STAGING)
                cast_part(a, factor, r, c, mdsk_min(MDSK_STAGING, a->C - c));
    pad(a->R, a->C, a->rows);
    pad(a->C, a->R, a->cols);
    return a->sum ? mdsk_add_column_sums(a->R, a->C, a->dtype, a->x, a->sum) : 0;
}

int mdsk_fp8_gemm_cpu(void *stream, const struct mdsk_fp8_gemm *a)
{
    int64_t ld = mdsk_fp8_ld(a->K);
    struct mdsk_gemm_half p = {.m = a->M,
                               .n = a->N,
                               .k = a->K,
                               .dtype = a->dtype,
                               .to = a->dtype,
                               .a = {a->a.code, ld, 0, a->a.type, a->a.scale},
                               .b = {a->b.code, ld, 1, a->b.type, a->b.scale},
                               .bias = a->bias,
                               .c = a->y,
                               .add = a->add};

    (void)stream;
    return mdsk_gemm_half(&p);
}
