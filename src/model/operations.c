/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations of a block's lists: each fills the arguments of a kernel, or of a
 * message, from the operands of its step. */
#include "model/lists.h"

#include "tensor/op.h"

static int64_t rows_of(const struct mds_block_call *call, mds_tid t)
{
    return call->list->rows[call->list->tensor[t].rows];
}

static const struct norm_ids *norm_of(const struct block_pass *b, int layer)
{
    return layer == LAYER_NORM1 ? &b->id->norm1 : &b->id->norm2;
}

static const struct linear_ids *linear_of(const struct block_pass *b, int layer)
{
    switch (layer) {
    case LAYER_QKV:
        return &b->id->attention.qkv;
    case LAYER_OUT:
        return &b->id->attention.out;
    case LAYER_UP:
        return &b->id->mlp.up;
    default:
        return &b->id->mlp.down;
    }
}

/* Rows of a linear layer; its operands may be codes. */
static int64_t gemm_rows(const struct mds_block_call *call)
{
    return call->list->rows[MDS_ROWS_GEMM];
}

static int is_codes(const struct mds_block_call *call, mds_tid t)
{
    return call->list->tensor[t].elem == MDS_ELEM_BYTE;
}

/* ---- norms ---- */

/* Where a norm leaves the largest magnitude of its result; NULL without FP8. */
static uint32_t *norm_amax(const struct block_pass *b, int layer)
{
    return mds_gpt_fp8_input_amax(b->c, layer == LAYER_NORM1 ? &b->id->attention.qkv
                                                             : &b->id->mlp.up);
}

static enum mds_rc norm(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    int64_t R = rows_of(call, call->step->in[0]);
    float *stats = call->out[1];

    if (!stats)
        MDS_TRY(mds_par_alloc_f32(&b->c->par, MDS_MEM_WORK, 2 * R, &stats));
    return mds_gpt_norm_fwd(b->c, norm_of(b, call->step->layer), R, call->in[0],
                            call->in[1], call->out[2], call->out[0], stats, stats + R,
                            norm_amax(b, call->step->layer));
}

static enum mds_rc norm_bwd(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    int64_t R = rows_of(call, call->step->in[0]);
    const float *stats = call->in[1];

    return mds_gpt_norm_bwd(b->c, norm_of(b, call->step->layer), R, call->in[0], stats,
                            stats + R, call->in[2], call->out[0]);
}

/* q and k before their norms, and statistics, where head_norm.c looks for them. */
static struct saved head_norms_saved(const struct block_pass *b, void *before,
                                     void *stats)
{
    int64_t n = mds_saved_elements(b->c, SAVED_QK_MEAN);
    struct saved s = {.at = {[SAVED_QK] = before, [SAVED_QK_MEAN] = stats}};

    if (stats)
        s.at[SAVED_QK_RSTD] = (float *)stats + n;
    return s;
}

static enum mds_rc head_norms(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    const struct span all = {.n = mds_par_rows(&b->c->par)};
    struct saved s = head_norms_saved(b, call->out[1], call->out[2]);

    return mds_gpt_head_norms_fwd(b->c, &b->id->attention, &s, &all, call->out[0]);
}

static enum mds_rc head_norms_bwd(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    const struct span all = {.n = mds_par_rows(&b->c->par)};
    struct saved s = head_norms_saved(b, call->in[1], call->in[2]);

    return mds_gpt_head_norms_bwd(b->c, &b->id->attention, &s, &all, NULL,
                                  call->out[0]);
}

/* ---- linear layers ---- */

static enum mds_rc linear(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    const struct linear_ids *l = linear_of(b, call->step->layer);
    const struct linear_input x = {
        .x = call->in[0],
        .codes = call->out[2],
        .amax = call->step->amax ? mds_gpt_fp8_input_amax(b->c, l) : NULL,
        .activated = call->step->activated};
    int64_t R = gemm_rows(call);

    if (call->out[1])
        return mds_gpt_linear_gelu_fwd(b->c, l, R, x, call->out[0], call->out[1]);
    return mds_gpt_linear_fwd(b->c, l, R, call->step->cut == MDS_CUT_ROWS, x,
                              call->out[0]);
}

/* The gradient of a layer's result, operand k: as it is, or its codes. */
static struct linear_grad gradient(const struct block_pass *b,
                                   const struct mds_block_call *call, int k)
{
    const struct linear_ids *l = linear_of(b, call->step->layer);
    struct linear_grad dy = {.dy = call->in[k]};

    if (is_codes(call, call->step->in[k]))
        mds_gpt_fp8_gradient_at(b->c, gemm_rows(call), l->out, l->fp8_wgrad,
                                call->in[k], &dy);
    return dy;
}

