/* Where a micro-batch's pass takes place: device, working memory, groups, and which
 * tokens are here.  What every layer of parallel/ and model/ is given. */
#ifndef MDS_PARALLEL_PAR_H
#define MDS_PARALLEL_PAR_H

#include "device/arena.h"
#include "parallel/groups.h"
#include "parallel/shard.h"

struct mds_par {
    struct mds_dev *dev;     /* borrowed, as are the others */
    struct mds_arena *arena; /* working memory; all is given back */
    const struct mds_groups *groups;
    enum mdsk_dtype dtype; /* of weights and activations */
    int sequence_parallel; /* rows between matrix products are shared over tp */
    int chunks;            /* in which rows travel between tensor ranks; 0: in one */
    int64_t B;             /* sequences */
    int64_t first_sample;  /* of the run */
    struct mds_shard_tokens ring; /* tokens of the Ulysses group: where attention is */
    struct mds_shard_tokens tokens; /* this rank's, in matrix products */
    struct mds_shard_tokens slice;  /* this rank's, between them */
};

/* Tokens of this rank, for B sequences of S tokens, in p->chunks chunks; no more than
 * there are tokens. */
void mds_par_set_batch(struct mds_par *p, int64_t B, int64_t S, int64_t first_sample);

/* Of p, which has one chunk, tokens at .. at + n - 1 of its slice, as if they were all:
 * for what treats each row by itself.  With sequence parallelism, `tokens` counts such
 * stretches of all tensor ranks, and does not say which they are. */
void mds_par_set_tile(struct mds_par *tile, const struct mds_par *p, int64_t at,
                      int64_t n);

/* The same tile in chunks, between whose rows there is no order. */
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

/* Rows in matrix products before chunk i; those of a slice are as many times fewer as
 * the slice is. */
int64_t mds_par_chunk(const struct mds_par *p, int i);

/* Element i of a buffer of the pass's dtype. */
static inline void *mds_par_at(const struct mds_par *p, const void *buf, int64_t i)
{
    return (char *)buf + i * (int64_t)mdsk_dtype_size(p->dtype);
}

/* The first `width` columns of x's rows [mds_par_rows, ldx] to y's [.., ldy]. */
enum mds_rc mds_par_copy(const struct mds_par *p, int64_t width, const void *x,
                         int64_t ldx, void *y, int64_t ldy);

/* Working memory for `elements` of dtype (of f32). */
enum mds_rc mds_par_take(const struct mds_par *p, enum mds_mem_tag tag,
                         int64_t elements, void **out);
enum mds_rc mds_par_take_f32(const struct mds_par *p, enum mds_mem_tag tag,
                             int64_t elements, float **out);

#endif
