/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/cpu/random.h"

#include "kernels/philox.h"

enum { LANES = MDSK_MASK_LANES };

MDSK_INLINED void philox_lanes(const struct mdsk_dropout_key *key, uint32_t c[4][LANES])
{
    mdsk_philox_lanes((uint32_t)key->seed ^ key->site * 0x85EBCA6Bu,
                      (uint32_t)(key->seed >> 32) ^ key->step, c);
}

/* The counter of mdsk_dropout_block. */
MDSK_INLINED void set_counter(uint64_t sample, uint64_t token, uint64_t block, int i,
                              uint32_t c[4][LANES])
{
    c[0][i] = (uint32_t)block;
    c[1][i] = (uint32_t)token;
    c[2][i] = (uint32_t)(block >> 32) << 16 ^ (uint32_t)(token >> 32);
    c[3][i] = (uint32_t)sample;
}

MDSK_DISPATCH void mdsk_mask_span(const struct mdsk_dropout_key *key, int64_t sample,
                                  int64_t token, int64_t first, float *factor)
{
    uint32_t threshold = mdsk_dropout_threshold(key->p);
    float keep = 1 / (1 - key->p);
    uint32_t c[4][LANES];

#pragma omp simd
    for (int i = 0; i < LANES; i++)
        set_counter((uint64_t)sample, (uint64_t)token, (uint64_t)(first / 4 + i), i, c);
    philox_lanes(key, c);
#pragma omp simd
    for (int i = 0; i < LANES; i++) {
        factor[4 * i] = c[0][i] >= threshold ? keep : 0;
        factor[4 * i + 1] = c[1][i] >= threshold ? keep : 0;
        factor[4 * i + 2] = c[2][i] >= threshold ? keep : 0;
        factor[4 * i + 3] = c[3][i] >= threshold ? keep : 0;
    }
}

MDSK_DISPATCH void mdsk_mask_tokens(const struct mdsk_dropout_key *key, int64_t sample,
                                    int64_t token, int64_t block, float *factor)
{
    uint32_t threshold = mdsk_dropout_threshold(key->p);
    float keep = 1 / (1 - key->p);
    uint32_t c[4][LANES];

#pragma omp simd
    for (int i = 0; i < LANES; i++)
        set_counter((uint64_t)sample, (uint64_t)(token + i), (uint64_t)block, i, c);
    philox_lanes(key, c);
    for (int w = 0; w < 4; w++)
#pragma omp simd
        for (int i = 0; i < LANES; i++)
            factor[w * LANES + i] = c[w][i] >= threshold ? keep : 0;
}
