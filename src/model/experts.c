/* SPDX-License-Identifier: BSD-3-Clause */
/* A mixture of experts in place of the MLP (kernels/experts.h): parameters, and the
 * operations of its steps.
 *
 * Every tensor rank has a part of each expert, and all rows; so each routes all rows.
 * The gradients of weights, and so of the router, are then parts of sums. */
#include "model/lists.h"

#include "base/alloc.h"
#include "tensor/op.h"

#include <math.h>
#include <stdio.h>

/* ---- parameters ---- */

static struct expert_ids add_expert(struct registrar *reg, const char *layer,
                                    int number)
{
    const struct mds_model_config *m = &reg->g->cfg;
    int gated = mdsk_activation_of(m->activation)->gated;
    double down_std = m->init_std / sqrt(2.0 * (double)m->layers);
    int64_t F = m->experts.ffn_hidden;
    struct expert_ids id;
    char name[64];

    snprintf(name, sizeof name, "%.24s.mlp.experts.%d.%s", layer, number,
             gated ? "gate" : "up");
    id.up =
        mds_gpt_add_matrix(reg, name, F, m->hidden, MDS_SHARD_ROWS, m->init_std, 0, 1);
    snprintf(name, sizeof name, "%.24s.mlp.experts.%d.up", layer, number);
    if (gated)
        mds_gpt_add_matrix(reg, name, F, m->hidden, MDS_SHARD_ROWS, m->init_std, 1, 1);
    snprintf(name, sizeof name, "%.24s.mlp.experts.%d.down", layer, number);
    id.down =
        mds_gpt_add_matrix(reg, name, m->hidden, F, MDS_SHARD_COLS, down_std, 0, 1);
    return id;
}

/* Summed over tensor ranks with the norms' gradients. */
static struct norm_ids add_router(struct registrar *reg, const char *layer)
{
    const struct mds_model_config *m = &reg->g->cfg;
    int tp = mds_groups_size(reg->g->groups, MDS_AXIS_TENSOR);
    struct mds_param_spec s = {.rows = m->experts.n,
                               .cols = m->hidden,
                               .init = MDS_INIT_NORMAL,
                               .std = m->init_std,
                               .decay = 1,
                               .partial = tp > 1 ? MDS_AXIS_TENSOR : 0};

    mds_gpt_set_width(reg, &s);
    snprintf(s.name, sizeof s.name, "%.24s.mlp.router.weight", layer);
    return mds_gpt_add_summed(reg, &s, m->experts.n * m->hidden);
}

int mds_gpt_experts_here(const struct mds_gpt *g)
{
    return (int)g->cfg.experts.n / mds_groups_size(g->groups, MDS_AXIS_EXPERT);
}

static void add_experts_here(struct registrar *reg, const char *layer,
                             struct mlp_ids *id)
{
    int n = mds_gpt_experts_here(reg->g);
    int first = n * mds_groups_rank(reg->g->groups, MDS_AXIS_EXPERT);

    id->expert = mds_zalloc((size_t)n, sizeof *id->expert);
    if (!id->expert) {
        reg->rc = MDS_EMEM;
        return;
    }
    for (int e = 0; e < n; e++)
        id->expert[e] = add_expert(reg, layer, first + e);
}

void mds_gpt_add_spread(struct registrar *reg, const char *layer, struct mlp_ids *id)
{
    char name[48];

    if (mds_groups_size(reg->g->groups, MDS_AXIS_EXPERT) == 1)
        return;
    snprintf(name, sizeof name, "%.24s.experts", layer);
    id->unit = mds_gpt_add_unit(reg, name);
    if (reg->rc)
        return;
    mds_params_set_inner(reg->g->ps, id->unit);
    reg->apart = MDS_AXIS_EXPERT;
    add_experts_here(reg, layer, id);
    reg->apart = 0;
}

void mds_gpt_add_experts(struct registrar *reg, const char *layer, struct mlp_ids *id)
{
    const struct mds_model_config *m = &reg->g->cfg;
    int64_t F =
        m->experts.ffn_hidden / mds_groups_size(reg->g->groups, MDS_AXIS_TENSOR);

    if (mds_groups_size(reg->g->groups, MDS_AXIS_EXPERT) == 1)
        add_experts_here(reg, layer, id);
    id->router = add_router(reg, layer);
    id->inner = F;
    id->wide = mdsk_activation_inputs(m->activation, 1, F);
}

/* ---- which experts ---- */

