/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations of a block's lists: each fills the arguments of a kernel, or of a
 * message, from the operands of its step. */
#include "model/lists.h"

#include "tensor/op.h"

static const struct norm_ids *norm_of(const struct block_pass *b, int layer)
{
    return layer == LAYER_NORM1      ? &b->id->norm1
           : layer == LAYER_NORM2    ? &b->id->norm2
           : layer == LAYER_OUT_NORM ? &b->id->attention.out_norm
                                     : &b->id->mlp.out_norm;
}

/* ---- norms ---- */

/* Where a norm leaves the largest magnitude of its result: that of a linear layer's
 * input, in FP8; else NULL. */
static uint32_t *norm_amax(const struct block_pass *b, int layer)
{
    return layer == LAYER_NORM1   ? mds_gpt_fp8_input_amax(b->c, &b->id->attention.qkv)
           : layer == LAYER_NORM2 ? mds_gpt_fp8_input_amax(b->c, &b->id->mlp.up)
                                  : NULL;
}

static enum mds_rc norm(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    int64_t R = mds_par_slice_rows(&b->c->par);
    float *stats = call->out[1];

    if (!stats)
        MDS_TRY(mds_par_alloc_f32(&b->c->par, MDS_MEM_WORK, 2 * R, &stats));
    return mds_gpt_norm_fwd(b->c, norm_of(b, call->step->layer), R, call->in[0],
                            call->in[1], call->out[2], call->out[0], stats, stats + R,
                            call->out[0] ? norm_amax(b, call->step->layer) : NULL);
}

static enum mds_rc norm_bwd(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    int64_t R = mds_par_slice_rows(&b->c->par);
    const float *stats = call->in[1];

    return mds_gpt_norm_bwd(b->c, norm_of(b, call->step->layer), R, call->in[0], stats,
                            stats + R, call->in[2], call->in[3], call->out[0]);
}

static enum mds_rc head_norms(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    mds_tid qkv = call->step->out[0];
    struct span s;

    for (int64_t at = 0; mds_gpt_next_span(b, call, qkv, -1, at, &s); at += s.n)
        MDS_TRY(mds_gpt_head_norms_fwd(
            b->c, &b->id->attention,
            &(struct head_norm_rows){at, s.n, call->out[1], call->out[2]},
            mds_gpt_span_at(b, call, qkv, call->out[0], &s)));
    return MDS_OK;
}

static enum mds_rc head_norms_bwd(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    mds_tid dqkv = call->step->out[0];
    struct span s;

    for (int64_t at = 0; mds_gpt_next_span(b, call, dqkv, -1, at, &s); at += s.n)
        MDS_TRY(mds_gpt_head_norms_bwd(
            b->c, &b->id->attention,
            &(struct head_norm_rows){at, s.n, (void *)call->in[1],
                                     (float *)call->in[2]},
            mds_gpt_span_at(b, call, dqkv, call->out[0], &s)));
    return MDS_OK;
}

/* ---- attention ---- */

static struct mds_attention attention_of(const struct context *c,
                                         const struct block_ids *id)
{
    const struct mds_model_config *m = &c->g->cfg;
    struct mds_comm *tp = mds_group(c->g->groups, MDS_AXIS_TENSOR);
    struct mds_attention a = {.A = mds_gpt_heads(c, m->heads),
                              .G = mds_gpt_heads(c, m->kv_heads),
                              .D = m->head_dim,
                              .scale = mds_mup_score_scale(m),
                              .window = mds_model_window(m, id->number),
                              .rope = c->g->rope,
                              .alibi_heads =
                                  m->position == MDS_POSITION_ALIBI ? m->heads : 0,
                              .unfused = !c->run->train->flash_attn};

    a.before = c->head_group * a.A;
    a.behind = (c->head_groups - c->head_group - 1) * a.A;
    a.first_head = mds_comm_rank(tp) * c->head_groups * a.A + a.before;
    a.dropout =
        mds_gpt_dropout_key(c, id->number, SITE_ATTENTION, m->attention_dropout);
    return a;
}

