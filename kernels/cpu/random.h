/* SPDX-License-Identifier: BSD-3-Clause */
/* Philox and dropout masks, sixteen blocks at a time.  A mask has one factor per
 * element, 0 or 1 / (1 - p); mdsk_dropout_block defines which counter each element
 * uses. */
#ifndef MDSK_CPU_RANDOM_H
#define MDSK_CPU_RANDOM_H

#include "kernels/cpu/cpu.h"
#include "kernels/types.h"

enum {
    MDSK_MASK_LANES = 16,
    MDSK_MASK_SPAN = 4 * MDSK_MASK_LANES, /* elements per call */
};

/* mdsk_philox for MDSK_MASK_LANES counters in place; each round loops over the
 * lanes. */
MDSK_INLINED void mdsk_philox_lanes(uint32_t k0, uint32_t k1,
                                    uint32_t c[4][MDSK_MASK_LANES])
{
    for (int round = 0; round < 10; round++) {
#pragma omp simd
        for (int i = 0; i < MDSK_MASK_LANES; i++) {
            uint32_t x = c[0][i], y = c[2][i];

            c[0][i] = (uint32_t)((uint64_t)0xCD9E8D57u * y >> 32) ^ c[1][i] ^ k0;
            c[2][i] = (uint32_t)((uint64_t)0xD2511F53u * x >> 32) ^ c[3][i] ^ k1;
            c[1][i] = 0xCD9E8D57u * y;
            c[3][i] = 0xD2511F53u * x;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* Sixteen blocks of one token:  factor[e] is for element first + e; first is a multiple
 * of 4. */
void mdsk_mask_span(const struct mdsk_dropout_key *key, int64_t sample, int64_t token,
                    int64_t first, float *factor);

/* One block of sixteen tokens:  factor[16 w + t] is for element 4 block + w of token
 * token + t. */
void mdsk_mask_tokens(const struct mdsk_dropout_key *key, int64_t sample, int64_t token,
                      int64_t block, float *factor);

#endif
