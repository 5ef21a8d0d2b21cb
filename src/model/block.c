/* SPDX-License-Identifier: BSD-3-Clause */
/* One transformer block, forward and backward:
 *
 *     x += attention(norm1(x));  x += mlp(norm2(x))
 *     x += attention(norm1(x)) + mlp(norm2(x))        with --use-parallel-residual
 *
 * Outside attention each row is computed by itself, so norms, linear layers, dropout
 * and MLP work on one tile of rows at a time (all rows if there are no tiles).
 * Attention needs whole sequences: a loop over the tiles comes before it and another
 * after it.  What backward needs and `saved` does not have is recomputed. */
#include "model/modules.h"

#include "tensor/op.h"

#include <stdio.h>

/* Matrices come first, so that the other parameters are contiguous: only their
 * gradients have to be zeroed. */
void mds_gpt_add_block(struct registrar *reg, int number, struct block_ids *id)
{
    int64_t H = reg->g->cfg.hidden;
    unsigned partial = mds_gpt_residual_partial(reg->g);
    char name[24], full[48];

    snprintf(name, sizeof name, "layer.%d", number);
    id->number = number;
    reg->fp8 = mds_model_layer_is_fp8(&reg->g->cfg, number);
    id->unit = mds_gpt_add_unit(reg, name);
    mds_gpt_add_attention_weights(reg, name, &id->attention);
    if (reg->g->cfg.experts.n > 0)
        mds_gpt_add_experts(reg, name, &id->mlp);
    else
        mds_gpt_add_mlp_weights(reg, name, &id->mlp);
    snprintf(full, sizeof full, "%s.norm1", name);
    id->norm1 = mds_gpt_add_norm(reg, full, H, partial);
    mds_gpt_add_attention_vectors(reg, name, &id->attention);
    snprintf(full, sizeof full, "%s.norm2", name);
    id->norm2 = mds_gpt_add_norm(reg, full, H, partial);
    if (reg->g->cfg.experts.n == 0)
        mds_gpt_add_mlp_biases(reg, name, &id->mlp);
}

/* ---- norms of a tile: saved, or in working memory ---- */

/* A norm's result and statistics. */
struct normed {
    int64_t R;
    void *y;
    float *mean, *rstd;
    uint32_t *amax; /* of y, for the linear that reads it; NULL without FP8 */
    int is_saved;   /* y was saved, or its codes: backward need not recompute it */
};

enum norm { NORM1, NORM2 };

/* Only blocks without tiles save norms; their one tile has all rows.  In backward y is
 * NULL if its codes were saved. */
static enum mds_rc alloc_norm_outputs(const struct context *t,
                                      const struct block_ids *id, const struct saved *s,
                                      enum norm which, int backward, struct normed *n)
{
    const struct linear_ids *next = which == NORM1 ? &id->attention.qkv : &id->mlp.up;
    const void *codes = s->at[which == NORM1 ? SAVED_N1_CODES : SAVED_N2_CODES];

    n->R = mds_par_slice_rows(&t->par);
    n->y = s->at[which == NORM1 ? SAVED_N1 : SAVED_N2];
    n->mean = s->at[which == NORM1 ? SAVED_MEAN1 : SAVED_MEAN2];
    n->rstd = s->at[which == NORM1 ? SAVED_RSTD1 : SAVED_RSTD2];
    n->amax = mds_gpt_fp8_input_amax(t, next);
    n->is_saved = n->y || codes;
    if (!backward || !codes)
        MDS_TRY(mds_gpt_scratch(t, mds_gpt_residual_size(t), &n->y));
    if (!n->mean)
        MDS_TRY(mds_par_alloc_f32(&t->par, MDS_MEM_WORK, n->R, &n->mean));
    if (!n->rstd)
        MDS_TRY(mds_par_alloc_f32(&t->par, MDS_MEM_WORK, n->R, &n->rstd));
    return MDS_OK;
}

static enum mds_rc norm_forward(const struct context *t, const struct norm_ids *id,
                                const void *x, const struct normed *n)
{
    return mds_gpt_norm_fwd(t, id, n->R, x, NULL, NULL, n->y, n->mean, n->rstd,
                            n->amax);
}

/* ---- forward ---- */

/* q, k, v from the residual stream x.  If x is still a pair of summands (x->branch),
 * the sum is stored in `input`; otherwise x is `input` already. */
