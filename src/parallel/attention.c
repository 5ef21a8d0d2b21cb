/* SPDX-License-Identifier: BSD-3-Clause */
#include "parallel/attention.h"
#include "parallel/attention_shape.h"
#include "tensor/op.h"

/* ---- rotation ---- */

/* Queries and keys lie side by side, so one call per run of tokens turns both. */
enum mds_rc mds_attention_rotate(const struct mds_par *p, const struct mds_attention *a,
                                 void *qkv, int inverse)
{
    int64_t row = (a->A + 2 * a->G) * a->D, token = 0;

    for (int i = 0; a->rope && i < p->tokens.runs; i++) {
        struct mdsk_rope r = {.B = p->B,
                              .S = p->tokens.run[i].n,
                              .A = a->A + a->G,
                              .D = a->D,
                              .rot = a->rope->rot,
                              .first_token = p->tokens.run[i].first,
                              .frequency = a->rope->frequency,
                              .start =
                                  mds_par_position_start(p, p->tokens.run[i].first),
                              .scale = a->rope->scale,
                              .inverse = inverse,
                              .dtype = p->dtype,
                              .x = attention_heads(p, qkv, row, token, 0, a->D)};

        MDS_TRY(mds_op_rope(p->dev, &r));
        token += p->tokens.run[i].n;
    }
    return MDS_OK;
}

/* ---- Ulysses: tokens with all heads <-> all tokens with some heads ---- */

/* The runs of columns of a row that are shared out by heads: q, k, v; or o, a run for
 * each group of heads. */
struct columns {
    int64_t n;
    int64_t width[3], all; /* elements of each, in turn, and of the row */
};

static struct columns qkv_columns(const struct mds_attention *a)
{
    return (struct columns){.n = 3,
                            .width = {a->A * a->D, a->G * a->D, a->G * a->D},
                            .all = (a->A + 2 * a->G) * a->D};
}

static struct columns o_columns(const struct mds_attention *a)
{
    int64_t all = a->before + a->A + a->behind, w = a->A * a->D;

    return (struct columns){.n = all / a->A, .width = {w, w, w}, .all = all * a->D};
}

/* rows [R, all] <-> packed [U, R, all/U], of which block u is peer u's share of every
 * run.  pack 0: from packed to rows. */
static enum mds_rc pack_heads(const struct mds_par *p, const struct columns *c,
                              int64_t R, void *rows, void *packed, int pack)
{
    int U = mds_groups_size(p->groups, MDS_AXIS_ULYSSES);

    for (int u = 0; u < U; u++) {
        int64_t from = 0, to = u * R * (c->all / U);

        for (int64_t i = 0; i < c->n; i++) {
            int64_t w = c->width[i % 3] / U;
            void *r = mds_par_at(p, rows, from + u * w);
            void *k = mds_par_at(p, packed, to);

            MDS_TRY(pack ? mds_par_copy_rows(p, R, w, r, c->all, k, c->all / U)
                         : mds_par_copy_rows(p, R, w, k, c->all / U, r, c->all));
            from += c->width[i % 3];
            to += w;
        }
    }
    return MDS_OK;
}

/* parts [U, s.n B, all/U] <-> inside [ring rows, all/U]: part u are tokens s of the
 * tokens of peer u. */
static enum mds_rc copy_token_range(const struct mds_par *p, const struct columns *c,
                                    struct mds_token_range s, void *parts, void *inside,
                                    int in)
{
    int U = mds_groups_size(p->groups, MDS_AXIS_ULYSSES);
    int64_t n = s.n * p->B * (c->all / U);

    for (int u = 0; u < U; u++) {
        int64_t at = (u * p->tokens.n + s.first) * p->B * (c->all / U);
        void *part = mds_par_at(p, parts, u * n), *there = mds_par_at(p, inside, at);

        MDS_TRY(in ? mds_par_copy_rows(p, 1, n, part, n, there, n)
                   : mds_par_copy_rows(p, 1, n, there, n, part, n));
    }
    return MDS_OK;
}

/* rows [s.n B, all] of tokens s with all heads -> inside [ring rows, all/U]; in 0: the
 * other way.  What all tokens exchange is `inside` already, without another copy. */
static enum mds_rc exchange(const struct mds_par *p, const struct columns *c,
                            struct mds_token_range s, void *rows, void *inside, int in)
{
    struct mds_comm *peers = mds_group(p->groups, MDS_AXIS_ULYSSES);
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    int64_t R = s.n * p->B;
    int64_t bytes =
        R * (c->all / mds_comm_size(peers)) * (int64_t)mdsk_dtype_size(p->dtype);
    int some = s.n < p->tokens.n;
    void *packed = NULL, *parts = inside;

    MDS_TRY(mds_par_alloc(p, MDS_MEM_COMM, R * c->all, &packed));
    if (some)
        MDS_TRY(mds_par_alloc(p, MDS_MEM_COMM, R * c->all, &parts));
    if (in) {
        MDS_TRY(pack_heads(p, c, R, rows, packed, 1));
        MDS_TRY(mds_comm_all_to_all(peers, packed, parts, bytes));
        if (some)
            MDS_TRY(copy_token_range(p, c, s, parts, inside, 1));
    } else {
        if (some)
            MDS_TRY(copy_token_range(p, c, s, parts, inside, 0));
        MDS_TRY(mds_comm_all_to_all(peers, parts, packed, bytes));
        MDS_TRY(pack_heads(p, c, R, rows, packed, 0));
    }
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

static enum mds_rc exchange_qkv(const struct mds_par *p, const struct mds_attention *a,
                                struct mds_token_range s, void *rows, void *inside,
                                int in)
{
    struct columns c = qkv_columns(a);

    return exchange(p, &c, s, rows, inside, in);
}

static enum mds_rc exchange_o(const struct mds_par *p, const struct mds_attention *a,
                              struct mds_token_range s, void *rows, void *inside,
                              int in)
{
    struct columns c = o_columns(a);

    return exchange(p, &c, s, rows, inside, in);
}

/* ---- a range of tokens at a time ---- */

static enum mds_rc rotate_range(const struct mds_par *p, const struct mds_attention *a,
                                struct mds_token_range s, void *qkv, int inverse)
{
    struct mds_par some = *p;

    some.tokens = mds_shard_range(&p->tokens, s.first, s.n);
    return mds_attention_rotate(&some, a, qkv, inverse);
}

enum mds_rc mds_attention_put_qkv(const struct mds_par *p,
                                  const struct mds_attention *a,
                                  struct mds_token_range s, void *qkv, void *inside)
{
    MDS_TRY(rotate_range(p, a, s, qkv, 0));
    return exchange_qkv(p, a, s, qkv, inside, 1);
}

enum mds_rc mds_attention_get_qkv(const struct mds_par *p,
                                  const struct mds_attention *a,
                                  struct mds_token_range s, void *dinside, void *dqkv)
{
    MDS_TRY(exchange_qkv(p, a, s, dqkv, dinside, 0));
    return rotate_range(p, a, s, dqkv, 1);
}

enum mds_rc mds_attention_put_o(const struct mds_par *p, const struct mds_attention *a,
                                struct mds_token_range s, void *o, void *heads)
{
    return exchange_o(p, a, s, o, heads, 1);
}

enum mds_rc mds_attention_get_o(const struct mds_par *p, const struct mds_attention *a,
                                struct mds_token_range s, void *heads, void *o)
{
    return exchange_o(p, a, s, o, heads, 0);
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
    return mds_op_attention_fwd(p->dev, &f);
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
