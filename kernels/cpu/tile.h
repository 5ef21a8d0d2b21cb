/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of matrix blocks that fit in a cache, used by the built-in GEMM and by
 * attention. */
#ifndef MDSK_CPU_TILE_H
#define MDSK_CPU_TILE_H

#include "kernels/inline.h"

#include <stdint.h>

enum { MDSK_NR = 16 }; /* columns of a packed panel */

/* Round up to whole panels. */
static inline int64_t mdsk_panels(int64_t n)
{
    return mdsk_ceil_div(n, MDSK_NR) * MDSK_NR;
}

/* A left operand: element (i, p) is data[i * row + p * col].  Both orientations cost
 * the same. */
struct mdsk_tile_a {
    const float *data;
    int64_t row, col;
};

/* A right operand, packed by mdsk_tile_pack: panel j / 16 holds columns j .. j+15 of
 * `rows` rows as [rows][16].  A product may use fewer rows. */
struct mdsk_tile_b {
    const float *data;
    int64_t rows;
};

/* C = A B, or C += A B if add is set.
 *
 *   A  [m, k]    B  [k, n]
 *   C  [m, n]    row-major with stride ldc >= mdsk_panels(n): the columns up to the
 *                next whole panel are written too */
void mdsk_tile_mm(int64_t m, int64_t n, int64_t k, const struct mdsk_tile_a *a,
                  const struct mdsk_tile_b *b, float *c, int64_t ldc, int add);

/* Pack B for mdsk_tile_mm: element (p, j) of B is b[p * row + j * col], and row or col
 * must be 1.  The last panel is padded with zeros.
 *
 *   out  k * mdsk_panels(n) floats */
void mdsk_tile_pack(int64_t k, int64_t n, const float *b, int64_t row, int64_t col,
                    float *out);

#endif
