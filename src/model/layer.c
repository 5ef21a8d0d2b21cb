/* One transformer block: forward, and forward again where it was not kept. */
#include "model/parts.h"
#include "tensor/op.h"

#include <math.h>

static int64_t qkv_size(const struct mds_model_config *c)
{
    return (c->heads + 2 * c->kv_heads) * c->head_dim;
}

/* What to take: a place for the address, and how many elements. */
struct want {
    float **where;
    int64_t elements;
};

static enum mds_rc take_all(const struct pass *p, enum mds_mem_tag tag,
                            const struct want *w, int n)
{
    for (int i = 0; i < n; i++)
        MDS_TRY(gpt_take(p, tag, w[i].elements, w[i].where));
    return MDS_OK;
}

enum mds_rc gpt_layer_take(const struct pass *p, enum mds_mem_tag tag,
                           struct layer_saved *s)
{
    const struct mds_model_config *c = &p->g->cfg;
    int64_t R = p->R, H = c->hidden, F = c->ffn_hidden;
    const struct want all[] = {
        {&s->x, R * H},
        {&s->mean1, R},
        {&s->rstd1, R},
        {&s->n1, R * H},
        {&s->qkv, R * qkv_size(c)},
        {&s->o, R * c->heads * c->head_dim},
        {&s->lse, R * c->heads},
        {&s->x1, R * H},
        {&s->mean2, R},
        {&s->rstd2, R},
        {&s->n2, R * H},
        {&s->u, R * (c->swiglu ? 2 * F : F)},
        {&s->g, R * F},
    };

    return take_all(p, tag, all, sizeof all / sizeof all[0]);
}

enum mds_rc gpt_layer_take_kept(const struct pass *p, struct layer_saved *s)
{
    const struct mds_model_config *c = &p->g->cfg;
    const struct want kept[] = {
        {&s->x, p->R * c->hidden},
        {&s->o, p->R * c->heads * c->head_dim},
        {&s->lse, p->R * c->heads},
    };

    if (p->run->recompute == MDS_RECOMPUTE_NONE)
        return gpt_layer_take(p, MDS_MEM_ACT, s);
    return take_all(p, MDS_MEM_CKPT, kept,
                    p->run->recompute == MDS_RECOMPUTE_SELECTIVE ? 3 : 1);
}

/* data seen as heads of one packed [R, (A+2G)D] matrix, from head `first` on */
static struct mdsk_heads packed_heads(const struct pass *p, float *data, int64_t first)
{
    const struct mds_model_config *c = &p->g->cfg;
    int64_t row = qkv_size(c);

    return (struct mdsk_heads){.data = data + first * c->head_dim,
                               .batch_stride = p->batch->S * row,
                               .token_stride = row,
                               .head_stride = c->head_dim};
}

/* data [R, A*D] */
static struct mdsk_heads plain_heads(const struct pass *p, float *data)
{
    const struct mds_model_config *c = &p->g->cfg;
    int64_t row = c->heads * c->head_dim;

    return (struct mdsk_heads){.data = data,
                               .batch_stride = p->batch->S * row,
                               .token_stride = row,
                               .head_stride = c->head_dim};
}

static struct mdsk_attention_shape attention_shape(const struct pass *p, int l)
{
    const struct mds_model_config *c = &p->g->cfg;

    return (struct mdsk_attention_shape){
        .B = p->batch->B,
        .A = c->heads,
        .G = c->kv_heads,
        .Sq = p->batch->S,
        .Sk = p->batch->S,
        .D = c->head_dim,
        .scale = (float)(1.0 / sqrt((double)c->head_dim)),
        .dropout = gpt_dropout_key(p, l, SITE_ATTENTION, c->attention_dropout),
        .first_sample = p->batch->first_sample};
}

/* Queries and keys lie side by side, so one call turns both. */
static enum mds_rc rotate(const struct pass *p, float *qkv, int inverse)
{
    const struct mds_model_config *c = &p->g->cfg;
    struct mdsk_rope a = {.B = p->batch->B,
                          .S = p->batch->S,
                          .A = c->heads + c->kv_heads,
                          .D = c->head_dim,
                          .rot = (int64_t)((double)c->head_dim * c->rotary_percent),
                          .theta = c->rotary_base,
                          .inverse = inverse,
                          .x = packed_heads(p, qkv, 0)};

