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
    int sequence_parallel; /* rows between GEMMs are split over tensor ranks */
    int chunks; /* chunks in which rows are sent between tensor ranks, 1 .. 8 */
    int64_t B;  /* sequences of the micro-batch */
    int64_t first_sample; /* number of the first of them in the run */
    /* Of every token of the sequences, [S, B] on the device, borrowed: the first token
     * that it sees, and the token whose position is 0.  NULL: the first.
     * host_key_start: key_start in host memory. */
    const int32_t *key_start, *host_key_start, *position_start;
    int at_place; /* one token at a place that kernels read on the device: attention
                     over the cache rotates, which knows it */
    /* Whether documents may go on behind the beginning of another one, and if some of
     * this micro-batch do, position_start in host memory (parallel/prefix.c). */
    int shared_prefixes;
    const int32_t *host_position_start;
    struct mds_shard_tokens ring;   /* of the Ulysses group: attention's queries */
    struct mds_shard_tokens tokens; /* of this rank in GEMMs */
    struct mds_shard_tokens slice;  /* of this rank between GEMMs: all of `tokens`, or
                                       with sequence parallelism 1/tp of them */
};

/* Set B, first_sample and the three token shards for B sequences of S tokens.  The
 * caller has set groups, sequence_parallel, and chunks to the number wanted, which is
 * then limited to at least 1 and at most MDS_SHARD_CHUNKS and the slice's tokens. */
void mds_par_set_batch(struct mds_par *p, int64_t B, int64_t S, int64_t first_sample);

/* Likewise for generation, without sequence_parallel and chunks: B sequences' tokens
 * first .. first + n - 1.  Ulysses and ring ranks have equal parts of them, one
 * after the other, or if their number does not divide n, all of them. */
void mds_par_set_new_tokens(struct mds_par *p, int64_t B, int64_t first, int64_t n);

/* Copy p, which has one chunk, to *tile, restricted to tokens at .. at + n - 1 of its
 * slice: for operations that handle each row independently.  With sequence parallelism
 * tile->tokens.n counts the tiles of all tensor ranks; use no other field of it. */
void mds_par_set_tile(struct mds_par *tile, const struct mds_par *p, int64_t at,
                      int64_t n);

/* Send the rows of a tile in `chunks` chunks, within the limits above.  The rows in
 * GEMMs are then ordered by chunk, and within a chunk by rank. */
void mds_par_set_chunks(struct mds_par *tile, int chunks);

/* Number of rows [token, sequence] in GEMMs, and between GEMMs. */
static inline int64_t mds_par_rows(const struct mds_par *p)
{
    return p->tokens.n * p->B;
}

static inline int64_t mds_par_slice_rows(const struct mds_par *p)
{
    return p->slice.n * p->B;
}

/* The number of rows in GEMMs before chunk i; for i = p->chunks, all rows.  The number
 * of rows of the slice before chunk i is this divided by the number of slices. */
int64_t mds_par_chunk(const struct mds_par *p, int i);

/* The number of rows from row `at` to the end of its chunk. */
int64_t mds_par_chunk_left(const struct mds_par *p, int64_t at);

/* The position starts of tokens from `token` on, or NULL. */
static inline const int32_t *mds_par_position_start(const struct mds_par *p,
                                                    int64_t token)
{
    return p->position_start ? p->position_start + token * p->B : NULL;
}

/* The address of element i of a buffer of p->dtype. */
static inline void *mds_par_at(const struct mds_par *p, const void *buf, int64_t i)
{
    return (char *)buf + i * (int64_t)mdsk_dtype_size(p->dtype);
}

/* Copy the first `width` columns of R rows of p->dtype: x [R, ldx] to y [R, ldy]. */
enum mds_rc mds_par_copy_rows(const struct mds_par *p, int64_t R, int64_t width,
                              const void *x, int64_t ldx, void *y, int64_t ldy);

/* Working memory for `elements` elements of p->dtype (_f32: of f32); the caller marks
 * the arena before, and releases it after. */
enum mds_rc mds_par_alloc(const struct mds_par *p, enum mds_mem_tag tag,
                          int64_t elements, void **out);
enum mds_rc mds_par_alloc_f32(const struct mds_par *p, enum mds_mem_tag tag,
                              int64_t elements, float **out);

/* Replace x [n] by its sum over the group of these axes: for gradients that must be
 * summed before grad_ready (mds_params_early_axes). */
enum mds_rc mds_par_sum(const struct mds_par *p, unsigned axes, float *x, int64_t n);

#endif