static enum mds_rc attention_inputs(const struct context *c, const struct block_ids *id,
                                    const struct work *w, const struct saved *s,
                                    const struct residual *x, void *input, void *qkv)
{
    struct mds_arena_mark mark = mds_arena_mark(c->par.arena);
    int apart = mds_gpt_attention_stages_rows(c);
    struct qkv_rows v;
    struct context t;

    MDS_TRY(mds_gpt_qkv_open(c, id, w, qkv, 0, &v));
    for (int64_t at = 0; mds_gpt_tile(c, at, apart, &t); at = mds_gpt_tile_end(&t)) {
        struct mds_arena_mark tile = mds_arena_mark(c->par.arena);
        struct normed n;

        MDS_TRY(alloc_norm_outputs(&t, id, s, NORM1, 0, &n));
        MDS_TRY(mds_gpt_norm_fwd(&t, &id->norm1, n.R, mds_gpt_residual_at(&t, x->x),
                                 x->branch, input, n.y, n.mean, n.rstd, n.amax));
        MDS_TRY(mds_gpt_qkv_fwd(&t, &id->attention, s, n.y, n.amax, v.rows));
        MDS_TRY(mds_gpt_qkv_put(&t, &v));
        mds_arena_release(c->par.arena, tile);
    }
    MDS_TRY(mds_gpt_qkv_close(c, &v));
    mds_arena_release(c->par.arena, mark);
    return MDS_OK;
}

/* Attention of all heads, group by group: x -> b->o, b->lse; b->qkv keeps the last
 * group's.  With several groups x has no branch.  *saving, unless NULL: the copy of the
 * block's input to where it is saved, which runs meanwhile. */
static enum mds_rc attention_groups(const struct context *c, const struct block_ids *id,
                                    const struct work *w, const struct saved *s,
                                    const struct attention_buffers *b,
                                    const struct residual *x, void *input,
                                    struct mds_dev_async_copy *saving)
{
    for (int i = 0; i < c->head_groups; i++) {
        struct head_group h;

        MDS_TRY(mds_gpt_head_group_open(c, id, i, 0, &h));
        MDS_TRY(attention_inputs(&h.c, &h.id, w, s, x, input, b->qkv));
        if (i == 0 && saving)
            MDS_TRY(mds_saved_put_x(c, s, input, saving));
        mds_dev_wait_copy(c->par.dev, w->o_copy); /* from or to the same buffers */
        MDS_TRY(mds_gpt_attend(&h.c, &h.id, w, b));
        MDS_TRY(mds_gpt_head_group_close(id, &h));
    }
    return MDS_OK;
}

/* sum = x + branch; sum may be x. */
static enum mds_rc add_branch(const struct context *t, const void *x,
                              const void *branch, void *sum)
{
    int64_t n = mds_gpt_residual_size(t);
    struct mdsk_add add = {.n = n, .dtype = t->par.dtype, .x = branch, .y = sum};

    if (x != sum)
        MDS_TRY(mds_par_copy_rows(&t->par, 1, n, x, n, sum, n));
    return mds_op_add(t->par.dev, &add);
}

/* sum = x + dropout(o W^T + b); n = norm2(sum), or norm2(x) with the parallel residual.
 * x and sum are the tile's rows; sum may be x. */
static enum mds_rc attention_output(const struct context *t, const struct block_ids *id,
                                    const void *o, const void *x, void *sum,
                                    const struct normed *n)
{
    struct mds_arena_mark mark = mds_arena_mark(t->par.arena);
    int parallel = t->g->cfg.parallel_residual;
    void *branch = NULL;

    if (parallel)
        MDS_TRY(norm_forward(t, &id->norm2, x, n));
    MDS_TRY(mds_gpt_scratch(t, mds_gpt_residual_size(t), &branch));
    MDS_TRY(mds_gpt_out_fwd(t, &id->attention, o, branch));
    MDS_TRY(mds_gpt_dropout(t, id->number, SITE_OUT, branch, branch, &branch));
    MDS_TRY(parallel ? add_branch(t, x, branch, sum)
                     : mds_gpt_norm_fwd(t, &id->norm2, n->R, x, branch, sum, n->y,
                                        n->mean, n->rstd, n->amax));
    mds_arena_release(t->par.arena, mark);
    return MDS_OK;
}

/* The block after attention, for a tile: y = x + attention's branch + the MLP's branch;
 * or, if `branch` is given, the MLP's branch is stored there and not added. */
