/* The two ends of the model: embedding, and head with loss. */
#include "model/parts.h"
#include "tensor/op.h"

enum mds_rc gpt_embed_fwd(const struct pass *p, float *x)
{
    const struct mds_gpt *g = p->g;
    int has_position = g->position >= 0;
    struct mdsk_embedding_fwd a = {
        .B = p->batch->B,
        .S = p->batch->S,
        .H = g->cfg.hidden,
        .words = g->cfg.padded_vocab,
        .token = p->batch->token,
        .word = mds_param_weight(g->ps, g->word),
        .position = has_position ? mds_param_weight(g->ps, g->position) : NULL,
        .y = x};

    MDS_TRY(mds_params_acquire(g->ps, g->word, 1 + has_position));
    MDS_TRY(mds_op_embedding_fwd(p->run->dev, &a));
    MDS_TRY(gpt_dropout(p, 0, SITE_EMBEDDING, x, x, &x));
    return mds_params_release(g->ps, g->word, 1 + has_position);
}

enum mds_rc gpt_embed_bwd(const struct pass *p, float *d)
{
    const struct mds_gpt *g = p->g;
    int has_position = g->position >= 0;
    struct mdsk_embedding_bwd a = {
        .B = p->batch->B,
        .S = p->batch->S,
        .H = g->cfg.hidden,
        .words = g->cfg.padded_vocab,
        .token = p->batch->token,
        .dword = mds_param_grad(g->ps, g->word),
        .dposition = has_position ? mds_param_grad(g->ps, g->position) : NULL};

    MDS_TRY(gpt_dropout(p, 0, SITE_EMBEDDING, d, d, &d));
    a.dy = d;
    MDS_TRY(mds_op_embedding_bwd(p->run->dev, &a));
    return mds_params_grad_ready(g->ps, g->word, 1 + has_position);
}

/* Working memory of the loss: one tile of logits, and numbers per row of it. */
struct tile {
    int64_t rows;
    float *logits, *max, *sum, *target_logit;
};

static enum mds_rc take_tile(const struct pass *p, struct tile *t)
{
    t->rows = p->run->loss_tile;
    if (t->rows <= 0 || t->rows > p->R)
        t->rows = p->R;
    MDS_TRY(gpt_take(p, MDS_MEM_WORK, t->rows * p->g->cfg.padded_vocab, &t->logits));
    MDS_TRY(gpt_take(p, MDS_MEM_WORK, t->rows, &t->max));
    MDS_TRY(gpt_take(p, MDS_MEM_WORK, t->rows, &t->sum));
    return gpt_take(p, MDS_MEM_WORK, t->rows, &t->target_logit);
}

/* Loss of n rows whose logits are in t; max becomes the log-sum-exp. */
static enum mds_rc tile_loss(const struct pass *p, const struct tile *t, int64_t n,
                             const int32_t *target, struct mds_gpt_loss *loss)
{
    const struct mds_model_config *c = &p->g->cfg;
    struct mdsk_xent_stats s = {.R = n,
                                .words = c->padded_vocab,
                                .valid = c->vocab,
                                .ld = c->padded_vocab,
                                .logits = t->logits,
                                .target = target,
                                .max = t->max,
                                .sum = t->sum,
                                .target_logit = t->target_logit};
    struct mdsk_xent_loss x = {.R = n,
                               .target = target,
                               .max = t->max,
                               .sum = t->sum,
                               .target_logit = t->target_logit,
                               .lse = t->max,
                               .loss_sum = &loss->sum,
                               .count = &loss->count};

    MDS_TRY(mds_op_xent_stats(p->run->dev, &s));
    return mds_op_xent_loss(p->run->dev, &x);
}

static enum mds_rc tile_grad(const struct pass *p, const struct tile *t, int64_t n,
                             const int32_t *target, float grad_scale)
{
    const struct mds_model_config *c = &p->g->cfg;
    struct mdsk_xent_bwd b = {.R = n,
                              .words = c->padded_vocab,
                              .valid = c->vocab,
                              .ld = c->padded_vocab,
                              .logits = t->logits,
                              .target = target,
                              .lse = t->max,
                              .scale = grad_scale};

    return mds_op_xent_bwd(p->run->dev, &b);
}

