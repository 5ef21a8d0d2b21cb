/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/kinds.h"

#include <math.h>

void mds_kind_losses_total(const struct mds_kind_losses *l,
                           const struct mds_kind_table *t, double *sum, double *weight)
{
    *sum = *weight = 0;
    for (int k = 0; k < mds_kind_sums(t); k++) {
        double w = t->n > 0 ? t->kind[k].weight : 1;

        *sum += w > 0 ? w * l->sum[k] : 0;
        *weight += w * l->count[k];
    }
}

double mds_kind_losses_mean(const struct mds_kind_losses *l,
                            const struct mds_kind_table *t)
{
    double sum, weight;

    mds_kind_losses_total(l, t, &sum, &weight);
    return weight > 0 ? sum / weight : NAN;
}

double mds_kind_losses_targets(const struct mds_kind_losses *l,
                               const struct mds_kind_table *t)
{
    double targets = 0;

    for (int k = 0; k < mds_kind_sums(t); k++)
        targets += t->n == 0 || t->kind[k].weight > 0 ? l->count[k] : 0;
    return targets;
}

void mds_kind_losses_add(struct mds_kind_losses *to, const struct mds_kind_losses *l)
{
    for (int k = 0; k < MDS_KINDS_MAX; k++) {
        to->sum[k] += l->sum[k];
        to->count[k] += l->count[k];
    }
}
