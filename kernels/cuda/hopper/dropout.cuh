/* SPDX-License-Identifier: BSD-3-Clause */
/* Dropout of attention's probabilities: the same random bits as the contract's
 * (kernels/attention.h), one call of Philox for four keys of a query.
 *
 * Four neighbouring keys lie in the registers of two or four threads.  Each of these
 * asks for another four pairs, and threads then exchange bits, so that nothing is
 * computed twice.  Bits of a tile are asked for while tensor cores compute its
 * scores. */
#ifndef MDSK_HOPPER_DROPOUT_CUH
#define MDSK_HOPPER_DROPOUT_CUH

#include "kernels/cuda/hopper/dropout.h"

namespace mdsk::hopper
{

/* Bits 0 to 3: which of the keys that block `block` of random words is for are kept. */
__device__ inline uint32_t kept_of_block(const hopper_dropout &d, int sequence,
                                         int head, int query, uint32_t block)
{
    const uint64_t token =
        (uint64_t)(d.first_head + head) << 32 | (uint32_t)(d.first_query + query);
    uint32_t word[4], bits = 0;

    mdsk_dropout_block(d.seed, d.site, d.step, d.first_sample + sequence,
                       (int64_t)token, block, word);
#pragma unroll
    for (int i = 0; i < 4; i++)
        bits |= word[i] >= d.threshold ? 1u << i : 0;
    return bits;
}

/* The same of keys key .. key + 3 of this call; key is a multiple of 4. */
__device__ inline uint32_t kept_keys(const hopper_dropout &d, int sequence, int head,
                                     int query, int key)
{
    const uint32_t block = d.first_block + (uint32_t)key / 4;
    uint32_t bits = kept_of_block(d, sequence, head, query, block);

    if (d.skew > 0) {
        bits |= kept_of_block(d, sequence, head, query, block + 1) << 4;
        bits = bits >> d.skew & 15;
    }
    return bits;
}

/* Threads t and t ^ lane exchange bits: of each 2 STEP bits the one with that bit of t
 * zero has the first half of both, its own first; the other the second half. */
template <int STEP> __device__ inline uint32_t exchange_bits(uint32_t x, unsigned lane)
{
    constexpr uint32_t low = STEP == 1 ? 0x55555555 : 0x33333333;
    const uint32_t y = __shfl_xor_sync(~0u, x, lane);

    return threadIdx.x & lane ? (x & ~low) | (y >> STEP & low)
                              : (x & low) | (y << STEP & ~low);
}

/* A thread's N pairs of queries (rows) and keys (columns), as wgmma leaves them
 * (ptx.cuh): bit i % 32 of kept[i / 32] is for number i.  query: of the thread's first
 * row; key: of the tile's first column. */
template <int N>
__device__ inline void kept_of_rows(const hopper_dropout &d, int sequence, int head,
                                    int query, int key, uint32_t (&kept)[(N + 31) / 32])
{
    query += threadIdx.x % 2 * 8;
    key += threadIdx.x % 4 / 2 * 4;
#pragma unroll
    for (int w = 0; w < (N + 31) / 32; w++) {
        constexpr int all = N / 4;
        const int first = 8 * w, n = all - first < 8 ? all - first : 8;
        uint32_t x = 0;

#pragma unroll 4
        for (int j = n - 1; j >= 0; j--)
            x = x << 4 | kept_keys(d, sequence, head, query, key + 8 * (first + j));
        kept[w] = exchange_bits<2>(x, 1);
    }
}

/* The same where keys are rows and queries columns; key: of the warp's first row;
 * query: of the tile's first column. */
template <int N>
__device__ inline void kept_of_columns(const hopper_dropout &d, int sequence, int head,
                                       int query, int key,
                                       uint32_t (&kept)[(N + 31) / 32])
{
    const int lane = threadIdx.x % 32;

    query += 2 * (lane % 4) + lane / 4 % 2;
    key += lane / 8 % 2 * 8 + lane / 16 * 4;
#pragma unroll
    for (int w = 0; w < (N + 31) / 32; w++) {
        uint32_t x = 0;

#pragma unroll 2
        for (int j = 7; j >= 0; j--)
            x = x << 4 | kept_keys(d, sequence, head, query + 8 * (8 * w + j), key);
        kept[w] = exchange_bits<2>(exchange_bits<1>(x, 4), 8);
    }
}

/* What dropout leaves of x, pair i of a thread's, but for its scale. */
template <int W>
__device__ inline float keep_or_zero(const uint32_t (&kept)[W], int i, float x)
{
    return kept[i / 32] >> i % 32 & 1 ? x : 0;
}

} // namespace mdsk::hopper

#endif
