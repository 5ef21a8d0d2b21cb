/* SPDX-License-Identifier: BSD-3-Clause */
/* Kinds of tokens: each has a name, and the weight in the loss of targets of this
 * kind. */
#ifndef MDS_CONFIG_KINDS_H
#define MDS_CONFIG_KINDS_H

enum { MDS_KINDS_MAX = 64, MDS_KIND_NAME_SIZE = 32 };

/* Instead of a kind: a token that is no target. */
enum { MDS_KIND_MASKED = 255 };

struct mds_kind {
    char name[MDS_KIND_NAME_SIZE]; /* printable ASCII without blanks and quotes */
    double weight;                 /* 0 or more */
};

/* n 0: tokens have no kinds, and all targets weigh 1. */
struct mds_kind_table {
    const struct mds_kind *kind; /* [n], borrowed */
    int n;
};

/* How many sums there are: without kinds, one. */
static inline int mds_kind_sums(const struct mds_kind_table *t)
{
    return t->n > 0 ? t->n : 1;
}

/* Of targets, by kind: the sum of their losses in nats, and their number. */
struct mds_kind_losses {
    double sum[MDS_KINDS_MAX], count[MDS_KINDS_MAX];
};

/* The weighted sum of all losses, and the sum of all weights, of which the loss is the
 * quotient.  Kinds of weight 0 are left out, whatever their losses. */
void mds_kind_losses_total(const struct mds_kind_losses *l,
                           const struct mds_kind_table *t, double *sum, double *weight);

/* That sum by those weights; NaN if nothing counts. */
double mds_kind_losses_mean(const struct mds_kind_losses *l,
                            const struct mds_kind_table *t);

/* The number of targets whose weight is not 0. */
double mds_kind_losses_targets(const struct mds_kind_losses *l,
                               const struct mds_kind_table *t);

/* *to += l */
void mds_kind_losses_add(struct mds_kind_losses *to, const struct mds_kind_losses *l);

#endif
