/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/normal.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/random.h"

enum { LANES = MDSK_MASK_LANES, SPAN = MDSK_MASK_SPAN };

/* Philox of blocks `block` and on. */
MDSK_INLINED void philox_blocks(uint64_t key, int64_t block, uint32_t c[4][LANES])
{
#pragma omp simd
    for (int i = 0; i < LANES; i++) {
        c[0][i] = (uint32_t)(block + i);
        c[1][i] = (uint32_t)((uint64_t)(block + i) >> 32);
        c[2][i] = c[3][i] = 0;
    }
    mdsk_philox_lanes((uint32_t)key, (uint32_t)(key >> 32), c);
}

/* -log((a + 1) / 2^32): a power of two, and log m = 2 atanh((m - 1) / (m + 1)) for
 * sqrt(1/2) < m <= sqrt(2). */
MDSK_INLINED double minus_log(uint32_t a)
{
    union {
        double d;
        uint64_t bits;
    } m = {.d = (double)a + 1};
    double e = (double)(int32_t)(m.bits >> 52) - 1023 - 32, s, z, p;

    m.bits = (m.bits & UINT64_C(0xFFFFFFFFFFFFF)) | UINT64_C(0x3FF0000000000000);
    e = m.d > M_SQRT2 ? e + 1 : e;
    m.d = m.d > M_SQRT2 ? m.d / 2 : m.d;
    s = (m.d - 1) / (m.d + 1);
    z = s * s;
    p = ((((z / 19 + 1.0 / 17) * z + 1.0 / 15) * z + 1.0 / 13) * z + 1.0 / 11) * z;
    p = ((((p + 1.0 / 9) * z + 1.0 / 7) * z + 1.0 / 5) * z + 1.0 / 3) * z + 1;
    return -(e * M_LN2 + 2 * s * p);
}

/* cos and sin of 2 pi b / 2^32: quarters of a turn are exact, Taylor does the rest. */
MDSK_INLINED void turn(uint32_t b, double *c, double *s)
{
    uint32_t quarter = (b + (UINT32_C(1) << 29)) >> 30;
    double r = (double)(int32_t)(b - (quarter << 30)) * (M_PI_2 / (1 << 30));
    double z = r * r, p, q, cr, sr;

    p = ((z / 6227020800 - 1.0 / 39916800) * z + 1.0 / 362880) * z - 1.0 / 5040;
    sr = (((p * z + 1.0 / 120) * z - 1.0 / 6) * z) * r + r;
    q = ((-z / 87178291200 + 1.0 / 479001600) * z - 1.0 / 3628800) * z + 1.0 / 40320;
    cr = (((q * z - 1.0 / 720) * z + 1.0 / 24) * z - 0.5) * z + 1;
    *c = quarter & 1 ? sr : cr;
    *s = quarter & 1 ? cr : sr;
    *c = (quarter + 1) & 2 ? -*c : *c;
    *s = quarter & 2 ? -*s : *s;
}

/* SPAN random numbers, from number 4 block on. */
MDSK_DISPATCH static void fill_span(uint64_t key, int64_t block, double std,
                                    float out[SPAN])
{
    uint32_t w[4][LANES];

    philox_blocks(key, block, w);
    for (int pair = 0; pair < 4; pair += 2)
#pragma omp simd
        for (int i = 0; i < LANES; i++) {
            double radius = std * sqrt(2 * minus_log(w[pair][i])), c, s;

            turn(w[pair + 1][i], &c, &s);
            out[4 * i + pair] = (float)(radius * c);
            out[4 * i + pair + 1] = (float)(radius * s);
        }
}

/* n numbers from `first` on */
static void fill_range(const struct mdsk_normal *a, int64_t first, int64_t n,
                       float *out)
{
    float span[SPAN];

    for (int64_t i = 0; i < n;) {
        int64_t skip = (first + i) % 4, m = mdsk_min(SPAN - skip, n - i);

        fill_span(a->key, (first + i) / 4, a->std, span);
        memcpy(out + i, span + skip, (size_t)m * sizeof *out);
        i += m;
    }
}

void mdsk_normal_fill(const struct mdsk_normal *a)
{
    const int64_t chunk = 1 << 12;
    int64_t per_row = mdsk_ceil_div(a->cols, chunk);

#pragma omp parallel for schedule(static)                                              \
    num_threads(mdsk_threads_for(a->rows * a->cols))
    for (int64_t p = 0; p < a->rows * per_row; p++) {
        int64_t r = p / per_row, c = p % per_row * chunk;

        fill_range(a, a->first + r * a->stride + c, mdsk_min(chunk, a->cols - c),
                   a->out + r * a->cols + c);
    }
}
