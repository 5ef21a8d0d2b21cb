/* SPDX-License-Identifier: BSD-3-Clause */
/* Which tokens of a sequence a rank holds: arithmetic only.
 *
 * A ring of P ranks splits the sequence into 2P chunks.  Ring rank i has chunk i
 * followed by chunk 2P-1-i: early queries see few keys and late ones many, so each rank
 * has the same work.  Ulysses rank u of U has the u-th of U equal slices of those
 * tokens: at most two runs of consecutive tokens.  With sequence parallelism, tensor
 * rank t of T has the t-th of T equal slices of that; or, if rows are sent in chunks,
 * of each chunk. */
#ifndef MDS_PARALLEL_SHARD_H
#define MDS_PARALLEL_SHARD_H

#include <stdint.h>

struct mds_token_run {
    int64_t first, n; /* tokens first .. first + n - 1 of the sequence */
};

enum { MDS_SHARD_CHUNKS = 8 }; /* at most */

struct mds_shard_tokens {
    int runs;
    struct mds_token_run run[MDS_SHARD_CHUNKS + 1];
    int64_t n; /* tokens in all runs */
};

/* All of a sequence of S tokens. */
struct mds_shard_tokens mds_shard_whole(int64_t S);

/* A ring rank's shard of a sequence of S tokens; 2P divides S, unless P is 1. */
struct mds_shard_tokens mds_shard_ring(int64_t S, int P, int rank);

/* Tokens at .. at + n - 1 of a shard. */
struct mds_shard_tokens mds_shard_range(const struct mds_shard_tokens *s, int64_t at,
                                        int64_t n);

/* The part-th of `parts` equal slices; parts divides s->n. */
struct mds_shard_tokens mds_shard_slice(const struct mds_shard_tokens *s, int parts,
                                        int part);

/* Split s into `chunks` chunks, and each chunk into `parts` equal slices: the part-th
 * slice of every chunk, in order.  In the result, chunk i's slice begins at token
 * mds_shard_chunk(s->n / parts, chunks, i). */
struct mds_shard_tokens mds_shard_slices(const struct mds_shard_tokens *s, int parts,
                                         int part, int chunks);

/* How many of n tokens lie before chunk i of `chunks`, whose lengths differ by one at
 * most. */
static inline int64_t mds_shard_chunk(int64_t n, int chunks, int i)
{
    return n * i / chunks;
}

#endif