    if (c->position != MDS_POSITION_ROPE)
        return MDS_OK;
    return mds_op_rope(p->run->dev, &a);
}

static enum mds_rc attention_fwd(const struct pass *p, int l,
                                 const struct layer_saved *s)
{
    const struct mds_model_config *c = &p->g->cfg;
    struct mdsk_attention_fwd a = {.shape = attention_shape(p, l),
                                   .q = packed_heads(p, s->qkv, 0),
                                   .k = packed_heads(p, s->qkv, c->heads),
                                   .v = packed_heads(p, s->qkv, c->heads + c->kv_heads),
                                   .o = plain_heads(p, s->o),
                                   .lse = s->lse};

    return mds_op_attention_fwd(p->run->dev, &a);
}

static enum mds_rc activation_fwd(const struct pass *p, const struct layer_saved *s)
{
    struct mdsk_activation_fwd a = {.kind = p->g->cfg.swiglu ? MDSK_SWIGLU : MDSK_GELU,
                                    .R = p->R,
                                    .F = p->g->cfg.ffn_hidden,
                                    .x = s->u,
                                    .y = s->g};

    return mds_op_activation_fwd(p->run->dev, &a);
}

/* Norm, q, k, v and their rotation. */
static enum mds_rc enter(const struct pass *p, int l, const float *x, const float *r,
                         const struct layer_saved *s)
{
    const struct layer_ids *id = &p->g->layer[l];

    MDS_TRY(gpt_norm_fwd(p, &id->norm1, x, r, s->x, s->n1, s->mean1, s->rstd1));
    MDS_TRY(gpt_linear_fwd(p, &id->qkv, p->R, s->n1, s->qkv));
    return rotate(p, s->qkv, 0);
}

/* From the attention's output up to the MLP's inner activation. */
static enum mds_rc middle(const struct pass *p, int l, const struct layer_saved *s)
{
    const struct layer_ids *id = &p->g->layer[l];
    struct mds_arena_mark mark = mds_arena_mark(p->run->arena);
    float *branch = NULL;

    MDS_TRY(gpt_take(p, MDS_MEM_WORK, p->R * p->g->cfg.hidden, &branch));
    MDS_TRY(gpt_linear_fwd(p, &id->out, p->R, s->o, branch));
    MDS_TRY(gpt_dropout(p, l, SITE_OUT, branch, branch, &branch));
    MDS_TRY(
        gpt_norm_fwd(p, &id->norm2, s->x, branch, s->x1, s->n2, s->mean2, s->rstd2));
    mds_arena_release(p->run->arena, mark);
    MDS_TRY(gpt_linear_fwd(p, &id->up, p->R, s->n2, s->u));
    return activation_fwd(p, s);
}

enum mds_rc gpt_layer_fwd(const struct pass *p, int l, const float *x, const float *r,
                          const struct layer_saved *s, float *m)
{
    const struct layer_ids *id = &p->g->layer[l];

    MDS_TRY(mds_params_acquire(p->g->ps, id->first, id->n));
    MDS_TRY(enter(p, l, x, r, s));
    MDS_TRY(attention_fwd(p, l, s));
    MDS_TRY(middle(p, l, s));
    MDS_TRY(gpt_linear_fwd(p, &id->down, p->R, s->g, m));
    MDS_TRY(gpt_dropout(p, l, SITE_MLP, m, m, &m));
    return mds_params_release(p->g->ps, id->first, id->n);
}

enum mds_rc gpt_layer_recompute(const struct pass *p, int l,
                                const struct layer_saved *s)
{
    if (p->run->recompute == MDS_RECOMPUTE_NONE)
        return MDS_OK;
    MDS_TRY(enter(p, l, s->x, NULL, s));
    if (p->run->recompute == MDS_RECOMPUTE_FULL)
        MDS_TRY(attention_fwd(p, l, s));
    return middle(p, l, s);
}

