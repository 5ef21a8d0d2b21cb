/* SPDX-License-Identifier: BSD-3-Clause */
/* Shapes that Ulysses and ring attention share.  For parallel/ alone. */
#ifndef MDS_PARALLEL_ATTENTION_SHAPE_H
#define MDS_PARALLEL_ATTENTION_SHAPE_H

#include "kernels/attention.h"
#include "parallel/attention.h"

#include <math.h>

/* The inside layout (attention.h): this rank's heads, tokens, and elements of a row. */
struct attention_inside {
    int64_t A, G, D; /* heads here */
    int64_t n;       /* tokens */
    int64_t row;     /* (A + 2G) D */
    int64_t o_row;   /* of the result, which has the heads of all groups */
    int64_t o_head;  /* the first of these heads there */
    int64_t first_head;
};

static inline struct attention_inside attention_inside(const struct mds_par *p,
                                                       const struct mds_attention *a)
{
    int U = mds_groups_size(p->groups, MDS_AXIS_ULYSSES);
    struct attention_inside in = {
        .A = a->A / U, .G = mds_attention_kv_heads(a->G, U) / U, .D = a->D};

    in.n = p->ring.n;
    in.row = (in.A + 2 * in.G) * in.D;
    in.o_head = a->before / U;
    in.o_row = (a->before + a->A + a->behind) / U * in.D;
    in.first_head = a->first_head + mds_groups_rank(p->groups, MDS_AXIS_ULYSSES) * in.A;
    return in;
}

static inline struct mdsk_attention_shape attention_shape(const struct mds_par *p,
                                                          const struct mds_attention *a,
                                                          int64_t queries, int64_t keys)
{
    struct attention_inside in = attention_inside(p, a);

    return (struct mdsk_attention_shape){.B = p->B,
                                         .A = in.A,
                                         .G = in.G,
                                         .Sq = queries,
                                         .Sk = keys,
                                         .D = in.D,
                                         .window = a->window,
                                         .start = p->key_start,
                                         .host_start = p->host_key_start,
                                         .scale = (float)a->scale,
                                         .dtype = p->dtype,
                                         .dropout = a->dropout,
                                         .first_sample = p->first_sample,
                                         .first_head = in.first_head,
                                         .alibi_heads = a->alibi_heads,
                                         .unfused = a->unfused};
}

/* View of the heads in rows [tokens, B, row], from token `token` and head `head` on. */
static inline struct mdsk_heads attention_heads(const struct mds_par *p,
                                                const void *data, int64_t row,
                                                int64_t token, int64_t head, int64_t D)
{
    return (struct mdsk_heads){.data =
                                   mds_par_at(p, data, token * p->B * row + head * D),
                               .batch_stride = row,
                               .token_stride = p->B * row,
                               .head_stride = D};
}

/* View of these heads in attention's result or its gradient, from token `token` on. */
static inline struct mdsk_heads attention_result(const struct mds_par *p,
                                                 const struct attention_inside *in,
                                                 const void *o, int64_t token)
{
    return attention_heads(p, o, in->o_row, token, in->o_head, in->D);
}

/* As the next two, for a->window > 0. */
enum mds_rc mds_window_ring_fwd(const struct mds_par *p, const struct mds_attention *a,
                                const void *inside, void *o, float *lse);
enum mds_rc mds_window_ring_bwd(const struct mds_par *p, const struct mds_attention *a,
                                const void *inside, const void *o, const float *lse,
                                const void *d_o, void *dinside);

/* The call f of whole rows, in which a token's values follow its keys; if
 * p->host_position_start, document by document. */
enum mds_rc mds_prefix_attention_fwd(const struct mds_par *p,
                                     const struct mdsk_attention_fwd *f);

/* As mds_attention_cached_fwd, where ranks split sequences or the cache is on the
 * host. */
enum mds_rc mds_sharded_cache_fwd(const struct mds_par *p,
                                  const struct mds_attention *a,
                                  const struct mds_kv_cache *cache, const void *qkv,
                                  void *o);

/* Ring attention, inside layout, in a ring of two or more ranks; o and d_o as
 * for mds_attention_fwd. */
enum mds_rc mds_ring_attention_fwd(const struct mds_par *p,
                                   const struct mds_attention *a, const void *inside,
                                   void *o, float *lse);
enum mds_rc mds_ring_attention_bwd(const struct mds_par *p,
                                   const struct mds_attention *a, const void *inside,
                                   const void *o, const float *lse, const void *d_o,
                                   void *dinside);

#endif
