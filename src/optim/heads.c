/* SPDX-License-Identifier: BSD-3-Clause */
/* Scaling the weights of attention's heads, each by its own factor, after an update. */
#include "base/minmax.h"
#include "kernels/table.h"
#include "optim/rules.h"
#include "tensor/op.h"

/* n elements from `skip` on. */
static enum mds_rc scale(const struct zero_operands *x, int64_t skip, int64_t n,
                         float factor)
{
    const struct mdsk_axpby a = {.n = n,
                                 .from = MDSK_F32,
                                 .to = MDSK_F32,
                                 .b = factor,
                                 .y = x->state[ZERO_MASTER] + skip};
    const struct mdsk_cast c = {.n = n,
                                .from = MDSK_F32,
                                .to = x->dtype,
                                .x = a.y,
                                .y = mds_operand_weight(x, skip)};

    if (x->dev) {
        MDS_TRY(mds_op_axpby(x->dev, &a));
        return c.y ? mds_op_cast(x->dev, &c) : MDS_OK;
    }
    (void)mdsk_axpby_cpu(NULL, &a);
    if (c.y)
        (void)mdsk_cast_cpu(NULL, &c);
    return MDS_OK;
}

/* What a range has of one parameter, head by head. */
static enum mds_rc scale_param(const float *factor, const struct mds_param *p,
                               const struct mds_param_overlap *o,
                               const struct zero_operands *x)
{
    int64_t head = p->spec.head_rows * mds_max(p->cols, 1), n;

    for (int64_t i = 0; i < o->n; i += n) {
        int64_t whole = mds_param_whole_index(p, o->first + i);
        float f = factor[p->spec.first_head + whole / head];

        n = mds_min(o->n - i, head - whole % head);
        if (f != 1)
            MDS_TRY(scale(x, o->at + i, n, f));
    }
    return MDS_OK;
}

enum mds_rc mds_heads_scale(const struct zero_step *step,
                            const struct zero_partition *parts,
                            const struct zero_operands *x)
{
    const struct mds_param_unit *u = mds_partition_unit(parts, x->range.unit);

    for (int k = 0; step->head_factor && k < u->params; k++) {
        const struct mds_param *p = mds_params_get(parts->params, u->first_param + k);
        struct mds_param_overlap o =
            mds_param_overlap(parts->params, p, x->range.first, x->range.n);

        if (p->spec.head_rows > 0)
            MDS_TRY(scale_param(step->head_factor, p, &o, x));
    }
    return MDS_OK;
}