static enum mds_rc cast(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    const struct linear_ids *l = linear_of(b, call->step->layer);
    struct linear_grad dy = {.dy = call->in[0]};

    mds_gpt_fp8_gradient_at(b->c, gemm_rows(call), l->out, l->fp8_wgrad, call->out[0],
                            &dy);
    return mds_gpt_fp8_cast_grad(b->c, gemm_rows(call), l->out,
                                 call->step->amax ? mds_gpt_fp8_grad_amax(b->c, l)
                                                  : NULL,
                                 1, l->fp8_wgrad, mds_gpt_grad(b->c, l->bias), &dy);
}

static enum mds_rc linear_bwd_x(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    const struct linear_grad dy = gradient(b, call, 0);

    return mds_gpt_linear_gelu_bwd_input(b->c, linear_of(b, call->step->layer),
                                         gemm_rows(call), &dy, call->in[1],
                                         call->out[0]);
}

static enum mds_rc linear_bwd_w(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    const struct linear_grad dy = gradient(b, call, 1);
    struct linear_input x = {.x = call->in[0], .activated = call->step->activated};

    if (is_codes(call, call->step->in[0]))
        x.codes = call->in[0];
    return mds_gpt_linear_bwd_weight(b->c, linear_of(b, call->step->layer),
                                     gemm_rows(call), x, &dy);
}

/* ---- attention ---- */

static enum mds_rc rotate(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    struct mds_attention a = mds_gpt_attention_spec(b->c, b->id);

    return mds_attention_rotate(&b->c->par, &a, call->out[0],
                                call->step->op == MDS_STEP_ROPE_BWD);
}

/* Of a block; generation has one model chunk, which begins at block 0. */
static struct mds_kv_cache cache_of(const struct context *c, int block)
{
    const struct mds_gpt_cache *all = &c->run->cache;
    int64_t bytes = mds_gpt_cache_bytes(c->g, c->par.B, all->tokens);

    return (struct mds_kv_cache){
        .kv = (char *)all->kv + bytes / c->g->max_layers * block, .first = all->first};
}

static enum mds_rc attend(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    struct mds_attention a = mds_gpt_attention_spec(b->c, b->id);
    float *lse = call->out[1];

    if (!lse)
        MDS_TRY(mds_par_alloc_f32(&b->c->par, MDS_MEM_WORK,
                                  mds_saved_elements(b->c, SAVED_LSE), &lse));
    if (mds_gpt_generates(b->c)) {
        struct mds_kv_cache cache = cache_of(b->c, b->id->number);

        return mds_attention_cached_fwd(&b->c->par, &a, &cache, call->in[0],
                                        call->out[0], lse);
    }
    return mds_attention_fwd(&b->c->par, &a, call->in[0], call->out[0], lse);
}

static enum mds_rc attend_bwd(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    struct mds_attention a = mds_gpt_attention_spec(b->c, b->id);

    return mds_attention_bwd(&b->c->par, &a, call->in[0], call->in[1], call->in[2],
                             call->in[3], call->out[0]);
}

/* Ulysses' exchanges; rotation is a step of its own. */
static struct mds_attention exchanged(const struct block_pass *b)
{
    struct mds_attention a = mds_gpt_attention_spec(b->c, b->id);

    a.rope = NULL;
    return a;
}

static enum mds_rc to_heads(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    const struct mds_token_range all = {0, b->c->par.tokens.n};
    struct mds_attention a = exchanged(b);

    return call->step->site == MDS_SITE_QKV
               ? mds_attention_put_qkv(&b->c->par, &a, all, call->in[0], call->out[0])
               : mds_attention_put_o(&b->c->par, &a, all, call->in[0], call->out[0]);
}

static enum mds_rc to_tokens(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    const struct mds_token_range all = {0, b->c->par.tokens.n};
    struct mds_attention a = exchanged(b);

    return call->step->site == MDS_SITE_QKV
               ? mds_attention_get_qkv(&b->c->par, &a, all, call->in[0], call->out[0])
               : mds_attention_get_o(&b->c->par, &a, all, call->in[0], call->out[0]);
}

/* ---- rows ---- */

