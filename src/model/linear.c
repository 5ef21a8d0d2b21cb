/* SPDX-License-Identifier: BSD-3-Clause */
/* Linear layers; several with the same input are computed as one GEMM. */
#include "model/modules.h"
#include "tensor/op.h"

#include <stdio.h>

struct linear_ids mds_gpt_add_weights(struct registrar *reg, const char *layer,
                                      const struct linears *l)
{
    int tp = mds_groups_size(reg->g->groups, MDS_AXIS_TENSOR);
    struct linear_ids id = {.weight = -1, .bias = -1, .fp8 = reg->fp8};
    char full[48];

    id.fp8_wgrad = reg->fp8 && reg->g->cfg.fp8.wgrad;
    id.in = l->shard == MDS_SHARD_COLS ? l->in / tp : l->in;
    for (int i = 0; i < l->n; i++) {
        int w;

        snprintf(full, sizeof full, "%s.%s", layer, l->name[i]);
        w = mds_gpt_add_matrix(reg, full, l->out[i], l->in, l->shard, l->std, i > 0, 1);
        if (i == 0)
            id.weight = w;
        id.out += l->shard == MDS_SHARD_ROWS ? l->out[i] / tp : l->out[i];
    }
    return id;
}

int mds_gpt_add_biases(struct registrar *reg, const char *layer,
                       const struct linears *l)
{
    enum mds_shard s = l->shard == MDS_SHARD_ROWS ? l->shard : MDS_SHARD_NONE;
    int first = -1;
    char full[48];

    for (int i = 0; i < l->n && l->bias; i++) {
        int b;

        snprintf(full, sizeof full, "%s.%s", layer, l->name[i]);
        b = mds_gpt_add_vector(reg, full, "bias", l->out[i], MDS_INIT_ZERO, s, i > 0);
        if (i == 0)
            first = b;
    }
    return first;
}

static const void *weight_of(const struct context *c, const struct linear_ids *id)
{
    return id->part ? id->part->w : mds_gpt_weight(c, id->weight);
}

static struct mdsk_linear_fwd linear_fwd(const struct context *c,
                                         const struct linear_ids *id, int64_t R,
                                         struct linear_input in, void *y)
{
    return (struct mdsk_linear_fwd){.R = R,
                                    .in = id->in,
                                    .out = id->out,
                                    .dtype = c->par.dtype,
                                    .by_rows = mds_gpt_generates(c),
                                    .x = in.x,
                                    .w = weight_of(c, id),
                                    .b = id->part ? id->part->b
                                                  : mds_gpt_weight(c, id->bias),
                                    .y = y};
}

enum mds_rc mds_gpt_linear_fwd(const struct context *c, const struct linear_ids *id,
                               int64_t R, int first_bias, struct linear_input in,
                               void *y)
{
    struct mdsk_linear_fwd a = linear_fwd(c, id, R, in, y);

    if (first_bias && mds_groups_rank(c->g->groups, MDS_AXIS_TENSOR) > 0)
        a.b = NULL;
    return id->fp8 ? mds_gpt_fp8_linear_fwd(c, id, &a, &in)
                   : mds_op_linear_fwd(c->par.dev, &a);
}

enum mds_rc mds_gpt_linear_gelu_fwd(const struct context *c,
                                    const struct linear_ids *id, int64_t R,
                                    struct linear_input in, void *y, void *gelu)
{
    struct mdsk_linear_fwd a = linear_fwd(c, id, R, in, y);

    a.gelu = gelu;
    return mds_op_linear_fwd(c->par.dev, &a);
}

/* Whether the weight's gradient was not written yet; from now on it counts as written.
 */
static int take_uninit(const struct context *c, const struct linear_ids *id)
{
    int uninit;

    if (!id->part)
        return mds_params_test_and_clear_uninit(c->g->ps, id->weight, id->in * id->out);
    uninit = id->part->uninit;
    id->part->uninit = 0;
    return uninit;
}

static float *bias_grad(const struct context *c, const struct linear_ids *id)
{
    return id->part ? id->part->db : mds_gpt_grad(c, id->bias);
}

enum mds_rc mds_gpt_linear_bwd_weight(const struct context *c,
                                      const struct linear_ids *id, int64_t R,
                                      struct linear_input in,
                                      const struct linear_grad *dy)
{
    const struct linear_part *part = id->part;
    struct mdsk_linear_bwd_weight a = {.R = R,
                                       .in = id->in,
                                       .out = id->out,
                                       .dtype = c->par.dtype,
                                       .write = take_uninit(c, id),
                                       .x = in.x,
                                       .dy = dy->dy,
                                       .dw = part ? part->dw
                                                  : mds_gpt_grad(c, id->weight),
                                       .db = bias_grad(c, id)};

    return id->fp8_wgrad ? mds_gpt_fp8_linear_bwd_weight(c, &a, &in, dy)
                         : mds_op_linear_bwd_weight(c->par.dev, &a);
}

enum mds_rc mds_gpt_linear_bwd_input(const struct context *c,
                                     const struct linear_ids *id, int64_t R,
                                     const struct linear_grad *dy, void *dx)
{
    return mds_gpt_linear_gelu_bwd_input(c, id, R, dy, NULL, dx);
}

enum mds_rc mds_gpt_linear_gelu_bwd_input(const struct context *c,
                                          const struct linear_ids *id, int64_t R,
                                          const struct linear_grad *dy, const void *u,
                                          void *dx)
{
    struct mdsk_linear_bwd_input a = {.R = R,
                                      .in = id->in,
                                      .out = id->out,
                                      .dtype = c->par.dtype,
                                      .dy = dy->dy,
                                      .w = weight_of(c, id),
                                      .u = u,
                                      .dx = dx};

    return id->fp8 ? mds_gpt_fp8_linear_bwd_input(c, id, &a, dy)
                   : mds_op_linear_bwd_input(c->par.dev, &a);
}
