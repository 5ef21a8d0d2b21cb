/* SPDX-License-Identifier: BSD-3-Clause */
/* The inner product of tile.c for one vector width, included once per width with
 *
 *   TILE_W       floats in a vector register (a power of two, at most MDSK_NR)
 *   TILE_ROWS    rows of C held in registers at a time
 *   TILE_TARGET  function attribute naming the instruction set, or nothing
 *   TILE_TYPE, TILE_MICRO, TILE_MM  names to define
 *
 * No include guard, on purpose. */

typedef float TILE_TYPE __attribute__((vector_size(4 * TILE_W), aligned(4), may_alias));

/* One strip of C, `rows` by MDSK_NR, kept in registers over the whole of k. */
TILE_TARGET static inline __attribute__((always_inline)) void
TILE_MICRO(const int rows, int64_t k, const struct mdsk_tile_a *a, const float *ai,
           const float *b, float *c, int64_t ldc, int add)
{
    enum { VECS = MDSK_NR / TILE_W };
    TILE_TYPE acc[TILE_ROWS][VECS];

#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 16
        for (int v = 0; v < VECS; v++)
            acc[i][v] = (TILE_TYPE){0};
    for (int64_t p = 0; p < k; p++, ai += a->col, b += MDSK_NR) {
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 16
            for (int v = 0; v < VECS; v++)
                acc[i][v] += ai[i * a->row] * *(const TILE_TYPE *)(b + v * TILE_W);
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 16
        for (int v = 0; v < VECS; v++) {
            TILE_TYPE *out = (TILE_TYPE *)(c + i * ldc + v * TILE_W);

            if (add)
                acc[i][v] += *out;
            *out = acc[i][v];
        }
}

TILE_TARGET static void TILE_MM(int64_t m, int64_t n, int64_t k,
                                const struct mdsk_tile_a *a,
                                const struct mdsk_tile_b *b, float *c, int64_t ldc,
                                int add)
{
    for (int64_t j = 0; j < n; j += MDSK_NR) {
        const float *ai = a->data, *bj = b->data + j * b->rows;
        float *ci = c + j;
        int64_t i = 0;

        for (; i + TILE_ROWS <= m; i += TILE_ROWS)
            TILE_MICRO(TILE_ROWS, k, a, ai + i * a->row, bj, ci + i * ldc, ldc, add);
        for (; i + TILE_ROWS / 2 <= m; i += TILE_ROWS / 2)
            TILE_MICRO(TILE_ROWS / 2, k, a, ai + i * a->row, bj, ci + i * ldc, ldc,
                       add);
        for (; i < m; i++)
            TILE_MICRO(1, k, a, ai + i * a->row, bj, ci + i * ldc, ldc, add);
    }
}

#undef TILE_W
#undef TILE_ROWS
#undef TILE_TARGET
#undef TILE_TYPE
#undef TILE_MICRO
#undef TILE_MM
