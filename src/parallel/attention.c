/* SPDX-License-Identifier: BSD-3-Clause */
#include "parallel/attention.h"
#include "parallel/attention_shape.h"
#include "parallel/sums.h"
#include "tensor/op.h"

/* ---- rotation ---- */

/* Queries and keys lie side by side, so one call per run of tokens turns both. */
enum mds_rc mds_attention_rotate(const struct mds_par *p, const struct mds_attention *a,
                                 struct mds_token_range range, void *qkv, int inverse)
{
    const struct mds_shard_tokens tokens =
        mds_shard_range(&p->tokens, range.first, range.n);
    int64_t row = (a->A + 2 * a->G) * a->D, token = 0;

    for (int i = 0; a->rope && !p->at_place && i < tokens.runs; i++) {
        struct mdsk_rope r = {.B = p->B,
                              .S = tokens.run[i].n,
                              .A = a->A + a->G,
                              .D = a->D,
                              .rot = a->rope->rot,
                              .first_token = tokens.run[i].first,
                              .frequency = a->rope->frequency,
                              .start = mds_par_position_start(p, tokens.run[i].first),
                              .scale = a->rope->scale,
                              .inverse = inverse,
                              .dtype = p->dtype,
                              .x = attention_heads(p, qkv, row, token, 0, a->D)};

        MDS_TRY(mds_op_rope(p->dev, &r));
        token += tokens.run[i].n;
    }
    return MDS_OK;
}

/* ---- Ulysses: tokens with all heads <-> all tokens with some heads ---- */

/* The runs of columns of a row that are shared out by heads: q, k, v; or o, a run for
 * each group of heads.  Of k and v, which may have fewer heads than there are ranks, a
 * rank gets those that its queries read, so each head has `copies` inside. */
struct columns {
    int64_t n;
    int64_t width[3], all; /* elements of each, in turn, and of the row */
    int64_t inside;        /* elements of a row inside */
    int64_t head, copies;  /* of k and v: elements of a head */
};

static struct columns qkv_columns(const struct mds_par *p,
                                  const struct mds_attention *a)
{
    int U = mds_groups_size(p->groups, MDS_AXIS_ULYSSES);

    return (struct columns){.n = 3,
                            .width = {a->A * a->D, a->G * a->D, a->G * a->D},
                            .all = (a->A + 2 * a->G) * a->D,
                            .inside = attention_inside(p, a).row,
                            .head = a->D,
                            .copies = mds_attention_kv_heads(a->G, U) / a->G};
}

static struct columns o_columns(const struct mds_par *p, const struct mds_attention *a)
{
    int64_t all = a->before + a->A + a->behind, w = a->A * a->D;

    return (struct columns){.n = all / a->A,
                            .width = {w, w, w},
                            .all = all * a->D,
                            .inside = attention_inside(p, a).o_row,
                            .copies = 1};
}

/* rows [R, all] and packed [U, R, inside], of which block u is peer u's share of every
 * run. */
struct packing {
    const struct mds_par *p;
    const struct columns *c;
    int64_t R;
    void *rows, *packed;
};

/* A run as pieces that lie together on both sides: peer u has the n pieces from u n on,
 * and `copies` in turn are one in rows. */
struct run {
    int64_t from, to; /* the run's first column in rows, and in packed */
    int64_t n, width, copies;
};

static void *piece_in_rows(const struct packing *k, const struct run *r, int64_t i)
{
    return mds_par_at(k->p, k->rows, r->from + i / r->copies * r->width);
}

static void *piece_packed(const struct packing *k, const struct run *r, int64_t i)
{
    int64_t u = i / r->n;

    return mds_par_at(k->p, k->packed,
                      u * k->R * k->c->inside + r->to + (i - u * r->n) * r->width);
}

/* The copies that begin at piece i become their sum: in f32, in the order of ranks. */
static enum mds_rc sum_copies(const struct packing *k, const struct run *r, int64_t i)
{
    struct mds_arena_mark mark = mds_arena_mark(k->p->arena);
    int64_t n = k->R * r->width;
    float *sum = NULL;
    void *one = NULL;