/* A map [R,3k]: the experts of each row, where its copies are, and whose row each copy
 * is. */
struct map {
    int64_t R, k;
    int32_t *choice, *to, *from;
};

static struct map map_at(const struct block_pass *b, void *map)
{
    int64_t R = mds_par_rows(&b->c->par), k = b->c->g->cfg.experts.topk;
    int32_t *at = map;

    return (struct map){.R = R,
                        .k = k,
                        .choice = at,
                        .to = at ? at + R * k : NULL,
                        .from = at ? at + 2 * R * k : NULL};
}

int mds_gpt_is_first_tile(const struct block_pass *b)
{
    return b->c->row == 0;
}

int mds_gpt_is_last_tile(const struct block_pass *b)
{
    return b->c->row + b->c->part == b->c->stride;
}

int64_t mds_gpt_load_groups(const struct context *c)
{
    return c->g->cfg.experts.balance == MDS_BALANCE_SEQUENCE ? c->par.B : 1;
}

static int balances(const struct context *c)
{
    const struct mds_experts_config *x = &c->g->cfg.experts;

    return x->balance != MDS_BALANCE_NONE && x->balance_coeff > 0;
}

/* Of `groups`, for the logs and for biases; it is summed over ranks then. */
static enum mds_rc report_load(const struct block_pass *b, const float *load,
                               int64_t groups)
{
    int64_t E = b->c->g->cfg.experts.n;
    float *sum = b->c->run->expert_load;

    for (int64_t i = 0; i < groups && sum; i++) {
        struct mdsk_add add = {.n = E, .x = load + i * E, .y = sum + b->id->number * E};

        MDS_TRY(mds_op_add(b->c->par.dev, &add));
    }
    return MDS_OK;
}

/* load = that of the whole batch so far, as one of a rank's micro-batches has: the mean
 * over the micro-batches of all ranks that have begun the block in this step. */
static enum mds_rc average_load(const struct block_pass *b, float *load)
{
    const struct mds_par *p = &b->c->par;
    int64_t E = b->c->g->cfg.experts.n;
    int64_t batches = (b->c->micro_batch + 1) *
                      (int64_t)mds_groups_size(b->c->g->groups, MDS_AXIS_DATA);
    float *sum = b->c->run->batch_load + b->id->number * E;
    struct mdsk_add add = {.n = E, .x = load, .y = sum};
    struct mdsk_axpby take = {
        .n = E, .from = MDSK_F32, .to = MDSK_F32, .a = 1, .x = sum, .y = load};
    struct mdsk_axpby divide = {.n = E,
                                .from = MDSK_F32,
                                .to = MDSK_F32,
                                .b = (float)(1 / (double)batches),
                                .y = load};

    MDS_TRY(mds_op_add(p->dev, &add));
    MDS_TRY(mds_op_axpby(p->dev, &take));
    if (mds_groups_size(b->c->g->groups, MDS_AXES_TOKENS) > 1)
        MDS_TRY(mds_par_sum(p, MDS_AXES_TOKENS, load, E));
    return mds_op_axpby(p->dev, &divide);
}

/* On all ranks that share the sequences. */
static enum mds_rc sum_load(const struct block_pass *b, float *load)
{
    const struct mds_groups *ranks = b->c->g->groups;
    int64_t n = mds_gpt_load_groups(b->c) * b->c->g->cfg.experts.n;

    if (b->c->g->cfg.experts.balance == MDS_BALANCE_BATCH)
        return average_load(b, load);
    if (mds_groups_size(ranks, MDS_AXIS_ULYSSES) > 1)
        MDS_TRY(mds_par_sum(&b->c->par, MDS_AXIS_ULYSSES, load, n));
    if (mds_groups_size(ranks, MDS_AXIS_RING) > 1)
        MDS_TRY(mds_par_sum(&b->c->par, MDS_AXIS_RING, load, n));
    return MDS_OK;
}

/* Where the loss of balance counts a choice without biases, that with biases is
 * reported by itself. */
static enum mds_rc report_choice(const struct block_pass *b, const struct map *m)
{
    struct mdsk_route_load a = {.R = m->R,
                                .E = b->c->g->cfg.experts.n,
                                .k = m->k,
                                .groups = 1,
                                .choice = m->choice};

    MDS_TRY(mds_par_alloc_f32(&b->c->par, MDS_MEM_WORK, a.E, &a.load));
    MDS_TRY(mds_op_route_load(b->c->par.dev, &a));
    return report_load(b, a.load, 1);
}

