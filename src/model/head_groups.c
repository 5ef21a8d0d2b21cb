/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention for one group of heads at a time (--attention-head-groups): Ghadia et al.
 * 2026, arXiv:2602.21196.  Buffers of q, k, v and their gradients hold one group only.
 * A group's rows of the three weights are copied next to each other, so that q, k and v
 * of the group are one GEMM.  Weight gradients of the group are summed in a buffer and
 * added to the weights' gradients when the group is closed. */
#include "model/lists.h"

#include "tensor/op.h"

/* Where a group's outputs of q, k or v are: n outputs that begin at `at` in the whole
 * weight and at `own` in the group's copy. */
struct outputs {
    int64_t at, n, own;
};

static void group_outputs(const struct context *c, struct outputs part[3])
{
    const struct mds_model_config *m = &c->g->cfg;
    int64_t A = mds_gpt_heads(c, m->heads) * m->head_dim;
    int64_t G = mds_gpt_heads(c, m->kv_heads) * m->head_dim;
    int64_t n = c->head_groups, g = c->head_group;

    part[0] = (struct outputs){g * A, A, 0};
    part[1] = (struct outputs){n * A + g * G, G, A};
    part[2] = (struct outputs){n * A + n * G + g * G, G, A + G};
}

/* Copy the group's outputs of a weight or bias; each output has `in` elements. */
static enum mds_rc copy_outputs(const struct context *c, int64_t in, const void *from,
                                void *to)
{
    struct outputs part[3];

    group_outputs(c, part);
    for (int i = 0; i < 3; i++) {
        int64_t n = part[i].n * in;

        MDS_TRY(mds_par_copy_rows(&c->par, 1, n,
                                  mds_par_at(&c->par, from, part[i].at * in), n,
                                  mds_par_at(&c->par, to, part[i].own * in), n));
    }
    return MDS_OK;
}

static enum mds_rc add_outputs(const struct context *c, int64_t in, const float *from,
                               float *to)
{
    struct outputs part[3];

    group_outputs(c, part);
    for (int i = 0; i < 3; i++) {
        struct mdsk_add add = {.n = part[i].n * in,
                               .x = from + part[i].own * in,
                               .y = to + part[i].at * in};

        MDS_TRY(mds_op_add(c->par.dev, &add));
    }
    return MDS_OK;
}

/* Copy the group's part of a layer's weight and bias. */
static enum mds_rc copy_part(const struct context *c, const struct linear_ids *all,
                             const struct linear_part *part)
{
    MDS_TRY(copy_outputs(c, all->in, mds_gpt_weight(c, all->weight), part->w));
    return part->b ? copy_outputs(c, 1, mds_gpt_weight(c, all->bias), part->b) : MDS_OK;
}

/* Add the part's gradients, if it has any, to those of all heads. */
static enum mds_rc add_part(const struct context *c, const struct linear_ids *all,
                            const struct linear_part *part)
{
    int64_t n = all->out * all->in;
    float *dw = mds_gpt_grad(c, all->weight);

    if (!part->dw)
        return MDS_OK;
    if (mds_params_test_and_clear_uninit(c->g->ps, all->weight, n))
        mds_dev_zero(c->par.dev, dw, n * (int64_t)sizeof *dw);
    MDS_TRY(add_outputs(c, all->in, part->dw, dw));
    return part->db ? add_outputs(c, 1, part->db, mds_gpt_grad(c, all->bias)) : MDS_OK;
}

/* ---- operations ---- */

void mds_gpt_enter_group(void *ctx, int group)
{
    struct block_pass *b = ctx;

    if (group < 0) {
        b->c = b->whole = b->all;
        b->id = b->all_heads;
        return;
    }
    b->group = *b->all;
    b->group.head_group = group;
    b->c = b->whole = &b->group;
    b->of_group = *b->all_heads;
    b->of_group.attention.qkv.out /= b->group.head_groups;
    b->of_group.attention.qkv.part = &b->part;
    b->id = &b->of_group;
}

enum mds_rc mds_gpt_open_heads(void *ctx, const struct mds_block_call *call)
{
    struct block_pass *b = ctx;
    const struct linear_ids *all = &b->all_heads->attention.qkv;
    int64_t out = b->of_group.attention.qkv.out, n = out * all->in;
    int has_bias = all->bias >= 0;
    float *grads = call->out[1];

    b->part = (struct linear_part){
        .w = call->out[0],
        .b = has_bias ? mds_par_at(&b->c->par, call->out[0], n) : NULL,
        .dw = grads,
        .db = grads && has_bias ? grads + n : NULL,
        .uninit = 1};
    if (b->part.db)
        mds_dev_zero(b->c->par.dev, b->part.db, out * (int64_t)sizeof *grads);
    return copy_part(b->c, all, &b->part);
}

enum mds_rc mds_gpt_close_heads(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;

    (void)call;
    return add_part(b->c, &b->all_heads->attention.qkv, &b->part);
}
