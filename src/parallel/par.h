/* SPDX-License-Identifier: BSD-3-Clause */
/* The context of a forward or backward pass: device, working memory, groups, and which
 * tokens this rank holds.  An argument of every layer of parallel/ and model/. */
#ifndef MDS_PARALLEL_PAR_H
#define MDS_PARALLEL_PAR_H

#include "device/arena.h"
#include "parallel/groups.h"
#include "parallel/shard.h"

struct mds_par {
    struct mds_dev *dev;             /* borrowed */
    struct mds_arena *arena;         /* borrowed: working memory */
    const struct mds_groups *groups; /* borrowed */
    enum mdsk_dtype dtype;           /* of weights and activations */
    int sequence_parallel; /* rows between matrix products are split over tp */
    int chunks; /* messages that rows between tensor ranks are split into, 1 .. 8 */
    int64_t B;  /* sequences of the micro-batch */
    int64_t first_sample;           /* number of the first of them in the run */
    struct mds_shard_tokens ring;   /* of the Ulysses group: attention's queries */
    struct mds_shard_tokens tokens; /* of this rank in matrix products */
    struct mds_shard_tokens slice;  /* of this rank between them: all of `tokens`, or
                                       with sequence parallelism 1/tp of them */
};

/* Set B, first_sample and the three shares for B sequences of S tokens.  groups and
 * sequence_parallel are set already, and chunks to how many are wanted: it becomes at
 * least 1, at most MDS_SHARD_CHUNKS and the slice's tokens. */
void mds_par_set_batch(struct mds_par *p, int64_t B, int64_t S, int64_t first_sample);

/* Copy p, which has one chunk, with tokens at .. at + n - 1 of its slice as the only
 * ones: for operations that treat each row by itself.  With sequence parallelism
 * tile->tokens are those of all tensor ranks' tiles; it has their number, not which
 * they are. */
void mds_par_set_tile(struct mds_par *tile, const struct mds_par *p, int64_t at,
                      int64_t n);

/* Let the rows of a tile travel in `chunks` chunks, within the limits above.  In matrix
 * products they then lie chunk by chunk, and within each rank by rank. */
void mds_par_set_chunks(struct mds_par *tile, int chunks);

/* Rows [token, sequence] in matrix products, and between them. */
static inline int64_t mds_par_rows(const struct mds_par *p)
{
    return p->tokens.n * p->B;
}

static inline int64_t mds_par_slice_rows(const struct mds_par *p)
{
    return p->slice.n * p->B;
}

/* Rows in matrix products before chunk i; i = p->chunks: all rows.  Before its part in
 * the slice lie as many, divided by the number of slices. */
int64_t mds_par_chunk(const struct mds_par *p, int i);

/* Element i of a buffer of the pass's dtype. */
static inline void *mds_par_at(const struct mds_par *p, const void *buf, int64_t i)
{
    return (char *)buf + i * (int64_t)mdsk_dtype_size(p->dtype);
}

/* The first `width` columns of R rows, from x [R, ldx] to y [R, ldy], of p->dtype. */
enum mds_rc mds_par_copy_rows(const struct mds_par *p, int64_t R, int64_t width,
                              const void *x, int64_t ldx, void *y, int64_t ldy);

/* Working memory for `elements` elements of p->dtype (_f32: of f32); the caller marks
 * the arena before, and releases it after. */
enum mds_rc mds_par_take(const struct mds_par *p, enum mds_mem_tag tag,
                         int64_t elements, void **out);
enum mds_rc mds_par_take_f32(const struct mds_par *p, enum mds_mem_tag tag,
                             int64_t elements, float **out);

/* x [n] becomes the sum over the group of these axes: for gradients that are summed
 * before they are ready (mds_params_early_axes). */
enum mds_rc mds_par_sum(const struct mds_par *p, unsigned axes, float *x, int64_t n);

#endif