static enum mds_rc attention_bwd(const struct pass *p, int l,
                                 const struct layer_saved *s, float *d_o, float *dqkv,
                                 float *delta)
{
    const struct mds_model_config *c = &p->g->cfg;
    struct mdsk_attention_bwd a = {.shape = attention_shape(p, l),
                                   .q = packed_heads(p, s->qkv, 0),
                                   .k = packed_heads(p, s->qkv, c->heads),
                                   .v = packed_heads(p, s->qkv, c->heads + c->kv_heads),
                                   .o = plain_heads(p, s->o),
                                   .d_o = plain_heads(p, d_o),
                                   .dq = packed_heads(p, dqkv, 0),
                                   .dk = packed_heads(p, dqkv, c->heads),
                                   .dv = packed_heads(p, dqkv, c->heads + c->kv_heads),
                                   .lse = s->lse,
                                   .delta = delta};

    return mds_op_attention_bwd(p->run->dev, &a);
}

/* The gradient of inner activations takes the place of what they were computed from. */
static enum mds_rc activation_bwd(const struct pass *p, const struct layer_saved *s,
                                  const float *dg)
{
    struct mdsk_activation_bwd a = {.kind = p->g->cfg.swiglu ? MDSK_SWIGLU : MDSK_GELU,
                                    .R = p->R,
                                    .F = p->g->cfg.ffn_hidden,
                                    .x = s->u,
                                    .dy = dg,
                                    .dx = s->u};

    return mds_op_activation_bwd(p->run->dev, &a);
}

static enum mds_rc mlp_bwd(const struct pass *p, int l, const struct layer_saved *s,
                           float *d)
{
    const struct layer_ids *id = &p->g->layer[l];
    int64_t H = p->g->cfg.hidden;
    float *dm = NULL, *dn = NULL, *dg = NULL;

    MDS_TRY(gpt_take(p, MDS_MEM_WORK, p->R * H, &dn));
    MDS_TRY(gpt_take(p, MDS_MEM_WORK, p->R * p->g->cfg.ffn_hidden, &dg));
    MDS_TRY(gpt_dropout(p, l, SITE_MLP, d, dn, &dm));
    MDS_TRY(gpt_linear_bwd(p, &id->down, p->R, s->g, dm, dg));
    MDS_TRY(activation_bwd(p, s, dg));
    MDS_TRY(gpt_linear_bwd(p, &id->up, p->R, s->n2, s->u, dn));
    return gpt_norm_bwd(p, &id->norm2, s->x1, s->mean2, s->rstd2, dn, d);
}

static enum mds_rc self_attention_bwd(const struct pass *p, int l,
                                      const struct layer_saved *s, float *d)
{
    const struct mds_model_config *c = &p->g->cfg;
    const struct layer_ids *id = &p->g->layer[l];
    float *da = NULL, *dn = NULL, *d_o = NULL, *dqkv = NULL, *delta = NULL;

    MDS_TRY(gpt_take(p, MDS_MEM_WORK, p->R * c->hidden, &dn));
    MDS_TRY(gpt_take(p, MDS_MEM_WORK, p->R * c->heads * c->head_dim, &d_o));
    MDS_TRY(gpt_take(p, MDS_MEM_WORK, p->R * qkv_size(c), &dqkv));
    MDS_TRY(gpt_take(p, MDS_MEM_WORK, p->R * c->heads, &delta));
    MDS_TRY(gpt_dropout(p, l, SITE_OUT, d, dn, &da));
    MDS_TRY(gpt_linear_bwd(p, &id->out, p->R, s->o, da, d_o));
    MDS_TRY(attention_bwd(p, l, s, d_o, dqkv, delta));
    MDS_TRY(rotate(p, dqkv, 1));
    MDS_TRY(gpt_linear_bwd(p, &id->qkv, p->R, s->n1, dqkv, dn));
    return gpt_norm_bwd(p, &id->norm1, s->x, s->mean1, s->rstd1, dn, d);
}

enum mds_rc gpt_layer_bwd(const struct pass *p, int l, const struct layer_saved *s,
                          float *d)
{
    const struct layer_ids *id = &p->g->layer[l];
    struct mds_arena_mark mark = mds_arena_mark(p->run->arena);

    MDS_TRY(mds_params_acquire(p->g->ps, id->first, id->n));
    MDS_TRY(gpt_layer_recompute(p, l, s));
    MDS_TRY(mlp_bwd(p, l, s, d));
    mds_arena_release(p->run->arena, mark);
    MDS_TRY(self_attention_bwd(p, l, s, d));
    mds_arena_release(p->run->arena, mark);
    return mds_params_release(p->g->ps, id->first, id->n);
}