/* The log-sum-exp is stored group by group: how many elements that of this group has,
 * and where they are. */
static int64_t lse_elements(const struct context *c)
{
    return mds_saved_lse_elements(c) / c->head_groups;
}

static float *group_lse(const struct context *c, float *lse)
{
    return lse + lse_elements(c) * c->head_group;
}

/* Positions are known for the tokens of a tile that follow one another: for each of its
 * parts. */
static int64_t parts(const struct block_pass *b)
{
    return mds_par_rows(&b->c->par) / b->c->part;
}

static struct mds_token_range part_tokens(const struct block_pass *b, int64_t part)
{
    int64_t B = b->c->par.B, slice = mds_par_slice_rows(&b->whole->par);

    return (struct mds_token_range){(part * slice + b->c->row) / B, b->c->part / B};
}

static enum mds_rc rotate(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    struct mds_attention a = attention_of(b->c, b->id);
    mds_tid qkv = call->step->out[0];

    for (int64_t part = 0; part < parts(b); part++) {
        struct span s;

        mds_gpt_span(b->c, part * b->c->part, b->c->part, &s);
        MDS_TRY(mds_attention_rotate(&b->whole->par, &a, part_tokens(b, part),
                                     mds_gpt_span_at(b, call, qkv, call->out[0], &s),
                                     call->step->op == MDS_STEP_ROPE_BWD));
    }
    return MDS_OK;
}

/* Of a block; generation has one model chunk. */
static struct mds_kv_cache cache_of(const struct context *c, int block)
{
    const struct mds_gpt_cache *all = &c->run->cache;
    int64_t bytes = mds_gpt_cache_bytes(c->g, c->par.B, all->tokens);
    int64_t before = block - c->g->chunk[0].is.first_layer;
    int on_host = before < all->on_host;

    return (struct mds_kv_cache){.kv = on_host ? (char *)all->host + bytes * before
                                               : (char *)all->kv +
                                                     bytes * (before - all->on_host),
                                 .on_host = on_host,
                                 .first = all->first,
                                 .block = mds_kv_cache_block(c->g->groups, all->tokens),
                                 .tokens = all->tokens,
                                 .place = all->place};
}

static enum mds_rc attend(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    struct mds_attention a = attention_of(b->c, b->id);
    float *lse = call->out[1];

    if (mds_tensor_arg(call->list, call->step->out[0]) == MDS_ARG_O)
        mds_dev_wait_copy(b->c->par.dev, b->o->copy); /* the block before's */

    if (lse)
        lse = group_lse(b->c, lse);
    else
        MDS_TRY(mds_par_alloc_f32(&b->c->par, MDS_MEM_WORK, lse_elements(b->c), &lse));
    if (mds_gpt_generates(b->c)) {
        struct mds_kv_cache cache = cache_of(b->c, b->id->number);

        return mds_attention_cached_fwd(&b->c->par, &a, &cache, call->in[0],
                                        call->out[0], lse);
    }
    MDS_TRY(mds_attention_fwd(&b->c->par, &a, call->in[0], call->out[0], lse));
    if (!b->c->run->logit_bound)
        return MDS_OK;
    return mds_attention_most(&b->c->par, &a, lse,
                              b->c->run->logit_bound +
                                  b->id->number * b->c->g->cfg.heads);
}

static enum mds_rc attend_bwd(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    struct mds_attention a = attention_of(b->c, b->id);

    return mds_attention_bwd(&b->c->par, &a, call->in[0], call->in[1],
                             group_lse(b->c, call->in[2]), call->in[3], call->out[0]);
}

/* ---- Ulysses' exchanges ---- */

/* Where a part begins in operand t, which has the rows of the tile. */
static void *part_at(const struct block_pass *b, const struct mds_block_call *call,
                     mds_tid t, void *base, int64_t part)
{
    return mds_par_at(&b->c->par, base, part * b->c->part * call->list->tensor[t].cols);
}