static enum mds_rc mlp_half(const struct context *t, const struct block_ids *id,
                            const struct saved *s, const void *o, const void *x,
                            void *y, void *branch)
{
    struct mds_arena_mark mark = mds_arena_mark(t->par.arena);
    struct mdsk_add add = {.n = mds_gpt_residual_size(t),
                           .dtype = t->par.dtype,
                           .y = mds_gpt_residual_at(t, y)};
    struct normed n;
    void *m = branch;

    MDS_TRY(alloc_norm_outputs(t, id, s, NORM2, 0, &n));
    MDS_TRY(mds_gpt_scratch(t, add.n, &m));
    MDS_TRY(attention_output(t, id, o, mds_gpt_residual_at(t, x), add.y, &n));
    MDS_TRY(mds_gpt_mlp_fwd(t, &id->mlp, s, n.y, n.amax, m));
    MDS_TRY(mds_gpt_dropout(t, id->number, SITE_MLP, m, m, &m));
    add.x = m;
    if (!branch)
        MDS_TRY(mds_op_add(t->par.dev, &add));
    mds_arena_release(t->par.arena, mark);
    return MDS_OK;
}

static enum mds_rc mlp_halves(const struct context *c, const struct block_ids *id,
                              const struct work *w, const struct saved *s, void *o,
                              const void *x, void *y)
{
    struct mds_arena_mark mark = mds_arena_mark(c->par.arena);
    int apart = mds_gpt_attention_stages_rows(c);
    const void *rows = NULL;
    struct o_rows v;
    struct context t;

    MDS_TRY(mds_gpt_o_open(c, id, o, &v));
    for (int64_t at = 0; mds_gpt_tile(c, at, apart, &t); at = mds_gpt_tile_end(&t)) {
        MDS_TRY(mds_gpt_o_get(&t, &v, &rows));
        MDS_TRY(mlp_half(&t, id, s, rows, x, y, w->branch));
    }
    mds_gpt_o_close(c, &v);
    mds_arena_release(c->par.arena, mark);
    return MDS_OK;
}

enum mds_rc mds_gpt_block_fwd(const struct context *c, const struct block_ids *id,
                              struct work *w, const struct saved *s, struct residual *x,
                              void *y)
{
    struct attention_buffers b = mds_gpt_attention_buffers(c, w, s);
    void *input = mds_gpt_block_input(w, s);
    struct mds_dev_async_copy saving;

    MDS_TRY(mds_params_acquire(c->g->ps, id->unit));
    MDS_TRY(attention_groups(c, id, w, s, &b, x, input, &saving));
    w->o_copy = mds_saved_put_o(c, s, b.o, b.lse);
    mds_dev_wait_copy(c->par.dev, saving); /* y may be input */
    y = s->at[SAVED_X1] ? s->at[SAVED_X1] : y;
    MDS_TRY(mlp_halves(c, id, w, s, b.o, input, y));
    *x = (struct residual){y, w->branch};
    return mds_params_release(c->g->ps, id->unit);
}

/* ---- backward ---- */

/* *sum, norm2's input, and n, its result: saved, or recomputed from attention's result
 * o. */
static enum mds_rc recover_mlp_input(const struct context *t,
                                     const struct block_ids *id, const struct saved *s,
                                     const void *o, const void *x, void **sum,
                                     struct normed *n)
{
    *sum = t->g->cfg.parallel_residual ? mds_gpt_residual_at(t, x) : s->at[SAVED_X1];
    MDS_TRY(alloc_norm_outputs(t, id, s, NORM2, 1, n));
    if (*sum)
        return n->is_saved ? MDS_OK : norm_forward(t, &id->norm2, *sum, n);
    MDS_TRY(mds_gpt_scratch(t, mds_gpt_residual_size(t), sum));
    return attention_output(t, id, o, mds_gpt_residual_at(t, x), *sum, n);
}

/* d_o, the gradient of attention's result, from d; dn is scratch memory. */
static enum mds_rc out_bwd(const struct context *t, const struct block_ids *id,
                           const void *o, const void *d, void *dn, void *d_o)
{
    void *da = NULL;

    MDS_TRY(mds_gpt_dropout(t, id->number, SITE_OUT, d, dn, &da));
    return mds_gpt_out_bwd(t, &id->attention, o, da, d_o);
}

/* Backward of a tile through the MLP and the output linear layer: d, the gradient of
 * the block's output, becomes that of the stream between attention and MLP; d_o is that
 * of attention's result. */
