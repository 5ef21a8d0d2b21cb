#include "kernels/elementwise.h"

#include "kernels/cpu/random.h"
#include "kernels/philox.h"

enum { LANES = MDSK_MASK_SPAN / 4 };

/* mdsk_philox for LANES counters that differ in word 0 alone (and in the carry of the
 * block number, which is kept in word 2): each round is a loop over the lanes. */
MDSK_INLINED void philox_lanes(uint32_t k0, uint32_t k1, uint32_t c[4][LANES])
{
    for (int round = 0; round < 10; round++) {
#pragma omp simd
        for (int i = 0; i < LANES; i++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * c[0][i];
            uint64_t p1 = (uint64_t)0xCD9E8D57u * c[2][i];

            c[0][i] = (uint32_t)(p1 >> 32) ^ c[1][i] ^ k0;
            c[2][i] = (uint32_t)(p0 >> 32) ^ c[3][i] ^ k1;
            c[1][i] = (uint32_t)p1;
            c[3][i] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* The key and counter of mdsk_dropout_block, spread over lanes. */
MDSK_DISPATCH void mdsk_mask_span(const struct mdsk_dropout_key *key, int64_t sample,
                                  int64_t token, int64_t first, float *factor)
{
    uint32_t k0 = (uint32_t)key->seed ^ key->site * 0x85EBCA6Bu;
    uint32_t k1 = (uint32_t)(key->seed >> 32) ^ key->step;
    uint32_t threshold = mdsk_dropout_threshold(key->p);
    float keep = 1 / (1 - key->p);
    uint32_t c[4][LANES];

    for (int i = 0; i < LANES; i++) {
        uint64_t block = (uint64_t)first / 4 + (uint64_t)i;

        c[0][i] = (uint32_t)block;
        c[1][i] = (uint32_t)token;
        c[2][i] = (uint32_t)(block >> 32) << 16 ^ (uint32_t)((uint64_t)token >> 32);
        c[3][i] = (uint32_t)sample;
    }
    philox_lanes(k0, k1, c);
    for (int i = 0; i < LANES; i++)
        for (int w = 0; w < 4; w++)
            factor[4 * i + w] = c[w][i] >= threshold ? keep : 0;
}

MDSK_DISPATCH static void multiply(int64_t n, const float *factor, const float *x,
                                   float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * factor[i];
}

int mdsk_dropout_cpu(void *stream, const struct mdsk_dropout *a)
{
    int64_t R = a->rows.B * a->rows.S;

    (void)stream;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(R * a->H))
    for (int64_t r = 0; r < R; r++) {
        const float *x = (const float *)a->x + r * a->H;
        float *y = (float *)a->y + r * a->H;
        float factor[MDSK_MASK_SPAN];

        for (int64_t h = 0; h < a->H; h += MDSK_MASK_SPAN) {
            mdsk_mask_span(&a->key, a->rows.first_sample + r / a->rows.S,
                           a->rows.first_token + r % a->rows.S, h, factor);
            multiply(mdsk_min(MDSK_MASK_SPAN, a->H - h), factor, x + h, y + h);
        }
    }
    return 0;
}
