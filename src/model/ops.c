/* Operations as the model's parts call them: parameters by id. */
#include "model/parts.h"
#include "tensor/op.h"

enum mds_rc gpt_take(const struct pass *p, enum mds_mem_tag tag, int64_t elements,
                     float **out)
{
    void *at = NULL;

    MDS_TRY(mds_arena_take(p->run->arena, tag, elements * (int64_t)sizeof **out, &at));
    *out = at;
    return MDS_OK;
}

static enum mdsk_norm_kind norm_kind(const struct pass *p)
{
    return p->g->cfg.norm == MDS_NORM_LAYERNORM ? MDSK_LAYERNORM : MDSK_RMSNORM;
}

static const float *weight(const struct pass *p, int id)
{
    return id < 0 ? NULL : mds_param_weight(p->g->ps, id);
}

static float *grad(const struct pass *p, int id)
{
    return id < 0 ? NULL : mds_param_grad(p->g->ps, id);
}

enum mds_rc gpt_norm_fwd(const struct pass *p, const struct norm_ids *id,
                         const float *x, const float *r, float *sum, float *y,
                         float *mean, float *rstd)
{
    struct mdsk_norm_fwd a = {.kind = norm_kind(p),
                              .R = p->R,
                              .H = p->g->cfg.hidden,
                              .eps = (float)p->g->cfg.norm_eps,
                              .x = x,
                              .r = r,
                              .sum = r ? sum : NULL,
                              .gamma = weight(p, id->gamma),
                              .beta = weight(p, id->beta),
                              .y = y,
                              .mean = mean,
                              .rstd = rstd};

    return mds_op_norm_fwd(p->run->dev, &a);
}

enum mds_rc gpt_norm_bwd(const struct pass *p, const struct norm_ids *id,
                         const float *x, const float *mean, const float *rstd,
                         const float *dy, float *dx)
{
    struct mdsk_norm_bwd a = {.kind = norm_kind(p),
                              .R = p->R,
                              .H = p->g->cfg.hidden,
                              .x = x,
                              .gamma = weight(p, id->gamma),
                              .mean = mean,
                              .rstd = rstd,
                              .dy = dy,
                              .dx = dx,
                              .dgamma = grad(p, id->gamma),
                              .dbeta = grad(p, id->beta)};

    MDS_TRY(mds_op_norm_bwd(p->run->dev, &a));
    return mds_params_grad_ready(p->g->ps, id->gamma, id->beta < 0 ? 1 : 2);
}

enum mds_rc gpt_linear_fwd(const struct pass *p, const struct linear_ids *id, int64_t R,
                           const float *x, float *y)
{
    struct mdsk_linear_fwd a = {.R = R,
                                .in = id->in,
                                .out = id->out,
                                .x = x,
                                .w = weight(p, id->weight),
                                .b = weight(p, id->bias),
                                .y = y};

    return mds_op_linear_fwd(p->run->dev, &a);
}

enum mds_rc gpt_linear_bwd(const struct pass *p, const struct linear_ids *id, int64_t R,
                           const float *x, const float *dy, float *dx)
{
    struct mdsk_linear_bwd_weight w = {.R = R,
                                       .in = id->in,
                                       .out = id->out,
                                       .x = x,
                                       .dy = dy,
                                       .dw = grad(p, id->weight),
                                       .db = grad(p, id->bias)};
    struct mdsk_linear_bwd_input i = {.R = R,
                                      .in = id->in,
                                      .out = id->out,
                                      .dy = dy,
                                      .w = weight(p, id->weight),
                                      .dx = dx};

    MDS_TRY(mds_op_linear_bwd_weight(p->run->dev, &w));
    MDS_TRY(mds_op_linear_bwd_input(p->run->dev, &i));
    MDS_TRY(mds_params_grad_ready(p->g->ps, id->weight, id->n));
    if (id->bias < 0)
        return MDS_OK;
    return mds_params_grad_ready(p->g->ps, id->bias, id->n);
}

struct mdsk_dropout_key gpt_dropout_key(const struct pass *p, int l, int site,
                                        double prob)
{
    return (struct mdsk_dropout_key){.p = p->training ? (float)prob : 0,
                                     .seed = p->run->seed,
                                     .site = (uint32_t)(l * SITES + site),
                                     .step = p->run->step};
}

enum mds_rc gpt_dropout(const struct pass *p, int l, int site, float *x, float *y,
                        float **out)
{
    struct mdsk_dropout a = {.rows = {.B = p->batch->B,
                                      .S = p->batch->S,
                                      .first_sample = p->batch->first_sample},
                             .H = p->g->cfg.hidden,
                             .key =
                                 gpt_dropout_key(p, l, site, p->g->cfg.hidden_dropout),
                             .x = x,
                             .y = y};

    *out = x;
    if (!(a.key.p > 0))
        return MDS_OK;
    *out = y;
    return mds_op_dropout(p->run->dev, &a);
}
