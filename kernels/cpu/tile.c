/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/cpu/tile.h"

#include <string.h>

#include "config.h"
#include "kernels/cpu/cpu.h"

/* One copy of the inner product per register width, chosen at each call: GCC keeps
 * the accumulators of a vector type wider than the target's registers in memory, so
 * target_clones over one width would be slow everywhere else. */
#if defined MDS_SIMD_DISPATCH && defined __x86_64__
#define TILE_W 16
#define TILE_ROWS 8
#define TILE_TARGET __attribute__((target("arch=x86-64-v4")))
#define TILE_TYPE vec16
#define TILE_MICRO micro16
#define TILE_MM mm16
#include "kernels/cpu/tile_body.h"
#define TILE_W 8
#define TILE_ROWS 6
#define TILE_TARGET __attribute__((target("arch=x86-64-v3")))
#define TILE_TYPE vec8
#define TILE_MICRO micro8
#define TILE_MM mm8
#include "kernels/cpu/tile_body.h"
#endif

#if defined __AVX512F__
#define TILE_W 16
#define TILE_ROWS 8
#elif defined __AVX__
#define TILE_W 8
#define TILE_ROWS 6
#else
#define TILE_W 4
#define TILE_ROWS 3
#endif
#define TILE_TARGET
#define TILE_TYPE vec_any
#define TILE_MICRO micro_any
#define TILE_MM mm_any
#include "kernels/cpu/tile_body.h"

void mdsk_tile_mm(int64_t m, int64_t n, int64_t k, const struct mdsk_tile_a *a,
                  const struct mdsk_tile_b *b, float *c, int64_t ldc, int add)
{
#if defined MDS_SIMD_DISPATCH && defined __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) {
        mm16(m, n, k, a, b, c, ldc, add);
        return;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        mm8(m, n, k, a, b, c, ldc, add);
        return;
    }
#endif
    mm_any(m, n, k, a, b, c, ldc, add);
}

/* Rows of B are contiguous: copy them into panels. */
MDSK_DISPATCH static void pack_rows(int64_t k, int64_t cols, const float *b,
                                    int64_t row, float *out)
{
    for (int64_t p = 0; p < k; p++, b += row, out += MDSK_NR) {
        if (cols == MDSK_NR) {
            memcpy(out, b, MDSK_NR * sizeof *out);
        } else {
            memcpy(out, b, (size_t)cols * sizeof *out);
            memset(out + cols, 0, (size_t)(MDSK_NR - cols) * sizeof *out);
        }
    }
}

/* Four floats are a register everywhere, which makes this portable. */
typedef float vec4 __attribute__((vector_size(16), aligned(4), may_alias));

/* out[p][0..3] = b[0..3][p] for p < 4; columns of b are `col` apart.  Compilers make
 * shuffles of the initialisers. */
static inline void transpose4(const float *b, int64_t col, float *out)
{
    vec4 x0 = *(const vec4 *)b, x1 = *(const vec4 *)(b + col);
    vec4 x2 = *(const vec4 *)(b + 2 * col), x3 = *(const vec4 *)(b + 3 * col);
    vec4 low01 = {x0[0], x1[0], x0[1], x1[1]}, high01 = {x0[2], x1[2], x0[3], x1[3]};
    vec4 low23 = {x2[0], x3[0], x2[1], x3[1]}, high23 = {x2[2], x3[2], x2[3], x3[3]};

    *(vec4 *)out = (vec4){low01[0], low01[1], low23[0], low23[1]};
    *(vec4 *)(out + MDSK_NR) = (vec4){low01[2], low01[3], low23[2], low23[3]};
    *(vec4 *)(out + 2 * MDSK_NR) = (vec4){high01[0], high01[1], high23[0], high23[1]};
    *(vec4 *)(out + 3 * MDSK_NR) = (vec4){high01[2], high01[3], high23[2], high23[3]};
}

/* Columns of B are contiguous: transpose them into panels. */
static void pack_columns(int64_t k, int64_t cols, const float *b, int64_t col,
                         float *out)
{
    int64_t whole_k = k / 4 * 4, whole_cols = cols / 4 * 4;

    for (int64_t p = 0; p < whole_k; p += 4)
        for (int64_t j = 0; j < whole_cols; j += 4)
            transpose4(b + j * col + p, col, out + p * MDSK_NR + j);
    for (int64_t p = 0; p < k; p++)
        for (int64_t j = p < whole_k ? whole_cols : 0; j < MDSK_NR; j++)
            out[p * MDSK_NR + j] = j < cols ? b[j * col + p] : 0;
}

void mdsk_tile_pack(int64_t k, int64_t n, const float *b, int64_t row, int64_t col,
                    float *out)
{
    for (int64_t j = 0; j < n; j += MDSK_NR, out += MDSK_NR * k) {
        int64_t cols = mdsk_min(MDSK_NR, n - j);

        if (col == 1)
            pack_rows(k, cols, b + j, row, out);
        else
            pack_columns(k, cols, b + j * col, col, out);
    }
}