static enum mds_rc mlp_half_bwd(const struct context *t, const struct block_ids *id,
                                const struct saved *s, const void *o, const void *x,
                                void *d, void *d_o)
{
    struct mds_arena_mark mark = mds_arena_mark(t->par.arena);
    int parallel = t->g->cfg.parallel_residual;
    void *sum = NULL, *dn = NULL, *dm = NULL;
    struct normed n;

    d = mds_gpt_residual_at(t, d);
    MDS_TRY(mds_gpt_scratch(t, mds_gpt_residual_size(t), &dn));
    if (parallel) /* both branches get the gradient of the output */
        MDS_TRY(out_bwd(t, id, o, d, dn, d_o));
    MDS_TRY(recover_mlp_input(t, id, s, o, x, &sum, &n));
    MDS_TRY(mds_gpt_dropout(t, id->number, SITE_MLP, d, dn, &dm));
    MDS_TRY(mds_gpt_mlp_bwd(t, &id->mlp, s, n.y, dm, dn));
    MDS_TRY(mds_gpt_norm_bwd(t, &id->norm2, n.R, sum, n.mean, n.rstd, dn, d));
    if (!parallel)
        MDS_TRY(out_bwd(t, id, o, d, dn, d_o));
    mds_arena_release(t->par.arena, mark);
    return MDS_OK;
}

static enum mds_rc mlp_halves_bwd(const struct context *c, const struct block_ids *id,
                                  const struct work *w, const struct saved *s, void *o,
                                  const void *x, void *d)
{
    struct mds_arena_mark mark = mds_arena_mark(c->par.arena);
    int apart = mds_gpt_attention_stages_rows(c);
    void *d_o = mds_gpt_is_chunked(c) ? w->chunked.d_o : w->d_o;
    const void *rows = NULL;
    struct o_rows v, dv;
    struct context t;

    MDS_TRY(mds_gpt_o_open(c, id, o, &v));
    MDS_TRY(mds_gpt_o_open(c, id, d_o, &dv));
    for (int64_t at = 0; mds_gpt_tile(c, at, apart, &t); at = mds_gpt_tile_end(&t)) {
        MDS_TRY(mds_gpt_o_get(&t, &v, &rows));
        MDS_TRY(mlp_half_bwd(&t, id, s, rows, x, d, mds_gpt_o_fill(&t, &dv)));
        MDS_TRY(mds_gpt_o_put(&t, &dv));
    }
    mds_gpt_o_close(c, &v);
    mds_gpt_o_close(c, &dv);
    mds_arena_release(c->par.arena, mark);
    return MDS_OK;
}

/* d, the gradient of the stream before the block, from those of q, k and v. */
static enum mds_rc attention_inputs_bwd(const struct context *c,
                                        const struct block_ids *id,
                                        const struct work *w, const struct saved *s,
                                        const void *x, void *d)
{
    struct mds_arena_mark mark = mds_arena_mark(c->par.arena);
    int apart = mds_gpt_attention_stages_rows(c);
    struct qkv_rows v;
    struct context t;

    MDS_TRY(mds_gpt_qkv_open(c, id, w, w->dqkv, 1, &v));
    for (int64_t at = 0; mds_gpt_tile(c, at, apart, &t); at = mds_gpt_tile_end(&t)) {
        struct mds_arena_mark tile = mds_arena_mark(c->par.arena);
        const void *rows = mds_gpt_residual_at(&t, x);
        struct normed n;
        void *dn = NULL;

        MDS_TRY(mds_gpt_scratch(&t, mds_gpt_residual_size(&t), &dn));
        MDS_TRY(alloc_norm_outputs(&t, id, s, NORM1, 1, &n));
        MDS_TRY(mds_gpt_qkv_get(&t, &v));
        if (!n.is_saved)
            MDS_TRY(norm_forward(&t, &id->norm1, rows, &n));
        MDS_TRY(mds_gpt_qkv_bwd(&t, &id->attention, s, n.y, v.rows, dn));
        MDS_TRY(mds_gpt_norm_bwd(&t, &id->norm1, n.R, rows, n.mean, n.rstd, dn,
                                 mds_gpt_residual_at(&t, d)));
        mds_arena_release(c->par.arena, tile);
    }
    MDS_TRY(mds_gpt_qkv_close(c, &v));
    mds_arena_release(c->par.arena, mark);
    return MDS_OK;
}

/* Recompute what was not saved of attention.  Without tiles norm1's result is kept in
 * scratch memory until the end of the block. */
static enum mds_rc recompute_attention(const struct context *c,
                                       const struct block_ids *id, const struct work *w,
                                       struct saved *s,
                                       const struct attention_buffers *b,
                                       struct residual x, void *input)
{
    struct normed n;