    MDS_TRY(mds_par_alloc_f32(k->p, MDS_MEM_COMM, n, &sum));
    MDS_TRY(mds_par_alloc(k->p, MDS_MEM_COMM, n, &one));
    for (int64_t copy = 0; copy < r->copies; copy++) {
        MDS_TRY(mds_par_copy_rows(k->p, k->R, r->width, piece_packed(k, r, i + copy),
                                  k->c->inside, one, r->width));
        MDS_TRY(mds_accumulate(k->p, copy == 0, n, one, sum));
    }
    MDS_TRY(mds_accumulate_store(k->p, n, sum, one));
    MDS_TRY(mds_par_copy_rows(k->p, k->R, r->width, one, r->width,
                              piece_in_rows(k, r, i), k->c->all));
    mds_arena_release(k->p->arena, mark);
    return MDS_OK;
}

static enum mds_rc pack_piece(const struct packing *k, const struct run *r, int64_t i,
                              int pack)
{
    void *outside = piece_in_rows(k, r, i), *packed = piece_packed(k, r, i);

    if (pack)
        return mds_par_copy_rows(k->p, k->R, r->width, outside, k->c->all, packed,
                                 k->c->inside);
    if (r->copies == 1)
        return mds_par_copy_rows(k->p, k->R, r->width, packed, k->c->inside, outside,
                                 k->c->all);
    return i % r->copies ? MDS_OK : sum_copies(k, r, i);
}

/* pack 0: from packed to rows. */
static enum mds_rc pack_heads(const struct packing *k, int pack)
{
    const struct columns *c = k->c;
    int U = mds_groups_size(k->p->groups, MDS_AXIS_ULYSSES);
    struct run r = {0};

    for (int64_t i = 0; i < c->n; i++) {
        r.copies = i % 3 ? c->copies : 1;
        r.width = r.copies > 1 ? c->head : c->width[i % 3] / U;
        r.n = c->width[i % 3] * r.copies / U / r.width;
        for (int64_t piece = 0; piece < U * r.n; piece++)
            MDS_TRY(pack_piece(k, &r, piece, pack));
        r.from += c->width[i % 3];
        r.to += r.n * r.width;
    }
    return MDS_OK;
}

/* parts [U, s.n B, inside] <-> inside [ring rows, inside]: part u are tokens s of the
 * tokens of peer u. */
static enum mds_rc copy_token_range(const struct mds_par *p, const struct columns *c,
                                    struct mds_token_range s, void *parts, void *inside,
                                    int in)
{
    int U = mds_groups_size(p->groups, MDS_AXIS_ULYSSES);
    int64_t n = s.n * p->B * c->inside;

    for (int u = 0; u < U; u++) {
        int64_t at = (u * p->tokens.n + s.first) * p->B * c->inside;
        void *part = mds_par_at(p, parts, u * n), *there = mds_par_at(p, inside, at);

        MDS_TRY(in ? mds_par_copy_rows(p, 1, n, part, n, there, n)
                   : mds_par_copy_rows(p, 1, n, there, n, part, n));
    }
    return MDS_OK;
}

/* rows [s.n B, all] of tokens s with all heads -> inside [ring rows, inside]; in 0: the
 * other way.  What all tokens exchange is `inside` already, without another copy. */
static enum mds_rc exchange(const struct mds_par *p, struct columns c,
                            struct mds_token_range s, void *rows, void *inside, int in)
{
    struct mds_comm *peers = mds_group(p->groups, MDS_AXIS_ULYSSES);
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    struct packing k = {.p = p, .c = &c, .R = s.n * p->B, .rows = rows};
    int64_t share = k.R * c.inside, all = share * mds_comm_size(peers);
    int64_t bytes = share * (int64_t)mdsk_dtype_size(p->dtype);
    int some = s.n < p->tokens.n;
    void *parts = inside;