static enum mds_rc to_heads(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    struct mds_attention a = attention_of(b->c, b->id);

    for (int64_t i = 0; i < parts(b); i++) {
        void *rows = part_at(b, call, call->step->in[0], call->in[0], i);

        MDS_TRY((call->step->site == MDS_SITE_QKV ? mds_attention_put_qkv
                                                  : mds_attention_put_o)(
            &b->whole->par, &a, part_tokens(b, i), rows, call->out[0]));
    }
    return MDS_OK;
}

static enum mds_rc to_tokens(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    struct mds_attention a = attention_of(b->c, b->id);

    for (int64_t i = 0; i < parts(b); i++) {
        void *rows = part_at(b, call, call->step->out[0], call->out[0], i);

        MDS_TRY((call->step->site == MDS_SITE_QKV ? mds_attention_get_qkv
                                                  : mds_attention_get_o)(
            &b->whole->par, &a, part_tokens(b, i), call->in[0], rows));
    }
    return MDS_OK;
}

/* ---- rows ---- */

static enum mds_rc activate(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    struct mdsk_activation_fwd a = {.kind = b->c->g->cfg.activation,
                                    .R = mds_par_rows(&b->c->par),
                                    .F = b->id->mlp.down.in,
                                    .dtype = b->c->par.dtype,
                                    .x = call->in[0],
                                    .y = call->out[0]};

    return mds_op_activation_fwd(b->c->par.dev, &a);
}

static enum mds_rc activate_bwd(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    struct mdsk_activation_bwd a = {.kind = b->c->g->cfg.activation,
                                    .R = mds_par_rows(&b->c->par),
                                    .F = b->id->mlp.down.in,
                                    .dtype = b->c->par.dtype,
                                    .x = call->in[0],
                                    .dy = call->in[1],
                                    .dx = call->out[0],
                                    .amax =
                                        mds_gpt_fp8_grad_amax(b->c, &b->id->mlp.up)};

    return mds_op_activation_bwd(b->c->par.dev, &a);
}

static enum mds_rc dropout(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    void *y;

    return mds_gpt_dropout(b->c, b->id->number, call->step->site, call->in[0],
                           call->out[0], &y);
}

static enum mds_rc add(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    int rows = call->list->tensor[call->step->out[0]].rows;
    struct mdsk_add a = {.n = rows == MDS_ROWS_SLICE
                                  ? mds_gpt_residual_size(b->c)
                                  : mds_par_rows(&b->c->par) * b->c->g->cfg.hidden,
                         .dtype = b->c->par.dtype,
                         .x = call->in[1],
                         .z = call->in[0],
                         .y = call->out[0]};

    /* The first block has no branch: its stream is where the sum would be. */
    return a.x ? mds_op_add(b->c->par.dev, &a) : MDS_OK;
}

/* ---- what is not saved on the device ---- */

static enum mds_rc put(void *ctx, const struct mds_block_call *call)
{
    struct block_pass *b = ctx;

    b->put_message = call->step->message;
    return mds_saved_put_x(b->c, b->saved, call->in[0], &b->put);
}

/* The next block waits for it where it makes its own. */
static enum mds_rc put_o(void *ctx, const struct mds_block_call *call)
{
    struct block_pass *b = ctx;

    b->o->copy = mds_saved_put_o(b->c, b->saved, call->in[0], call->in[1]);
    return MDS_OK;
}

static enum mds_rc prefetch(void *ctx, const struct mds_block_call *call)
{
    struct block_pass *b = ctx;

    if (!b->next)
        return MDS_OK;
    if (call->step->site == MDS_SITE_O)
        b->o->copy = mds_saved_get_o(b->whole, b->next, b->o->o, b->o->lse);
    else
        b->fetched->copy = mds_saved_get_x(b->c, b->next, b->fetched->x[1]);
    return MDS_OK;
}

/* ---- the storage of parameters ---- */

static enum mds_rc acquire(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;

    (void)call;
    return mds_params_acquire(b->c->g->ps, b->id->unit);
}

