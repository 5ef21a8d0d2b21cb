/* SPDX-License-Identifier: BSD-3-Clause */
/* LayerNorm and RMSNorm, with the residual sum before them. */
#include "model/modules.h"

#include "base/minmax.h"
#include "tensor/op.h"

#include <stdio.h>

unsigned mds_gpt_residual_partial(const struct mds_gpt *g)
{
    return g->sequence_parallel ? MDS_AXIS_TENSOR : 0;
}

struct norm_ids mds_gpt_add_summed(struct registrar *reg, struct mds_param_spec *s,
                                   int64_t size)
{
    struct norm_ids id = {.beta = -1, .size = size, .sum_at = -1};
    int sums = s->partial != 0; /* registering adds axes */

    id.gamma = mds_gpt_add_param(reg, s);
    if (!sums)
        return id;
    id.sum_at = reg->norm_sums;
    reg->norm_sums += 2 * size;
    reg->g->norm_sums = mds_max(reg->g->norm_sums, reg->norm_sums);
    return id;
}

struct norm_ids mds_gpt_add_norm(struct registrar *reg, const char *name, int64_t size,
                                 unsigned partial)
{
    struct mds_param_spec s = {.rows = size, .init = MDS_INIT_ONE, .partial = partial};
    struct norm_ids id;

    snprintf(s.name, sizeof s.name, "%s.gamma", name);
    id = mds_gpt_add_summed(reg, &s, size);
    if (reg->g->cfg.norm == MDS_NORM_LAYERNORM) {
        s.init = MDS_INIT_ZERO;
        s.partial = partial;
        snprintf(s.name, sizeof s.name, "%s.beta", name);
        id.beta = mds_gpt_add_param(reg, &s);
    }
    return id;
}

static enum mdsk_norm_kind norm_kind(const struct context *c)
{
    return c->g->cfg.norm == MDS_NORM_LAYERNORM ? MDSK_LAYERNORM : MDSK_RMSNORM;
}

static struct mdsk_norm_fwd norm_fwd(const struct context *c, const struct norm_ids *id,
                                     int64_t R, const void *x, void *y, float *mean,
                                     float *rstd)
{
    return (struct mdsk_norm_fwd){.kind = norm_kind(c),
                                  .R = R,
                                  .H = id->size,
                                  .dtype = c->par.dtype,
                                  .eps = (float)c->g->cfg.norm_eps,
                                  .x = x,
                                  .gamma = mds_gpt_weight(c, id->gamma),
                                  .beta = mds_gpt_weight(c, id->beta),
                                  .y = y,
                                  .mean = mean,
                                  .rstd = rstd};
}

enum mds_rc mds_gpt_norm_fwd(const struct context *c, const struct norm_ids *id,
                             int64_t R, const void *x, const void *r, void *sum,
                             void *y, float *mean, float *rstd, uint32_t *amax)
{
    struct mdsk_norm_fwd a = norm_fwd(c, id, R, x, y, mean, rstd);

    a.r = r;
    a.sum = r ? sum : NULL;
    a.amax = amax;
    return mds_op_norm_fwd(c->par.dev, &a);
}

enum mds_rc mds_gpt_norm_part_fwd(const struct context *c, const struct norm_ids *id,
                                  int64_t R, const void *x, void *y, float *mean,
                                  float *rstd, const struct mdsk_norm_part *part)
{
    struct mdsk_norm_fwd a = norm_fwd(c, id, R, x, y, mean, rstd);

    a.part = *part;
    return mds_op_norm_fwd(c->par.dev, &a);
}

/* ---- gradients ---- */

void mds_gpt_norm_grads_begin(const struct context *c)
{
    if (c->norm_sums)
        mds_dev_zero(c->par.dev, c->norm_sums,
                     c->g->norm_sums * (int64_t)sizeof *c->norm_sums);
}

static enum mds_rc add_grad(const struct context *c, int64_t n, const float *sum,
                            int id)
{
    struct mdsk_add add = {.n = n, .x = sum, .y = mds_gpt_grad(c, id)};

    return id < 0 ? MDS_OK : mds_op_add(c->par.dev, &add);
}

enum mds_rc mds_gpt_norm_grads_end(const struct context *c, int n,
                                   const struct norm_ids *const *id)
{
    unsigned axes = 0; /* the same for all norms in this list */
    int64_t all = 0;

    for (int i = 0; i < n; i++) {
        if (id[i]->sum_at < 0)
            continue;
        axes = mds_params_early_axes(c->g->ps, id[i]->gamma);
        all += 2 * id[i]->size;
    }
    if (all == 0)
        return MDS_OK;
    MDS_TRY(mds_par_sum(&c->par, axes, c->norm_sums, all));
    for (int i = 0; i < n; i++) {
        const float *sum = c->norm_sums + id[i]->sum_at;

        if (id[i]->sum_at < 0)
            continue;
        MDS_TRY(add_grad(c, id[i]->size, sum, id[i]->gamma));
        MDS_TRY(add_grad(c, id[i]->size, sum + id[i]->size, id[i]->beta));
    }
    return MDS_OK;
}

static struct mdsk_norm_bwd norm_bwd(const struct context *c, const struct norm_ids *id,
                                     int64_t R, const void *x, const float *mean,
                                     const float *rstd, const void *dy, void *dx)
{
    struct mdsk_norm_bwd a = {.kind = norm_kind(c),
                              .R = R,
                              .H = id->size,
                              .dtype = c->par.dtype,
                              .x = x,
                              .gamma = mds_gpt_weight(c, id->gamma),
                              .mean = mean,
                              .rstd = rstd,
                              .dy = dy,
                              .dx = dx,
                              .dgamma = mds_gpt_grad(c, id->gamma),
                              .dbeta = mds_gpt_grad(c, id->beta)};

    if (id->sum_at >= 0) {
        a.dgamma = c->norm_sums + id->sum_at;
        a.dbeta = a.dbeta ? a.dgamma + id->size : NULL;
    }
    return a;
}

enum mds_rc mds_gpt_norm_bwd(const struct context *c, const struct norm_ids *id,
                             int64_t R, const void *x, const float *mean,
                             const float *rstd, const void *dy, const void *d, void *dx)
{
    struct mdsk_norm_bwd a = norm_bwd(c, id, R, x, mean, rstd, dy, dx);

    a.d = d;
    return mds_op_norm_bwd(c->par.dev, &a);
}

enum mds_rc mds_gpt_norm_part_bwd(const struct context *c, const struct norm_ids *id,
                                  int64_t R, const void *x, const float *mean,
                                  const float *rstd, const void *dy, void *dx,
                                  const struct mdsk_norm_part *part)
{
    struct mdsk_norm_bwd a = norm_bwd(c, id, R, x, mean, rstd, dy, dx);

    a.part = *part;
    return mds_op_norm_bwd(c->par.dev, &a);
}