/* load += that of these rows: whole numbers, so f32 is exact.  Behind the last tile it
 * is that of all rows, which backward reads in each. */
static enum mds_rc count_load(const struct block_pass *b, const struct map *m,
                              const int32_t *choice, float *load)
{
    int64_t groups = mds_gpt_load_groups(b->c), E = b->c->g->cfg.experts.n;
    struct mdsk_route_load a = {
        .R = m->R, .E = E, .k = m->k, .groups = groups, .choice = choice, .load = load};
    struct mdsk_add add = {.n = groups * E, .y = load};
    int is_more = !mds_gpt_is_first_tile(b);

    if (is_more)
        MDS_TRY(mds_par_alloc_f32(&b->c->par, MDS_MEM_WORK, groups * E, &a.load));
    MDS_TRY(mds_op_route_load(b->c->par.dev, &a));
    add.x = a.load;
    if (is_more)
        MDS_TRY(mds_op_add(b->c->par.dev, &add));
    if (!mds_gpt_is_last_tile(b))
        return MDS_OK;
    if (choice == m->choice)
        MDS_TRY(report_load(b, load, groups));
    return balances(b->c) ? sum_load(b, load) : MDS_OK;
}

static int is_sigmoid(const struct mds_experts_config *x)
{
    return x->score == MDS_SCORE_SIGMOID;
}

/* Whether a row's weights are of all experts, and need not add up to 1. */
static int is_of_all(const struct mds_experts_config *x)
{
    return is_sigmoid(x) ? x->topk == 1 : x->pre_softmax;
}

static const float *bias_of(const struct block_pass *b)
{
    const float *all = b->c->run->expert_bias;

    return all ? all + b->id->number * b->c->g->cfg.experts.n : NULL;
}

/* A choice [R,k] beside that of the map, if the loss of balance needs one. */
static enum mds_rc alloc_unbiased(const struct block_pass *b, struct mdsk_route *a)
{
    float *numbers;

    if (!a->bias || !balances(b->c))
        return MDS_OK;
    MDS_TRY(mds_par_alloc_f32(&b->c->par, MDS_MEM_WORK, a->R * a->k, &numbers));
    a->unbiased = (int32_t *)(void *)numbers;
    return MDS_OK;
}

enum mds_rc mds_gpt_route(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    const struct mds_experts_config *x = &b->c->g->cfg.experts;
    const struct map m = map_at(b, call->out[0]);
    struct mdsk_route a = {.R = m.R,
                           .H = b->c->g->cfg.hidden,
                           .E = x->n,
                           .k = m.k,
                           .dtype = b->c->par.dtype,
                           .of_all = is_of_all(x),
                           .sigmoid = is_sigmoid(x),
                           .scale = (float)x->scale,
                           .x = call->in[0],
                           .w = mds_gpt_weight(b->c, b->id->mlp.router.gamma),
                           .bias = bias_of(b),
                           .scores = call->out[3],
                           .weight = call->out[1],
                           .choice = m.choice};
    struct mdsk_route_sort sort = {.R = m.R,
                                   .E = x->n,
                                   .k = m.k,
                                   .choice = m.choice,
                                   .first = call->out[2],
                                   .to = m.to,
                                   .from = m.from};

    if (call->out[4])
        MDS_TRY(alloc_unbiased(b, &a));
    MDS_TRY(mds_op_route(b->c->par.dev, &a));
    MDS_TRY(mds_op_route_sort(b->c->par.dev, &sort));
    if (!call->out[4])
        return MDS_OK;
    if (a.unbiased)
        MDS_TRY(report_choice(b, &m));
    return count_load(b, &m, a.unbiased ? a.unbiased : m.choice, call->out[4]);
}

/* The gradients of balance and of scores' size.  Of tensor ranks, which compute the
 * same gradient and then sum it, the first adds theirs.
 *
 * The losses are means over tokens, as the model's.  The balance of T tokens:
 * coeff E / (k T^2) * sum over e of load[e] * sum of probabilities of e; its gradient,
 * times T, adds to that of the sum of losses. */
static void add_losses(const struct block_pass *b, const float *load,
                       struct mdsk_route_bwd *a)
{
    const struct mds_experts_config *x = &b->c->g->cfg.experts;
    int64_t T = b->c->run->S * (b->c->par.B / a->groups);

