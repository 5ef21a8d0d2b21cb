/* Operations as the model's parts call them: parameters by id. */
#include "model/parts.h"
#include "parallel/tensor_parallel.h"
#include "tensor/op.h"

static const void *weight(const struct mds_gpt *g, int id)
{
    return id < 0 ? NULL : mds_param_weight(g->ps, id);
}

static float *grad(const struct mds_gpt *g, int id)
{
    return id < 0 ? NULL : mds_param_grad(g->ps, id);
}

static enum mdsk_norm_kind norm_kind(const struct mds_gpt *g)
{
    return g->cfg.norm == MDS_NORM_LAYERNORM ? MDSK_LAYERNORM : MDSK_RMSNORM;
}

enum mds_rc mds_gpt_norm_fwd(const struct mds_gpt *g, const struct norm_ids *id,
                             const void *x, const void *r, void *sum, void *y,
                             float *mean, float *rstd)
{
    struct mdsk_norm_fwd a = {.kind = norm_kind(g),
                              .R = mds_par_slice_rows(&g->par),
                              .H = g->cfg.hidden,
                              .dtype = g->par.dtype,
                              .eps = (float)g->cfg.norm_eps,
                              .x = x,
                              .r = r,
                              .sum = r ? sum : NULL,
                              .gamma = weight(g, id->gamma),
                              .beta = weight(g, id->beta),
                              .y = y,
                              .mean = mean,
                              .rstd = rstd};

    return mds_op_norm_fwd(g->par.dev, &a);
}

/* ---- gradients of norms ---- */

void mds_gpt_norm_grads_begin(const struct mds_gpt *g)
{
    if (g->norm_grads)
        mds_dev_zero(g->par.dev, g->norm_grads,
                     4 * g->cfg.hidden * (int64_t)sizeof *g->norm_grads);
}

static enum mds_rc add_grad(const struct mds_gpt *g, const float *sum, int id)
{
    struct mdsk_add add = {.n = g->cfg.hidden, .x = sum, .y = grad(g, id)};

    return id < 0 ? MDS_OK : mds_op_add(g->par.dev, &add);
}

static float *norm_grads(const struct mds_gpt *g, const struct norm_ids *id)
{
    return g->norm_grads + 2 * g->cfg.hidden * id->place;
}

enum mds_rc mds_gpt_norm_grads_end(const struct mds_gpt *g,
                                   const struct norm_ids *first,
                                   const struct norm_ids *second)
{
    const struct norm_ids *id[] = {first, second};
    int64_t H = g->cfg.hidden;
    int n = second ? 2 : 1;

    if (!g->norm_grads)
        return MDS_OK;
    MDS_TRY(mds_tp_sum(&g->par, g->norm_grads, 2 * H * n));
    for (int i = 0; i < n; i++) {
        MDS_TRY(add_grad(g, norm_grads(g, id[i]), id[i]->gamma));
        MDS_TRY(add_grad(g, norm_grads(g, id[i]) + H, id[i]->beta));
    }
    return MDS_OK;
}

enum mds_rc mds_gpt_norm_bwd(const struct mds_gpt *g, const struct norm_ids *id,
                             const void *x, const float *mean, const float *rstd,
                             const void *dy, void *dx)
{
    struct mdsk_norm_bwd a = {.kind = norm_kind(g),
                              .R = mds_par_slice_rows(&g->par),
                              .H = g->cfg.hidden,
                              .dtype = g->par.dtype,
                              .x = x,
                              .gamma = weight(g, id->gamma),
                              .mean = mean,
                              .rstd = rstd,
                              .dy = dy,
                              .dx = dx,
                              .dgamma = grad(g, id->gamma),
                              .dbeta = grad(g, id->beta)};

    if (g->norm_grads) {
        a.dgamma = norm_grads(g, id);
        a.dbeta = a.dbeta ? a.dgamma + a.H : NULL;
    }
    return mds_op_norm_bwd(g->par.dev, &a);
}

