/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/permute.h"

/* Four rounds would do for large n.  For small n the halves have one or two bits, which
 * more rounds mix better. */
enum { ROUNDS = 8 };

uint64_t mds_hash(uint64_t a, uint64_t b)
{
    uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t feistel_network(uint64_t key, int half_bits, uint64_t x)
{
    uint64_t mask = ((uint64_t)1 << half_bits) - 1;
    uint64_t left = x >> half_bits, right = x & mask;

    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t next = left ^ (mds_hash(mds_hash(key, round), right) & mask);

        left = right;
        right = next;
    }
    return left << half_bits | right;
}

int64_t mds_permute(uint64_t key, int64_t n, int64_t i)
{
    int half_bits = 1;
    uint64_t x = (uint64_t)i;

    while (n > (int64_t)1 << 2 * half_bits && half_bits < 31)
        half_bits++;
    do
        x = feistel_network(key, half_bits, x);
    while (x >= (uint64_t)n);
    return (int64_t)x;
}