    MDS_TRY(mds_par_alloc(p, MDS_MEM_COMM, all, &k.packed));
    if (some)
        MDS_TRY(mds_par_alloc(p, MDS_MEM_COMM, all, &parts));
    if (in) {
        MDS_TRY(pack_heads(&k, 1));
        MDS_TRY(mds_comm_all_to_all(peers, k.packed, parts, bytes));
        if (some)
            MDS_TRY(copy_token_range(p, &c, s, parts, inside, 1));
    } else {
        if (some)
            MDS_TRY(copy_token_range(p, &c, s, parts, inside, 0));
        MDS_TRY(mds_comm_all_to_all(peers, parts, k.packed, bytes));
        MDS_TRY(pack_heads(&k, 0));
    }
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

/* ---- a range of tokens at a time ---- */

enum mds_rc mds_attention_put_qkv(const struct mds_par *p,
                                  const struct mds_attention *a,
                                  struct mds_token_range s, void *qkv, void *inside)
{
    return exchange(p, qkv_columns(p, a), s, qkv, inside, 1);
}

enum mds_rc mds_attention_get_qkv(const struct mds_par *p,
                                  const struct mds_attention *a,
                                  struct mds_token_range s, void *dinside, void *dqkv)
{
    return exchange(p, qkv_columns(p, a), s, dqkv, dinside, 0);
}

enum mds_rc mds_attention_put_o(const struct mds_par *p, const struct mds_attention *a,
                                struct mds_token_range s, void *o, void *heads)
{
    return exchange(p, o_columns(p, a), s, o, heads, 1);
}

enum mds_rc mds_attention_get_o(const struct mds_par *p, const struct mds_attention *a,
                                struct mds_token_range s, void *heads, void *o)
{
    return exchange(p, o_columns(p, a), s, o, heads, 0);
}

/* ---- attention itself ---- */

enum mds_rc mds_attention_fwd(const struct mds_par *p, const struct mds_attention *a,
                              const void *inside, void *o, float *lse)
{
    struct attention_inside in = attention_inside(p, a);
    struct mdsk_attention_fwd f = {
        .shape = attention_shape(p, a, in.n, in.n),
        .q = attention_heads(p, inside, in.row, 0, 0, in.D),
        .k = attention_heads(p, inside, in.row, 0, in.A, in.D),
        .v = attention_heads(p, inside, in.row, 0, in.A + in.G, in.D),
        .o = attention_result(p, &in, o, 0),
        .lse = lse};

    if (mds_groups_size(p->groups, MDS_AXIS_RING) > 1)
        return a->window > 0 ? mds_window_ring_fwd(p, a, inside, o, lse)
                             : mds_ring_attention_fwd(p, a, inside, o, lse);
    return p->shared_prefixes ? mds_prefix_attention_fwd(p, &f)
                              : mds_op_attention_fwd(p->dev, &f);
}

enum mds_rc mds_attention_most(const struct mds_par *p, const struct mds_attention *a,
                               const float *lse, float *most)
{
    struct attention_inside in = attention_inside(p, a);
    const struct mdsk_attention_most m = {
        .B = p->B, .A = in.A, .Sq = in.n, .lse = lse, .most = most + in.first_head};

    return mds_op_attention_most(p->dev, &m);
}

enum mds_rc mds_attention_bwd(const struct mds_par *p, const struct mds_attention *a,
                              const void *inside, const void *o, const float *lse,
                              const void *d_o, void *dinside)
{
    struct attention_inside in = attention_inside(p, a);
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    struct mdsk_attention_bwd b = {
        .shape = attention_shape(p, a, in.n, in.n),
        .q = attention_heads(p, inside, in.row, 0, 0, in.D),
        .k = attention_heads(p, inside, in.row, 0, in.A, in.D),
        .v = attention_heads(p, inside, in.row, 0, in.A + in.G, in.D),
        .o = attention_result(p, &in, o, 0),
        .d_o = attention_result(p, &in, d_o, 0),
        .dq = attention_heads(p, dinside, in.row, 0, 0, in.D),
        .dk = attention_heads(p, dinside, in.row, 0, in.A, in.D),
        .dv = attention_heads(p, dinside, in.row, 0, in.A + in.G, in.D),
        .lse = lse};

    if (mds_groups_size(p->groups, MDS_AXIS_RING) > 1)
        return a->window > 0
                   ? mds_window_ring_bwd(p, a, inside, o, lse, d_o, dinside)
                   : mds_ring_attention_bwd(p, a, inside, o, lse, d_o, dinside);
    MDS_TRY(mds_par_alloc_f32(p, MDS_MEM_WORK, p->B * in.A * in.n, &b.delta));
    MDS_TRY(mds_op_attention_bwd(p->dev, &b));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

/* ---- attention over a cache ---- */

static enum mds_rc append(const struct mds_par *p, const struct mds_attention *a,
                          const struct mds_kv_cache *cache, const void *qkv)
{
    int64_t row = (a->A + 2 * a->G) * a->D, kv = 2 * a->G * a->D;

    return mds_par_copy_rows(p, mds_par_rows(p), kv, mds_par_at(p, qkv, a->A * a->D),
                             row, mds_par_at(p, cache->kv, cache->first * p->B * kv),
                             kv);
}

/* Of one token, whose place kernels read on the device. */
static enum mds_rc attend_at_place(const struct mds_par *p,
                                   const struct mds_attention *a,
                                   const struct mds_kv_cache *cache, const void *qkv,
                                   void *o)
{
    struct attention_inside in = attention_inside(p, a);
    int64_t kv = 2 * a->G * a->D;
    struct mdsk_attention_cached c = {
        .shape = attention_shape(p, a, 1, cache->first + 1),
        .q = attention_heads(p, qkv, in.row, 0, 0, a->D),
        .k = attention_heads(p, cache->kv, kv, 0, 0, a->D),
        .v = attention_heads(p, cache->kv, kv, 0, a->G, a->D),
        .new_k = attention_heads(p, qkv, in.row, 0, a->A, a->D),
        .new_v = attention_heads(p, qkv, in.row, 0, a->A + a->G, a->D),
        .o = attention_result(p, &in, o, 0),
        .place = cache->place,
        .tokens = cache->tokens};

    c.shape.q_offset = c.shape.first_query = cache->first;
    if (a->rope) {
        c.rot = a->rope->rot;
        c.frequency = a->rope->frequency;
        c.rope_scale = a->rope->scale;
    }
    return mds_op_attention_cached(p->dev, &c);
}

enum mds_rc mds_attention_cached_fwd(const struct mds_par *p,
                                     const struct mds_attention *a,
                                     const struct mds_kv_cache *cache, const void *qkv,
                                     void *o, float *lse)
{
    struct attention_inside in = attention_inside(p, a);
    int64_t kv = 2 * a->G * a->D;
    struct mdsk_attention_fwd f = {
        .shape = attention_shape(p, a, p->tokens.n, cache->first + p->tokens.n),
        .q = attention_heads(p, qkv, in.row, 0, 0, a->D),
        .k = attention_heads(p, cache->kv, kv, 0, 0, a->D),
        .v = attention_heads(p, cache->kv, kv, 0, a->G, a->D),
        .o = attention_result(p, &in, o, 0),
        .lse = lse};

    if (cache->on_host || mds_groups_size(p->groups, MDS_AXES_SEQUENCE) > 1)
        return mds_sharded_cache_fwd(p, a, cache, qkv, o);
    if (cache->place)
        return attend_at_place(p, a, cache, qkv, o);
    f.shape.q_offset = f.shape.first_query = cache->first;
    MDS_TRY(append(p, a, cache, qkv));
    return mds_op_attention_fwd(p->dev, &f);
}
