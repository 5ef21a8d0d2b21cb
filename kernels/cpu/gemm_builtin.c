/* SPDX-License-Identifier: BSD-3-Clause */
/* The built-in product: blocks of B packed once for all threads, blocks of A by the
 * thread that needs them, the arithmetic in tile.c.
 *
 * Source of the blocking: Goto, van de Geijn 2008, "Anatomy of high-performance matrix
 * multiplication", ACM TOMS 34(3).  One pass over k adds up KC products at a time in
 * registers, so the bits depend on the shapes alone. */
#include "kernels/cpu/gemm.h"

#include <errno.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/tile.h"

enum {
    KC = 256,  /* a panel of B, KC x 16, stays in L1 */
    MC = 96,   /* a block of A, MC x KC, stays in L2; a multiple of 6 and 8 rows */
    NC = 1024, /* a block of B, KC x NC, stays in L2 or L3 */
};

/* One block of the product: rows of A from i, a packed block of B, columns of C from j;
 * and where a thread packs its part of A. */
struct block {
    const struct mdsk_operand *a;
    const float *b; /* k rows, packed */
    float *c;
    int64_t ldc;
    int64_t i, m, j, n, p, k;
    int add;
};

MDSK_DISPATCH static void pack_a(const struct block *t, float *out)
{
    const struct mdsk_operand *a = t->a;

    if (a->transposed) {
        for (int64_t p = 0; p < t->k; p++)
            for (int64_t i = 0; i < t->m; i++)
                out[p * t->m + i] = a->data[(t->p + p) * a->ld + t->i + i];
    } else {
        for (int64_t i = 0; i < t->m; i++)
            memcpy(out + i * t->k, a->data + (t->i + i) * a->ld + t->p,
                   (size_t)t->k * sizeof *out);
    }
}

/* The last, incomplete panel of C goes by way of a whole one. */
static void ragged_panel(const struct block *t, const struct mdsk_tile_a *a, int64_t j)
{
    struct mdsk_tile_b b = {t->b + j * t->k, t->k};
    float whole[MC * MDSK_NR];

    mdsk_tile_mm(t->m, MDSK_NR, t->k, a, &b, whole, MDSK_NR, 0);
    for (int64_t i = 0; i < t->m; i++) {
        float *c = t->c + (t->i + i) * t->ldc + t->j + j;

        for (int64_t x = 0; x < t->n - j; x++)
            c[x] = t->add ? c[x] + whole[i * MDSK_NR + x] : whole[i * MDSK_NR + x];
    }
}

static void multiply_block(const struct block *t, float *scratch)
{
    struct mdsk_tile_a a = {scratch, t->k, 1};
    struct mdsk_tile_b b = {t->b, t->k};
    int64_t whole = t->n / MDSK_NR * MDSK_NR;

    if (t->a->transposed)
        a = (struct mdsk_tile_a){scratch, 1, t->m};
    pack_a(t, scratch);
    mdsk_tile_mm(t->m, whole, t->k, &a, &b, t->c + t->i * t->ldc + t->j, t->ldc,
                 t->add);
    if (whole < t->n)
        ragged_panel(t, &a, whole);
}

static void pack_b(const struct mdsk_operand *b, int64_t p, int64_t k, int64_t j,
                   int64_t n, float *out)
{
    if (b->transposed)
        mdsk_tile_pack(k, n, b->data + j * b->ld + p, 1, b->ld, out);
    else
        mdsk_tile_pack(k, n, b->data + p * b->ld + j, b->ld, 1, out);
}

/* One block of B against all of A.  Where A has few blocks, B is split too, so that
 * every thread has work. */
static void multiply_panels(const struct block *whole, int64_t m,
                            const struct mdsk_operand *b, float *packed, float *rooms,
                            int threads)
{
    int64_t rows = mdsk_ceil_div(m, MC), panels = mdsk_ceil_div(whole->n, MDSK_NR);
    int64_t splits = mdsk_min(panels, mdsk_ceil_div(4 * threads, rows));
    int64_t wide = mdsk_ceil_div(panels, splits) * MDSK_NR;

    splits = mdsk_ceil_div(whole->n, wide);
#pragma omp parallel num_threads(threads)
    {
        float *scratch = rooms + (int64_t)omp_get_thread_num() * MC * KC;

#pragma omp for schedule(static)
        for (int64_t q = 0; q < panels; q++)
            pack_b(b, whole->p, whole->k, whole->j + q * MDSK_NR,
                   mdsk_min(MDSK_NR, whole->n - q * MDSK_NR),
                   packed + q * MDSK_NR * whole->k);
#pragma omp for schedule(dynamic)
        for (int64_t t = 0; t < rows * splits; t++) {
            struct block part = *whole;

            part.i = t / splits * MC;
            part.m = mdsk_min(MC, m - part.i);
            part.b = packed + t % splits * wide * whole->k;
            part.j = whole->j + t % splits * wide;
            part.n = mdsk_min(wide, whole->n - t % splits * wide);
            multiply_block(&part, scratch);
        }
    }
}

int mdsk_gemm_builtin(int64_t m, int64_t n, int64_t k, const struct mdsk_operand *a,
                      const struct mdsk_operand *b, float *c, int64_t ldc, int add)
{
    int threads = mdsk_threads_for(m * n / 16 * k);
    float *packed = mdsk_scratch_gemm((int64_t)KC * NC + (int64_t)threads * MC * KC);

    if (!packed)
        return -ENOMEM;
    for (int64_t j = 0; j < n; j += NC) {
        for (int64_t p = 0; p < k; p += KC) {
            struct block t = {.a = a,
                              .c = c,
                              .ldc = ldc,
                              .j = j,
                              .n = mdsk_min(NC, n - j),
                              .p = p,
                              .k = mdsk_min(KC, k - p),
                              .add = add || p > 0};

            multiply_panels(&t, m, b, packed, packed + (int64_t)KC * NC, threads);
        }
    }
    return 0;
}
