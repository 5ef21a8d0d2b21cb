/* SPDX-License-Identifier: BSD-3-Clause */
#include "parallel/par.h"
#include "base/minmax.h"

#include "tensor/op.h"

/* The number of slices that tokens are split into between GEMMs. */
static int token_shards(const struct mds_par *p)
{
    return p->sequence_parallel ? mds_groups_size(p->groups, MDS_AXIS_TENSOR) : 1;
}

void mds_par_set_chunks(struct mds_par *p, int chunks)
{
    int64_t tokens = p->tokens.n / token_shards(p);
    int64_t most = mds_min(tokens, MDS_SHARD_CHUNKS);

    p->chunks = chunks < 1 ? 1 : chunks > most ? (int)most : chunks;
}

void mds_par_set_batch(struct mds_par *p, int64_t B, int64_t S, int64_t first_sample)
{
    const struct mds_groups *g = p->groups;

    p->B = B;
    p->first_sample = first_sample;
    p->ring = mds_shard_ring(S, mds_groups_size(g, MDS_AXIS_RING),
                             mds_groups_rank(g, MDS_AXIS_RING));
    p->tokens = mds_shard_slice(&p->ring, mds_groups_size(g, MDS_AXIS_ULYSSES),
                                mds_groups_rank(g, MDS_AXIS_ULYSSES));
    mds_par_set_chunks(p, p->chunks);
    p->slice = mds_shard_slices(
        &p->tokens, token_shards(p),
        p->sequence_parallel ? mds_groups_rank(g, MDS_AXIS_TENSOR) : 0, p->chunks);
}

void mds_par_set_new_tokens(struct mds_par *p, int64_t B, int64_t first, int64_t n)
{
    int ranks = mds_groups_size(p->groups, MDS_AXES_SEQUENCE);
    int rank = mds_groups_rank(p->groups, MDS_AXES_SEQUENCE);

    p->B = B;
    p->first_sample = 0;
    p->chunks = 1;
    p->ring = (struct mds_shard_tokens){.runs = 1, .run = {{first, n}}, .n = n};
    p->tokens = n % ranks ? p->ring : mds_shard_slice(&p->ring, ranks, rank);
    p->slice = p->tokens;
}

int64_t mds_par_chunk(const struct mds_par *p, int i)
{
    int parts = token_shards(p);

    return mds_shard_chunk(p->tokens.n / parts, p->chunks, i) * parts * p->B;
}

/* The next chunk is the first i with n i / chunks above at, both in rows of a slice. */
int64_t mds_par_chunk_left(const struct mds_par *p, int64_t at)
{
    int64_t parts = token_shards(p), n = p->tokens.n / parts;
    int64_t next;

    if (p->chunks == 1)
        return mds_par_rows(p) - at;
    next = mds_ceil_div((at / (parts * p->B) + 1) * p->chunks, n);
    return mds_par_chunk(p, (int)mds_min(next, p->chunks)) - at;
}

void mds_par_set_tile(struct mds_par *tile, const struct mds_par *p, int64_t at,
                      int64_t n)
{
    *tile = *p;
    tile->chunks = 1;
    tile->slice = mds_shard_range(&p->slice, at, n);
    tile->tokens = tile->slice;
    if (p->sequence_parallel)
        tile->tokens = (struct mds_shard_tokens){
            .n = n * mds_groups_size(p->groups, MDS_AXIS_TENSOR)};
}

enum mds_rc mds_par_copy_rows(const struct mds_par *p, int64_t R, int64_t width,
                              const void *x, int64_t ldx, void *y, int64_t ldy)
{
    struct mdsk_copy_rows a = {
        .R = R, .C = width, .ldx = ldx, .ldy = ldy, .dtype = p->dtype, .x = x, .y = y};

    return mds_op_copy_rows(p->dev, &a);
}

enum mds_rc mds_par_alloc(const struct mds_par *p, enum mds_mem_tag tag,
                          int64_t elements, void **out)
{
    return mds_arena_alloc(p->arena, tag, elements * (int64_t)mdsk_dtype_size(p->dtype),
                           out);
}

enum mds_rc mds_par_alloc_f32(const struct mds_par *p, enum mds_mem_tag tag,
                              int64_t elements, float **out)
{
    return mds_arena_alloc(p->arena, tag, elements * (int64_t)sizeof **out, out);
}

enum mds_rc mds_par_sum(const struct mds_par *p, unsigned axes, float *x, int64_t n)
{
    struct mds_comm *group = mds_group(p->groups, axes);
    int64_t bytes = mds_comm_all_reduce_work(group, n, MDSK_F32);
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    void *work = NULL;

    MDS_TRY(mds_arena_alloc(p->arena, MDS_MEM_COMM, bytes, &work));
    MDS_TRY(mds_comm_all_reduce(group, x, n, MDSK_F32, work));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}