    if (mds_groups_rank(b->c->g->groups, MDS_AXIS_TENSOR) > 0)
        return;
    if (balances(b->c)) {
        a->load = load;
        a->balance = (float)((double)b->c->run->grad_scale * x->balance_coeff *
                             (double)x->n / ((double)a->k * (double)T));
    }
    a->z = b->c->run->grad_scale * (float)x->z_coeff;
}

/* For the logs. */
static enum mds_rc report_losses(const struct block_pass *b,
                                 const struct mdsk_route_bwd *bwd, const float *load)
{
    double *sums = b->c->run->router_losses;
    struct mdsk_route_losses a = {.R = bwd->R,
                                  .E = bwd->E,
                                  .groups = bwd->groups,
                                  .sigmoid = bwd->sigmoid,
                                  .scores = bwd->scores,
                                  .load = load};

    if (!sums)
        return MDS_OK;
    a.sum = sums + (int64_t)b->id->number * 2;
    return mds_op_route_losses(b->c->par.dev, &a);
}

enum mds_rc mds_gpt_route_bwd(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    const struct mds_experts_config *x = &b->c->g->cfg.experts;
    const struct norm_ids *router = &b->id->mlp.router;
    const struct map m = map_at(b, call->in[1]);
    struct mdsk_route_bwd a = {.R = m.R,
                               .H = b->c->g->cfg.hidden,
                               .E = x->n,
                               .k = m.k,
                               .groups = mds_gpt_load_groups(b->c),
                               .dtype = b->c->par.dtype,
                               .of_all = is_of_all(x),
                               .sigmoid = is_sigmoid(x),
                               .scale = (float)x->scale,
                               .x = call->in[0],
                               .w = mds_gpt_weight(b->c, router->gamma),
                               .scores = call->in[3],
                               .weight = call->in[2],
                               .dweight = call->in[4],
                               .choice = m.choice,
                               .dx = call->out[0],
                               .dlogits = call->out[1],
                               .dw = router->sum_at >= 0
                                         ? b->c->norm_sums + router->sum_at
                                         : mds_gpt_grad(b->c, router->gamma)};

    add_losses(b, call->in[6], &a);
    MDS_TRY(report_losses(b, &a, call->in[6]));
    return mds_op_route_bwd(b->c->par.dev, &a);
}

/* ---- copies ---- */

enum mds_rc mds_gpt_dispatch(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    const struct map m = map_at(b, call->in[1]);
    struct mdsk_dispatch a = {.R = m.R,
                              .H = b->c->g->cfg.hidden,
                              .k = m.k,
                              .dtype = b->c->par.dtype,
                              .from = m.from,
                              .x = call->in[0],
                              .y = call->out[0]};

    return mds_op_dispatch(b->c->par.dev, &a);
}

enum mds_rc mds_gpt_combine(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    const struct map m = map_at(b, call->in[1]);
    struct mdsk_combine a = {.R = m.R,
                             .H = b->c->g->cfg.hidden,
                             .k = m.k,
                             .dtype = b->c->par.dtype,
                             .to = m.to,
                             .x = call->in[0],
                             .y = call->out[0]};

    return mds_op_combine(b->c->par.dev, &a);
}

enum mds_rc mds_gpt_weigh(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    const struct map m = map_at(b, call->in[2]);
    struct mdsk_weigh a = {.kind = b->c->g->cfg.activation,
                           .R = m.R,
                           .F = b->id->mlp.inner,
                           .k = m.k,
                           .dtype = b->c->par.dtype,
                           .from = m.from,
                           .weight = call->in[1],
                           .x = call->in[0],
                           .y = call->out[0]};

    return mds_op_weigh(b->c->par.dev, &a);
}

enum mds_rc mds_gpt_weigh_bwd(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    const struct map m = map_at(b, call->in[2]);
    struct mdsk_weigh_bwd a = {.kind = b->c->g->cfg.activation,
                               .R = m.R,
                               .F = b->id->mlp.inner,
                               .k = m.k,
                               .dtype = b->c->par.dtype,
                               .from = m.from,
                               .weight = call->in[1],
                               .x = call->in[0],
                               .dy = call->in[3],
                               .dx = call->out[0],
                               .dweight = call->out[1]};

    return mds_op_weigh_bwd(b->c->par.dev, &a);
}

/* ---- linear layers ---- */

struct size {
    int64_t in, out;
};

static struct size size_of(const struct block_pass *b, int layer)
{
    int64_t H = b->c->g->cfg.hidden;

