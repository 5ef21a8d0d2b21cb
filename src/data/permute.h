/* SPDX-License-Identifier: BSD-3-Clause */
/* Keyed permutations of 0 .. n - 1, computed per element: no table, any n. */
#ifndef MDS_DATA_PERMUTE_H
#define MDS_DATA_PERMUTE_H

#include <stdint.h>

/* A well-mixed function of two words (splitmix64's finaliser over their combination).
 * Source: Steele, Lea, Flood 2014, doi:10.1145/2660193.2660195. */
uint64_t mds_hash(uint64_t a, uint64_t b);

/* The image of i under permutation `key` of 0 .. n - 1.  A Feistel network over the
 * next even number of bits, applied until the result is below n (cycle walking): less
 * than 4 steps on average.  Source: Black, Rogaway 2002, doi:10.1007/3-540-45760-7_9.
 */
int64_t mds_permute(uint64_t key, int64_t n, int64_t i);

#endif
