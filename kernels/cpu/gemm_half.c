/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of operands in 16 or 8 bits: block by block these become f32, and the f32
 * product does the rest.  A block is read from memory anew for each block across from
 * it, which is nothing beside its BLOCK multiply-adds an element; the working memory is
 * three blocks, whatever the shapes. */
#include "kernels/cpu/gemm.h"

#include <errno.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/storage.h"

enum { BLOCK = 1024 };

/* rows x cols numbers of x, from row r and column c, to out [rows, cols] */
static void widen_block(enum mdsk_dtype t, const struct mdsk_half_operand *x, int64_t r,
                        int64_t rows, int64_t c, int64_t cols, float *out)
{
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(rows *cols))
    for (int64_t i = 0; i < rows; i++) {
        mdsk_widen(x->scale ? x->code : t, x->data, (r + i) * x->ld + c, cols,
                   out + i * cols);
        for (int64_t j = 0; x->scale && j < cols; j++)
            out[i * cols + j] *= *x->scale;
    }
}

/* Element (i .. i+m-1, j .. j+n-1) of a factor as f32. */
static struct mdsk_operand widen_operand(enum mdsk_dtype t,
                                         const struct mdsk_half_operand *x, int64_t i,
                                         int64_t m, int64_t j, int64_t n,
                                         float *scratch)
{
    if (x->transposed)
        widen_block(t, x, j, n, i, m, scratch);
    else
        widen_block(t, x, i, m, j, n, scratch);
    return (struct mdsk_operand){scratch, x->transposed ? m : n, x->transposed};
}

/* What the block at (i, j) starts from where C is not f32. */
static void load_bias(const struct mdsk_gemm_half *p, int64_t j, int64_t m, int64_t n,
                      float *c)
{
    if (!p->bias)
        return;
    mdsk_widen(p->dtype, p->bias, j, n, c);
    for (int64_t r = 1; r < m; r++)
        memcpy(c + r * n, c, (size_t)n * sizeof *c);
}

/* The row of a block that becomes elements at .. at + n - 1 of C: factors and Z. */
static void blend_row(const struct mdsk_gemm_half *p, int64_t at, int64_t n, float *c)
{
    float z[BLOCK];

    for (int64_t j = 0; j < n; j++)
        c[j] *= p->factors[0];
    if (!p->z)
        return;
    mdsk_widen(p->to, p->z, at, n, z);
    for (int64_t j = 0; j < n; j++)
        c[j] += p->factors[1] * z[j];
}

static void store_block(const struct mdsk_gemm_half *p, int64_t i, int64_t j, int64_t m,
                        int64_t n, float *c)
{
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(m *n))
    for (int64_t r = 0; r < m; r++) {
        int64_t at = (i + r) * p->n + j;

        if (p->factors)
            blend_row(p, at, n, c + r * n);
        mdsk_put(p->to, c + r * n, n, p->c, at);
    }
}

/* The block of C at (i, j). */
static int multiply_block(const struct mdsk_gemm_half *p, int64_t i, int64_t j,
                          float *scratch)
{
    int64_t m = mdsk_min(BLOCK, p->m - i), n = mdsk_min(BLOCK, p->n - j);
    float *a_room = scratch, *b_room = a_room + BLOCK * BLOCK;
    float *c = mdsk_fill(p->to, p->c, i * p->n + j, b_room + BLOCK * BLOCK);
    int64_t ldc = p->to == MDSK_F32 ? p->n : n;

    if (p->to != MDSK_F32)
        load_bias(p, j, m, n, c);
    for (int64_t q = 0; q < p->k; q += BLOCK) {
        int64_t k = mdsk_min(BLOCK, p->k - q);
        struct mdsk_operand a = widen_operand(p->dtype, &p->a, i, m, q, k, a_room);
        struct mdsk_operand b = widen_operand(p->dtype, &p->b, q, k, j, n, b_room);
        int add = q > 0 || p->bias || p->add;
        int err = mdsk_gemm_of(p->by_rows)(m, n, k, &a, &b, c, ldc, add);

        if (err)
            return err;
    }
    store_block(p, i, j, m, n, c);
    return 0;
}

int mdsk_gemm_half(const struct mdsk_gemm_half *p)
{
    float *scratch = mdsk_scratch(3 * BLOCK * BLOCK);

    if (!scratch)
        return -ENOMEM;
    for (int64_t i = 0; i < p->m; i += BLOCK) {
        for (int64_t j = 0; j < p->n; j += BLOCK) {
            int err = multiply_block(p, i, j, scratch);

            if (err)
                return err;
        }
    }
    return 0;
}