    if (s->at[SAVED_QKV])
        return MDS_OK;
    if (!mds_gpt_is_tiled(c)) {
        MDS_TRY(alloc_norm_outputs(c, id, s, NORM1, 0, &n));
        s->at[SAVED_N1] = n.y;
        s->at[SAVED_MEAN1] = n.mean;
        s->at[SAVED_RSTD1] = n.rstd;
        MDS_TRY(mds_gpt_head_norms_alloc(c, &id->attention, s));
    }
    if (!s->at[SAVED_O] && !s->away[SAVED_O])
        return attention_groups(c, id, w, s, b, &x, input, NULL);
    if (c->head_groups == 1)
        MDS_TRY(attention_inputs(c, id, w, s, &x, input, b->qkv));
    mds_dev_wait_copy(c->par.dev, w->o_copy);
    return MDS_OK;
}

void mds_gpt_block_prefetch(const struct context *c, struct work *w,
                            const struct saved *s)
{
    struct attention_buffers b = mds_gpt_attention_buffers(c, w, s);
    void *x = w->d_o;

    if (s->away[SAVED_X]) {
        w->d_o = w->x;
        w->x = x;
        w->x_copy = mds_saved_get_x(c, s, x);
    }
    w->o_copy = mds_saved_get_o(c, s, b.o, b.lse);
}

/* From the gradient of attention's result to d, that of the stream before the block,
 * one group of heads at a time.  With several groups the buffers hold q, k and v of one
 * group, so they are recomputed. */
static enum mds_rc attention_groups_bwd(const struct context *c,
                                        const struct block_ids *id, struct work *w,
                                        const struct saved *s,
                                        const struct attention_buffers *b,
                                        const struct saved *next, void *input, void *d)
{
    const struct residual x = {.x = input};

    for (int i = 0; i < c->head_groups; i++) {
        struct head_group h;

        MDS_TRY(mds_gpt_head_group_open(c, id, i, 1, &h));
        if (c->head_groups > 1)
            MDS_TRY(attention_inputs(&h.c, &h.id, w, s, &x, input, b->qkv));
        MDS_TRY(mds_gpt_attend_bwd(&h.c, &h.id, w, b));
        if (next && i + 1 == c->head_groups)
            mds_gpt_block_prefetch(c, w, next);
        MDS_TRY(attention_inputs_bwd(&h.c, &h.id, w, s, input, d));
        MDS_TRY(mds_gpt_head_group_close(id, &h));
    }
    return MDS_OK;
}

/* Recompute what is not copied when a block is offloaded: norms' results and g. */
static enum mds_rc recompute_not_copied(const struct context *c,
                                        const struct block_ids *id,
                                        const struct saved *s)
{
    int parallel = c->g->cfg.parallel_residual;
    struct normed n;

    if (s->at[SAVED_N1]) {
        MDS_TRY(alloc_norm_outputs(c, id, s, NORM1, 0, &n));
        MDS_TRY(norm_forward(c, &id->norm1, s->at[SAVED_X], &n));
    }
    if (s->at[SAVED_N2]) {
        MDS_TRY(alloc_norm_outputs(c, id, s, NORM2, 0, &n));
        MDS_TRY(norm_forward(c, &id->norm2, s->at[parallel ? SAVED_X : SAVED_X1], &n));
    }
    return mds_gpt_mlp_activate(c, &id->mlp, s);
}

enum mds_rc mds_gpt_block_bwd(const struct context *c, const struct block_ids *id,
                              struct work *w, const struct saved *s,
                              const struct saved *next, struct residual x, void *d)
{
    struct attention_buffers b = mds_gpt_attention_buffers(c, w, s);
    struct mds_arena_mark mark = mds_arena_mark(c->par.arena);
    const struct norm_ids *const norms[] = {&id->norm1, &id->attention.q_norm,
                                            &id->attention.k_norm, &id->norm2};
    void *input = mds_gpt_block_input(w, s);
    struct saved here = *s;

    MDS_TRY(mds_params_acquire(c->g->ps, id->unit));
    if (s->returned)
        MDS_TRY(recompute_not_copied(c, id, s));
    MDS_TRY(mds_params_grad_begin(c->g->ps, id->unit));
    mds_gpt_norm_grads_begin(c);
    MDS_TRY(recompute_attention(c, id, w, &here, &b, x, input));
    MDS_TRY(mlp_halves_bwd(c, id, w, &here, b.o, input, d));
    w->dqkv = NULL;
    if (!mds_gpt_is_chunked(c))
        MDS_TRY(mds_gpt_scratch(c, mds_saved_elements(c, SAVED_QKV), &w->dqkv));
    MDS_TRY(attention_groups_bwd(c, id, w, &here, &b, next, input, d));
    MDS_TRY(mds_gpt_norm_grads_end(c, 4, norms));
    MDS_TRY(mds_params_grad_ready(c->g->ps, id->unit));
    mds_arena_release(c->par.arena, mark);
    return mds_params_release(c->g->ps, id->unit);
}
