/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts: of a micro-batch, and of tiles of its rows. */
#include "model/context.h"

#include "base/minmax.h"
#include "parallel/attention.h"
#include "parallel/tensor_parallel.h"

/* The number of chunks in which tensor ranks exchange the rows of p. */
static int tensor_chunks_for(const struct mds_gpt *g, const struct mds_par *p)
{
    int64_t bytes =
        mds_par_rows(p) * g->cfg.hidden * (int64_t)mdsk_dtype_size(p->dtype);

    return mds_groups_size(g->groups, MDS_AXIS_TENSOR) == 1 || g->cfg.experts.n > 0
               ? 1
               : mds_tp_chunks(g->tensor_chunks, bytes);
}

int mds_gpt_is_tiled(const struct context *c)
{
    return c->run->train->act.sequence_tile > 0;
}

int64_t mds_gpt_kv_heads_inside(const struct context *c)
{
    return mds_attention_kv_heads(mds_gpt_heads(c, c->g->cfg.kv_heads),
                                  mds_gpt_ulysses(c));
}

/* Ulysses ranks share the heads of each group. */
static int head_groups_for(const struct mds_gpt *g, const struct mds_gpt_run *run)
{
    int64_t ranks = mds_groups_size(g->groups, MDS_AXIS_TENSOR | MDS_AXIS_ULYSSES);
    int64_t own =
        g->cfg.qk_norm_across_heads ? 1 : mds_act_kv_heads(g->cfg.kv_heads, ranks);

    return (int)mds_act_head_groups(&run->train->act, own);
}

void mds_gpt_context(const struct mds_gpt *g, const struct mds_gpt_run *run,
                     const struct mds_gpt_batch *batch, struct context *c)
{
    struct mds_par *p = &c->par;

    *c = (struct context){.g = g,
                          .run = run,
                          .norm_sums = c->norm_sums,
                          .fp8_amax = c->fp8_amax,
                          .micro_batch = batch->number,
                          .head_groups = head_groups_for(g, run),
                          .par = {.dev = run->dev,
                                  .arena = run->arena,
                                  .groups = g->groups,
                                  .dtype = mds_params_dtype(g->ps),
                                  .sequence_parallel = g->sequence_parallel,
                                  .key_start = batch->key_start,
                                  .host_key_start = batch->host_key_start,
                                  .position_start = batch->position_start,
                                  .shared_prefixes = run->train->shared_prefixes,
                                  .host_position_start = batch->host_position_start}};
    if (mds_gpt_generates(c))
        mds_par_set_new_tokens(p, run->B, run->cache.place ? 0 : run->cache.first,
                               run->S);
    else
        mds_par_set_batch(p, run->B, run->S, batch->first_sample);
    if (!mds_gpt_is_tiled(c) && !mds_gpt_generates(c)) {
        p->chunks = tensor_chunks_for(g, p);
        mds_par_set_batch(p, run->B, run->S, batch->first_sample);
    }
    p->at_place = run->cache.place != NULL;
    c->part = c->stride = mds_par_rows(p);
}

int mds_gpt_tile(const struct context *whole, int64_t at, struct context *t)
{
    const struct mds_par *p = &whole->par;
    int parts = p->sequence_parallel ? mds_groups_size(p->groups, MDS_AXIS_TENSOR) : 1;
    int64_t n = whole->run->train->act.sequence_tile / (p->B * parts);
    int64_t left = p->slice.n - at;

    if (left <= 0)
        return 0;
    *t = *whole;
    t->all = p;
    if (!mds_gpt_is_tiled(whole))
        return 1;
    n = mds_min(mds_max(n, 1), left);
    mds_par_set_tile(&t->par, p, at, n);
    t->row = at * p->B;
    t->part = n * p->B;
    t->stride = mds_par_slice_rows(p);
    return 1;
}

struct context mds_gpt_in_chunks(const struct context *t)
{
    struct context c = *t;

    if (mds_gpt_is_tiled(t))
        mds_par_set_chunks(&c.par, tensor_chunks_for(c.g, &c.par));
    return c;
}

int mds_gpt_span(const struct context *t, int64_t at, int64_t limit, struct span *s)
{
    int64_t inside = at % t->part;

    s->at = at;
    s->n = mds_min(limit, t->part - inside);
    s->whole = at / t->part * t->stride + t->row + inside;
    return at < mds_par_rows(&t->par);
}