static enum mds_rc activate(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    struct mdsk_activation_fwd a = {.kind = b->c->g->cfg.activation,
                                    .R = rows_of(call, call->step->in[0]),
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
                                    .R = rows_of(call, call->step->in[0]),
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
    int64_t n = mds_gpt_residual_size(b->c);
    int second = call->out[0] == call->in[1];
    struct mdsk_add a = {
        .n = n, .dtype = b->c->par.dtype, .x = call->in[!second], .y = call->out[0]};

    if (call->out[0] != call->in[second])
        MDS_TRY(mds_par_copy_rows(&b->c->par, 1, n, call->in[0], n, call->out[0], n));
    return mds_op_add(b->c->par.dev, &a);
}

/* ---- messages between tensor ranks ---- */

static enum mds_rc gather(void *ctx, const struct mds_block_call *call)
{
    struct block_pass *b = ctx;

    return mds_comm_all_gather_start(mds_group(b->c->g->groups, MDS_AXIS_TENSOR),
                                     call->in[0], call->out[0],
                                     mds_tensor_bytes(call->list, call->step->in[0]),
                                     &b->message[call->step->message]);
}

static enum mds_rc reduce(void *ctx, const struct mds_block_call *call)
{
    struct block_pass *b = ctx;
    struct mds_comm *tp = mds_group(b->c->g->groups, MDS_AXIS_TENSOR);
    struct mds_comm_req *req = &b->message[call->step->message];
    int64_t n = mds_gpt_residual_size(b->c);

    return call->step->site == MDS_SITE_SUM
               ? mds_comm_all_reduce_start(tp, call->out[0], n, b->c->par.dtype,
                                           call->out[1], req)
               : mds_comm_reduce_scatter_start(tp, call->in[0], call->out[0], n,
                                               b->c->par.dtype, call->out[1], req);
}

enum mds_rc mds_gpt_wait(void *ctx, int message)
{
    struct block_pass *b = ctx;

    if (message == b->put_message) {
        mds_dev_wait_copy(b->c->par.dev, b->put);
        return MDS_OK;
    }
    return mds_comm_wait(&b->message[message]);
}

/* ---- inputs that are not saved on the device ---- */

static enum mds_rc put(void *ctx, const struct mds_block_call *call)
{
    struct block_pass *b = ctx;

    b->put_message = call->step->message;
    return mds_saved_put_x(b->c, b->saved, call->in[0], &b->put);
}

static enum mds_rc prefetch(void *ctx, const struct mds_block_call *call)
{
    struct block_pass *b = ctx;

    (void)call;
    if (b->next)
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
    const struct norm_ids *const norms[] = {&b->id->norm1, &b->id->attention.q_norm,
                                            &b->id->attention.k_norm, &b->id->norm2,
                                            &b->id->mlp.router};

    (void)call;
    return mds_gpt_norm_grads_end(b->c, 5, norms);
}

mds_perform_fn *const mds_gpt_operations[MDS_STEP_OPS] = {
    [MDS_STEP_NORM] = norm,
    [MDS_STEP_LINEAR] = linear,
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
    [MDS_STEP_GATHER] = gather,
    [MDS_STEP_REDUCE] = reduce,
    [MDS_STEP_TO_HEADS] = to_heads,
    [MDS_STEP_TO_TOKENS] = to_tokens,
    [MDS_STEP_PUT] = put,
    [MDS_STEP_NORM_BWD] = norm_bwd,
    [MDS_STEP_LINEAR_BWD_X] = linear_bwd_x,
    [MDS_STEP_LINEAR_BWD_W] = linear_bwd_w,
    [MDS_STEP_HEAD_NORMS_BWD] = head_norms_bwd,
    [MDS_STEP_ROPE_BWD] = rotate,
    [MDS_STEP_ATTEND_BWD] = attend_bwd,
    [MDS_STEP_ACTIVATE_BWD] = activate_bwd,
    [MDS_STEP_ROUTE_BWD] = mds_gpt_route_bwd,
    [MDS_STEP_EXPERTS_BWD_X] = mds_gpt_experts_bwd_x,
    [MDS_STEP_EXPERTS_BWD_W] = mds_gpt_experts_bwd_w,
    [MDS_STEP_WEIGH_BWD] = mds_gpt_weigh_bwd,
    [MDS_STEP_CAST] = cast,
    [MDS_STEP_PREFETCH] = prefetch,
    [MDS_STEP_ACQUIRE] = acquire,
    [MDS_STEP_GRAD_BEGIN] = grad_begin,
    [MDS_STEP_SUM_NORMS] = sum_norms,
    [MDS_STEP_GRAD_READY] = grad_ready,
    [MDS_STEP_RELEASE] = release,
};