/* Gradients of n rows' logits: on to the head's weights and to dnf. */
static enum mds_rc tile_head_bwd(const struct pass *p, const struct tile *t, int64_t n,
                                 const float *nf, float *dnf)
{
    const struct mds_gpt *g = p->g;
    int64_t H = g->cfg.hidden, V = g->cfg.padded_vocab;
    struct mdsk_linear_bwd_weight w = {.R = n,
                                       .in = H,
                                       .out = V,
                                       .x = nf,
                                       .dy = t->logits,
                                       .dw = mds_param_grad(g->ps, g->head)};
    struct mdsk_linear_bwd_input i = {.R = n,
                                      .in = H,
                                      .out = V,
                                      .dy = t->logits,
                                      .w = mds_param_weight(g->ps, g->head),
                                      .dx = dnf};

    MDS_TRY(mds_op_linear_bwd_weight(p->run->dev, &w));
    return mds_op_linear_bwd_input(p->run->dev, &i);
}

/* Tile by tile along the rows, so that all logits never exist at once; a tile's
 * gradient replaces its logits. */
static enum mds_rc tiles(const struct pass *p, const float *nf, float grad_scale,
                         struct mds_gpt_loss *loss, float *dnf)
{
    const struct linear_ids head = {.weight = p->g->head,
                                    .bias = -1,
                                    .n = 1,
                                    .in = p->g->cfg.hidden,
                                    .out = p->g->cfg.padded_vocab};
    struct tile t = {0};

    MDS_TRY(take_tile(p, &t));
    for (int64_t at = 0; at < p->R; at += t.rows) {
        int64_t n = p->R - at < t.rows ? p->R - at : t.rows;
        const int32_t *target = p->batch->target + at;

        MDS_TRY(gpt_linear_fwd(p, &head, n, nf + at * head.in, t.logits));
        MDS_TRY(tile_loss(p, &t, n, target, loss));
        if (!dnf)
            continue;
        MDS_TRY(tile_grad(p, &t, n, target, grad_scale));
        MDS_TRY(tile_head_bwd(p, &t, n, nf + at * head.in, dnf + at * head.in));
    }
    return MDS_OK;
}

enum mds_rc gpt_head(const struct pass *p, const float *x, float *r, float grad_scale,
                     struct mds_gpt_loss *loss, float *d)
{
    const struct mds_gpt *g = p->g;
    int64_t n = p->R * g->cfg.hidden;
    struct mds_arena_mark mark = mds_arena_mark(p->run->arena);
    float *nf = NULL, *mean = NULL, *rstd = NULL, *dnf = NULL;

    MDS_TRY(gpt_take(p, MDS_MEM_WORK, n, &nf));
    MDS_TRY(gpt_take(p, MDS_MEM_WORK, p->R, &mean));
    MDS_TRY(gpt_take(p, MDS_MEM_WORK, p->R, &rstd));
    if (d)
        MDS_TRY(gpt_take(p, MDS_MEM_WORK, n, &dnf));
    MDS_TRY(mds_params_acquire(g->ps, g->head, 1));
    MDS_TRY(gpt_norm_fwd(p, &g->final_norm, x, r, r, nf, mean, rstd));
    MDS_TRY(tiles(p, nf, grad_scale, loss, dnf));
    if (d) {
        mds_dev_zero(p->run->dev, d, n * (int64_t)sizeof *d);
        MDS_TRY(gpt_norm_bwd(p, &g->final_norm, r, mean, rstd, dnf, d));
        if (g->head != g->word)
            MDS_TRY(mds_params_grad_ready(g->ps, g->head, 1));
    }
    MDS_TRY(mds_params_release(g->ps, g->head, 1));
    mds_arena_release(p->run->arena, mark);
    return MDS_OK;
}
