/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/table.h"
#include "optim/rules.h"
#include "tensor/op.h"

#include <math.h>

/* All arguments for a range's elements from `skip` on, but for the spans. */
static struct mdsk_adamw arguments(const struct zero_step *step,
                                   const struct zero_operands *x, int64_t skip)
{
    const struct mds_optim_config *c = &step->optim;
    double t = (double)step->number;

    return (struct mdsk_adamw){.lr = (float)step->lr,
                               .beta1 = (float)c->beta1,
                               .beta2 = (float)c->beta2,
                               .eps = (float)c->eps,
                               .weight_decay = (float)c->weight_decay,
                               .correction1 = (float)(1.0 - pow(c->beta1, t)),
                               .correction2 = (float)(1.0 - pow(c->beta2, t)),
                               .grad_scale = (float)step->grad_scale,
                               .master = x->state[ZERO_MASTER] + skip,
                               .m = x->state[ZERO_M] + skip,
                               .v = x->state[ZERO_V] + skip,
                               .grad = x->grad + skip,
                               .dtype = x->dtype,
                               .weight = mds_operand_weight(x, skip)};
}

static enum mds_rc launch(struct mds_dev *dev, const struct mdsk_adamw *a)
{
    if (dev)
        return mds_op_adamw(dev, a);
    (void)mdsk_adamw_cpu(NULL, a);
    return MDS_OK;
}

/* As few launches as possible: a bias alone does not fill a GPU. */
static enum mds_rc update(const struct zero_step *step,
                          const struct zero_partition *parts,
                          const struct zero_operands *x)
{
    struct mdsk_adamw a = arguments(step, x, 0);
    struct zero_param_group g = {.first = x->range.first};

    while (mds_partition_next_group(parts, &x->range, &g)) {
        if (a.spans == MDSK_ADAMW_SPANS) {
            MDS_TRY(launch(x->dev, &a));
            a = arguments(step, x, g.first - x->range.first);
        }
        a.decays |= g.decay ? 1u << a.spans : 0;
        if (g.width > 0) { /* muP: Yang et al. 2022, table 8 and appendix B.3 */
            a.wide |= 1u << a.spans;
            a.width = (float)g.width;
        }
        a.n += g.n;
        a.span_end[a.spans++] = a.n;
    }
    return launch(x->dev, &a);
}

static struct mdsk_cost cost(const struct zero_operands *x)
{
    const struct mdsk_adamw a = {
        .n = x->range.n, .dtype = x->dtype, .weight = x->weight};

    return mdsk_adamw_cost(&a);
}

const struct zero_rule mds_adamw = {MDS_OP_ADAMW, update, cost};