    return layer == LAYER_EXPERTS_UP ? (struct size){H, b->id->mlp.wide}
                                     : (struct size){b->id->mlp.inner, H};
}

/* The layer's weights of the first expert, and how many elements on the next one's are:
 * all experts have parameters of the same sizes, one after the other. */
static int first_weight(const struct block_pass *b, int layer, int64_t *step)
{
    const struct expert_ids *id = b->id->mlp.expert;
    const struct mds_params *ps = b->c->g->ps;
    int first = layer == LAYER_EXPERTS_UP ? id[0].up : id[0].down;

    *step = 0;
    if (mds_gpt_experts_here(b->c->g) > 1)
        *step = mds_params_get(ps, layer == LAYER_EXPERTS_UP ? id[1].up : id[1].down)
                    ->offset -
                mds_params_get(ps, first)->offset;
    return first;
}

enum mds_rc mds_gpt_experts_product(const struct block_pass *b, int layer,
                                    struct expert_rows rows, const void *x, void *y)
{
    const struct size l = size_of(b, layer);
    int64_t step;
    int first = first_weight(b, layer, &step);
    struct mdsk_experts_fwd a = {.rows = rows.n,
                                 .E = mds_gpt_experts_here(b->c->g),
                                 .in = l.in,
                                 .out = l.out,
                                 .step = step,
                                 .dtype = b->c->par.dtype,
                                 .by_rows = mds_gpt_generates(b->c),
                                 .first = rows.first,
                                 .w = mds_gpt_weight(b->c, first),
                                 .x = x,
                                 .y = y};

    return mds_op_experts_fwd(b->c->par.dev, &a);
}

enum mds_rc mds_gpt_experts_product_bwd_x(const struct block_pass *b, int layer,
                                          struct expert_rows rows, const void *dy,
                                          void *dx)
{
    const struct size l = size_of(b, layer);
    int64_t step;
    int first = first_weight(b, layer, &step);
    struct mdsk_experts_bwd_input a = {.rows = rows.n,
                                       .E = mds_gpt_experts_here(b->c->g),
                                       .in = l.in,
                                       .out = l.out,
                                       .step = step,
                                       .dtype = b->c->par.dtype,
                                       .first = rows.first,
                                       .w = mds_gpt_weight(b->c, first),
                                       .dy = dy,
                                       .dx = dx};

    return mds_op_experts_bwd_input(b->c->par.dev, &a);
}

enum mds_rc mds_gpt_experts_product_bwd_w(const struct block_pass *b, int layer,
                                          struct expert_rows rows, const void *x,
                                          const void *dy)
{
    const struct size l = size_of(b, layer);
    int64_t step;
    int first = first_weight(b, layer, &step);
    struct mdsk_experts_bwd_weight a = {.rows = rows.n,
                                        .E = mds_gpt_experts_here(b->c->g),
                                        .in = l.in,
                                        .out = l.out,
                                        .step = step,
                                        .dtype = b->c->par.dtype,
                                        .first = rows.first,
                                        .dw = mds_gpt_grad(b->c, first),
                                        .x = x,
                                        .dy = dy};

    for (int e = 0; e < a.E; e++) {
        const struct expert_ids *id = &b->id->mlp.expert[e];

        /* all or none: they are written together */
        a.write = mds_params_test_and_clear_uninit(
            b->c->g->ps, layer == LAYER_EXPERTS_UP ? id->up : id->down, l.in * l.out);
    }
    return mds_op_experts_bwd_weight(b->c->par.dev, &a);
}

static struct expert_rows copies_of(const struct block_pass *b, const int32_t *first)
{
    return (struct expert_rows){mds_par_rows(&b->c->par) * b->c->g->cfg.experts.topk,
                                first};
}

enum mds_rc mds_gpt_experts(void *ctx, const struct mds_block_call *call)
{
    return mds_gpt_experts_product(ctx, call->step->layer, copies_of(ctx, call->in[1]),
                                   call->in[0], call->out[0]);
}

enum mds_rc mds_gpt_experts_bwd_x(void *ctx, const struct mds_block_call *call)
{
    return mds_gpt_experts_product_bwd_x(
        ctx, call->step->layer, copies_of(ctx, call->in[1]), call->in[0], call->out[0]);
}

enum mds_rc mds_gpt_experts_bwd_w(void *ctx, const struct mds_block_call *call)
{
    return mds_gpt_experts_product_bwd_w(
        ctx, call->step->layer, copies_of(ctx, call->in[1]), call->in[0], call->in[2]);
}
