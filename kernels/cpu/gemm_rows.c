/* SPDX-License-Identifier: BSD-3-Clause */
/* The product x W^T of a few rows or many, each of which has the bits that it would
 * have alone.  Rows of both factors lie together in memory, so nothing is packed: for
 * one row this runs as fast as W is read.
 *
 * An element is the sum of LANES sums, each over every LANES-th product in turn, and of
 * the products that are left; whatever rows and columns are computed beside it. */
#include "kernels/cpu/gemm.h"

#include "kernels/cpu/cpu.h"

enum {
    LANES = 8,
    ROWS = 32,    /* of x, stay in L2 while all columns of a block are computed */
    COLUMNS = 48, /* of a block */
};

typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* Rows of k elements of x and of W, and where the element of the first two goes. */
struct rows {
    int64_t k, ldx, ldw, ldc;
    const float *x, *w;
    float *c;
    int add;
};

/* `rows` by `columns` elements of C; both are constants, so sums are in registers. */
MDSK_INLINED void sum_products(const int rows, const int columns, const struct rows *t,
                               int64_t i, int64_t j)
{
    const float *x = t->x + i * t->ldx, *w = t->w + j * t->ldw;
    float *c = t->c + i * t->ldc + j;
    lanes sum[4][8];
    int64_t p = 0;

#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 16
        for (int q = 0; q < columns; q++)
            sum[r][q] = (lanes){0};
    for (; p + LANES <= t->k; p += LANES)
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 16
            for (int q = 0; q < columns; q++)
                sum[r][q] += *(const lanes *)(x + r * t->ldx + p) *
                             *(const lanes *)(w + q * t->ldw + p);
    for (int r = 0; r < rows; r++)
        for (int q = 0; q < columns; q++) {
            float all = 0;

            for (int l = 0; l < LANES; l++)
                all += sum[r][q][l];
            for (int64_t last = p; last < t->k; last++)
                all += x[r * t->ldx + last] * w[q * t->ldw + last];
            c[r * t->ldc + q] = t->add ? c[r * t->ldc + q] + all : all;
        }
}

/* Rows i .. i + rows - 1, columns j .. end - 1. */
MDSK_INLINED void four_rows(const struct rows *t, int64_t i, int64_t rows, int64_t j,
                            int64_t end)
{
    for (; j + 3 <= end; j += 3)
        for (int64_t r = 0; r < rows; r += 4)
            sum_products(4, 3, t, i + r, j);
    for (; j < end; j++)
        for (int64_t r = 0; r < rows; r += 4)
            sum_products(4, 1, t, i + r, j);
}

MDSK_INLINED void one_row(const struct rows *t, int64_t i, int64_t j, int64_t end)
{
    for (; j + 8 <= end; j += 8)
        sum_products(1, 8, t, i, j);
    for (; j < end; j++)
        sum_products(1, 1, t, i, j);
}

MDSK_DISPATCH static void multiply_block(const struct rows *t, int64_t i, int64_t rows,
                                         int64_t j, int64_t columns)
{
    int64_t fours = rows / 4 * 4;

    four_rows(t, i, fours, j, j + columns);
    for (int64_t r = fours; r < rows; r++)
        one_row(t, i + r, j, j + columns);
}

int mdsk_gemm_rows(int64_t m, int64_t n, int64_t k, const struct mdsk_operand *a,
                   const struct mdsk_operand *b, float *c, int64_t ldc, int add)
{
    const struct rows t = {k, a->ld, b->ld, ldc, a->data, b->data, c, add};
    int64_t across = mdsk_ceil_div(n, COLUMNS), down = mdsk_ceil_div(m, ROWS);

    if (a->transposed || !b->transposed)
        return mdsk_gemm_builtin(m, n, k, a, b, c, ldc, add);
#pragma omp parallel for schedule(dynamic) num_threads(mdsk_threads_for(m *n / 16 * k))
    for (int64_t block = 0; block < across * down; block++) {
        int64_t i = block / across * ROWS, j = block % across * COLUMNS;

        multiply_block(&t, i, mdsk_min(ROWS, m - i), j, mdsk_min(COLUMNS, n - j));
    }
    return 0;
}
