/* SPDX-License-Identifier: BSD-3-Clause */
/* LayerNorm and RMSNorm, with the residual sum before them. */
#include "model/modules.h"
#include "tensor/op.h"

#include <stdio.h>

/* With sequence parallelism each tensor rank norms its slice of the rows. */
struct norm_ids mds_gpt_add_norm(struct registrar *reg, const char *name, int place)
{
    const struct mds_gpt *g = reg->g;
    struct norm_ids id = {-1, -1, place};
    struct mds_param_spec s = {.rows = g->cfg.hidden,
                               .init = MDS_INIT_ONE,
                               .partial = g->sequence_parallel ? MDS_AXIS_TENSOR : 0};

    snprintf(s.name, sizeof s.name, "%s.gamma", name);
    id.gamma = mds_gpt_add_param(reg, &s);
    if (g->cfg.norm == MDS_NORM_LAYERNORM) {
        s.init = MDS_INIT_ZERO;
        snprintf(s.name, sizeof s.name, "%s.beta", name);
        id.beta = mds_gpt_add_param(reg, &s);
    }
    return id;
}

static enum mdsk_norm_kind norm_kind(const struct context *c)
{
    return c->g->cfg.norm == MDS_NORM_LAYERNORM ? MDSK_LAYERNORM : MDSK_RMSNORM;
}

enum mds_rc mds_gpt_norm_fwd(const struct context *c, const struct norm_ids *id,
                             const void *x, const void *r, void *sum, void *y,
                             float *mean, float *rstd)
{
    struct mdsk_norm_fwd a = {.kind = norm_kind(c),
                              .R = mds_par_slice_rows(&c->par),
                              .H = c->g->cfg.hidden,
                              .dtype = c->par.dtype,
                              .eps = (float)c->g->cfg.norm_eps,
                              .x = x,
                              .r = r,
                              .sum = r ? sum : NULL,
                              .gamma = mds_gpt_weight(c, id->gamma),
                              .beta = mds_gpt_weight(c, id->beta),
                              .y = y,
                              .mean = mean,
                              .rstd = rstd};

    return mds_op_norm_fwd(c->par.dev, &a);
}

/* ---- gradients of norms ---- */

void mds_gpt_norm_grads_begin(const struct context *c)
{
    if (c->norm_grads)
        mds_dev_zero(c->par.dev, c->norm_grads,
                     4 * c->g->cfg.hidden * (int64_t)sizeof *c->norm_grads);
}

static enum mds_rc add_grad(const struct context *c, const float *sum, int id)
{
    struct mdsk_add add = {.n = c->g->cfg.hidden, .x = sum, .y = mds_gpt_grad(c, id)};

    return id < 0 ? MDS_OK : mds_op_add(c->par.dev, &add);
}

static float *norm_grads(const struct context *c, const struct norm_ids *id)
{
    return c->norm_grads + 2 * c->g->cfg.hidden * id->place;
}

enum mds_rc mds_gpt_norm_grads_end(const struct context *c,
                                   const struct norm_ids *first,
                                   const struct norm_ids *second)
{
    const struct norm_ids *id[] = {first, second};
    int64_t H = c->g->cfg.hidden;
    int n = second ? 2 : 1;

    if (!c->norm_grads)
        return MDS_OK;
    MDS_TRY(mds_par_sum(&c->par, mds_params_early_axes(c->g->ps, first->gamma),
                        c->norm_grads, 2 * H * n));
    for (int i = 0; i < n; i++) {
        MDS_TRY(add_grad(c, norm_grads(c, id[i]), id[i]->gamma));
        MDS_TRY(add_grad(c, norm_grads(c, id[i]) + H, id[i]->beta));
    }
    return MDS_OK;
}

enum mds_rc mds_gpt_norm_bwd(const struct context *c, const struct norm_ids *id,
                             const void *x, const float *mean, const float *rstd,
                             const void *dy, void *dx)
{
    struct mdsk_norm_bwd a = {.kind = norm_kind(c),
                              .R = mds_par_slice_rows(&c->par),
                              .H = c->g->cfg.hidden,
                              .dtype = c->par.dtype,
                              .x = x,
                              .gamma = mds_gpt_weight(c, id->gamma),
                              .mean = mean,
                              .rstd = rstd,
                              .dy = dy,
                              .dx = dx,
                              .dgamma = mds_gpt_grad(c, id->gamma),
                              .dbeta = mds_gpt_grad(c, id->beta)};

    if (c->norm_grads) {
        a.dgamma = norm_grads(c, id);
        a.dbeta = a.dbeta ? a.dgamma + a.H : NULL;
    }
    return mds_op_norm_bwd(c->par.dev, &a);
}
