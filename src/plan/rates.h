/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a machine takes for each call of a dry run: what its clock asks
 * (device/clock.h, comm/comm.h).  A roofline over the profile's rates. */
#ifndef MDS_PLAN_RATES_H
#define MDS_PLAN_RATES_H

#include "device/clock.h"
#include "kernels/attention.h"
#include "metrics/flops.h"
#include "parallel/groups.h"
#include "plan/network.h"

struct mds_rates {
    const struct mds_machine *machine; /* borrowed */
    const struct mds_config *config;   /* borrowed */
    int per_node;
    struct mds_flops_model flops;
    struct mds_dev_rates dev;
    struct mds_comm_rates group[MDS_GROUPS_MOST];
};

/* Let a dry device and its groups keep time by a machine with per_node ranks on each
 * node.  All are borrowed: *r stays where it is. */
void mds_rates_set(struct mds_rates *r, const struct mds_machine *m,
                   const struct mds_config *c, int per_node, struct mds_dev *dev,
                   const struct mds_groups *g);

/* Seconds of a call of attention, for which the ledger counts these FLOPs. */
double mds_rates_attention_s(const struct mds_rates *r,
                             const struct mdsk_attention_shape *s, double flops,
                             int backward);

#endif