static struct mdsk_linear_fwd linear_fwd(const struct mds_gpt *g,
                                         const struct linear_ids *id, int64_t R,
                                         const void *x, void *y)
{
    return (struct mdsk_linear_fwd){.R = R,
                                    .in = id->in,
                                    .out = id->out,
                                    .dtype = g->par.dtype,
                                    .x = x,
                                    .w = weight(g, id->weight),
                                    .b = weight(g, id->bias),
                                    .y = y};
}

enum mds_rc mds_gpt_linear_fwd(const struct mds_gpt *g, const struct linear_ids *id,
                               int64_t R, int first_bias, const void *x, void *y)
{
    struct mdsk_linear_fwd a = linear_fwd(g, id, R, x, y);

    if (first_bias && mds_comm_rank(g->groups->tp) > 0)
        a.b = NULL;
    return mds_op_linear_fwd(g->par.dev, &a);
}

enum mds_rc mds_gpt_linear_gelu_fwd(const struct mds_gpt *g,
                                    const struct linear_ids *id, int64_t R,
                                    const void *x, void *y, void *gelu)
{
    struct mdsk_linear_fwd a = linear_fwd(g, id, R, x, y);

    a.gelu = gelu;
    return mds_op_linear_fwd(g->par.dev, &a);
}

enum mds_rc mds_gpt_linear_bwd_weight(const struct mds_gpt *g,
                                      const struct linear_ids *id, int64_t R,
                                      const void *x, const void *dy)
{
    struct mdsk_linear_bwd_weight a = {
        .R = R,
        .in = id->in,
        .out = id->out,
        .dtype = g->par.dtype,
        .write = mds_params_take_blank(g->ps, id->weight, id->in * id->out),
        .x = x,
        .dy = dy,
        .dw = grad(g, id->weight),
        .db = grad(g, id->bias)};

    return mds_op_linear_bwd_weight(g->par.dev, &a);
}

enum mds_rc mds_gpt_linear_bwd_input(const struct mds_gpt *g,
                                     const struct linear_ids *id, int64_t R,
                                     const void *dy, void *dx)
{
    return mds_gpt_linear_gelu_bwd_input(g, id, R, dy, NULL, dx);
}

enum mds_rc mds_gpt_linear_gelu_bwd_input(const struct mds_gpt *g,
                                          const struct linear_ids *id, int64_t R,
                                          const void *dy, const void *u, void *dx)
{
    struct mdsk_linear_bwd_input a = {.R = R,
                                      .in = id->in,
                                      .out = id->out,
                                      .dtype = g->par.dtype,
                                      .dy = dy,
                                      .w = weight(g, id->weight),
                                      .u = u,
                                      .dx = dx};

    return mds_op_linear_bwd_input(g->par.dev, &a);
}

struct mdsk_dropout_key mds_gpt_dropout_key(const struct mds_gpt *g, int layer,
                                            int site, double prob)
{
    return (struct mdsk_dropout_key){.p = g->run.training ? (float)prob : 0,
                                     .seed = (uint64_t)g->run.train->seed,
                                     .site = (uint32_t)(layer * SITES + site),
                                     .step = g->run.step};
}

enum mds_rc mds_gpt_dropout(const struct mds_gpt *g, int layer, int site, const void *x,
                            void *y, void **out)
{
    const struct mds_par *p = &g->par;
    struct mdsk_dropout a = {
        .H = g->cfg.hidden,
        .dtype = p->dtype,
        .key = mds_gpt_dropout_key(g, layer, site, g->cfg.hidden_dropout)};
    int64_t row = 0;

    *out = (void *)x;
    if (!(a.key.p > 0))
        return MDS_OK;
    *out = y;
    for (int i = 0; i < p->slice.runs; i++) {
        a.rows = (struct mdsk_rows){p->B, p->slice.run[i].n, p->first_sample,
                                    p->slice.run[i].first};
        a.x = mds_par_at(p, x, row * a.H);
        a.y = mds_par_at(p, y, row * a.H);
        MDS_TRY(mds_op_dropout(p->dev, &a));
        row += p->slice.run[i].n * p->B;
    }
    return MDS_OK;
}