static enum mds_rc release(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;

    (void)call;
    return mds_params_release(b->c->g->ps, b->id->unit);
}

static enum mds_rc grad_begin(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;

    (void)call;
    mds_gpt_norm_grads_begin(b->c);
    return mds_params_grad_begin(b->c->g->ps, b->id->unit);
}

static enum mds_rc grad_ready(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;

    (void)call;
    return mds_params_grad_ready(b->c->g->ps, b->id->unit);
}

static enum mds_rc sum_norms(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    const struct norm_ids *const norms[] = {&b->id->norm1,
                                            &b->id->attention.q_norm,
                                            &b->id->attention.k_norm,
                                            &b->id->attention.out_norm,
                                            &b->id->norm2,
                                            &b->id->mlp.out_norm,
                                            &b->id->mlp.router};

    (void)call;
    return mds_gpt_norm_grads_end(b->c, 7, norms);
}

mds_perform_fn *const mds_gpt_operations[MDS_STEP_OPS] = {
    [MDS_STEP_NORM] = norm,
    [MDS_STEP_LINEAR] = mds_gpt_list_linear,
    [MDS_STEP_HEAD_NORMS] = head_norms,
    [MDS_STEP_ROPE] = rotate,
    [MDS_STEP_ATTEND] = attend,
    [MDS_STEP_ACTIVATE] = activate,
    [MDS_STEP_DROPOUT] = dropout,
    [MDS_STEP_ADD] = add,
    [MDS_STEP_ROUTE] = mds_gpt_route,
    [MDS_STEP_DISPATCH] = mds_gpt_dispatch,
    [MDS_STEP_EXPERTS] = mds_gpt_experts,
    [MDS_STEP_WEIGH] = mds_gpt_weigh,
    [MDS_STEP_COMBINE] = mds_gpt_combine,
    [MDS_STEP_SPREAD] = mds_gpt_spread,
    [MDS_STEP_GATHER] = mds_gpt_gather,
    [MDS_STEP_REDUCE] = mds_gpt_reduce,
    [MDS_STEP_TO_HEADS] = to_heads,
    [MDS_STEP_TO_TOKENS] = to_tokens,
    [MDS_STEP_OPEN_HEADS] = mds_gpt_open_heads,
    [MDS_STEP_CLOSE_HEADS] = mds_gpt_close_heads,
    [MDS_STEP_PUT] = put,
    [MDS_STEP_PUT_O] = put_o,
    [MDS_STEP_NORM_BWD] = norm_bwd,
    [MDS_STEP_LINEAR_BWD_X] = mds_gpt_list_linear_bwd_x,
    [MDS_STEP_LINEAR_BWD_W] = mds_gpt_list_linear_bwd_w,
    [MDS_STEP_HEAD_NORMS_BWD] = head_norms_bwd,
    [MDS_STEP_ROPE_BWD] = rotate,
    [MDS_STEP_ATTEND_BWD] = attend_bwd,
    [MDS_STEP_ACTIVATE_BWD] = activate_bwd,
    [MDS_STEP_ROUTE_BWD] = mds_gpt_route_bwd,
    [MDS_STEP_EXPERTS_BWD_X] = mds_gpt_experts_bwd_x,
    [MDS_STEP_EXPERTS_BWD_W] = mds_gpt_experts_bwd_w,
    [MDS_STEP_WEIGH_BWD] = mds_gpt_weigh_bwd,
    [MDS_STEP_SPREAD_BWD] = mds_gpt_spread_bwd,
    [MDS_STEP_CAST] = mds_gpt_list_cast,
    [MDS_STEP_PREFETCH] = prefetch,
    [MDS_STEP_ACQUIRE] = acquire,
    [MDS_STEP_GRAD_BEGIN] = grad_begin,
    [MDS_STEP_SUM_NORMS] = sum_norms,
    [MDS_STEP_GRAD_READY] = grad_ready,
    [MDS_STEP_RELEASE] = release,
};
