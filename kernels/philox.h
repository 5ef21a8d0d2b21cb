/* SPDX-License-Identifier: BSD-3-Clause */
/* Philox4x32-10, a counter-based generator: the same key and counter give the same four
 * words everywhere.  Source: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers:
 * as easy as 1, 2, 3", SC11. */
#ifndef MDSK_PHILOX_H
#define MDSK_PHILOX_H

#include <stdint.h>

#include "kernels/inline.h"

MDSK_INLINE void mdsk_philox(const uint32_t key[2], const uint32_t ctr[4],
                             uint32_t out[4])
{
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t c0 = ctr[0], c1 = ctr[1], c2 = ctr[2], c3 = ctr[3];

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Random words for dropout: 32 bits for each of four neighbouring elements of token
 * `token` of sample `sample` at (seed, site, step).  Element e uses word e % 4 of block
 * e / 4. */
MDSK_INLINE void mdsk_dropout_block(uint64_t seed, uint32_t site, uint32_t step,
                                    int64_t sample, int64_t token, int64_t block,
                                    uint32_t out[4])
{
    uint32_t key[2] = {(uint32_t)seed ^ site * 0x85EBCA6Bu,
                       (uint32_t)(seed >> 32) ^ step};
    uint32_t ctr[4] = {(uint32_t)block, (uint32_t)token,
                       (uint32_t)((uint64_t)block >> 32) << 16 ^
                           (uint32_t)((uint64_t)token >> 32),
                       (uint32_t)sample};

    mdsk_philox(key, ctr, out);
}

/* An element is kept if its 32 bits are at least this. */
MDSK_INLINE uint32_t mdsk_dropout_threshold(float p)
{
    return (uint32_t)((double)p * 4294967296.0);
}

#endif
