/* SPDX-License-Identifier: BSD-3-Clause */
/* Dry runs of one step of one rank.  For predict.c and time.c. */
#ifndef MDS_PLAN_DRY_RUN_H
#define MDS_PLAN_DRY_RUN_H

#include "config/config.h"
#include "device/device.h"
#include "parallel/groups.h"

/* What a rank sent and received in the group of these axes. */
struct mds_traffic {
    unsigned axes;
    struct mds_rank_span span;
    struct mds_comm_stats comm;
};

/* The ledgers of one rank after one step. */
struct mds_dry_step {
    struct mds_ledger ledger;
    int groups;
    struct mds_traffic traffic[MDS_GROUPS_MOST];
    int64_t host_bytes;
    int64_t host_weights; /* number of weights whose states are not on the device */
    int64_t nccl_bytes;   /* comm/buffers.c; for GPUs */
};

/* Which rank, and where. */
struct mds_dry_rank {
    int world, rank, per_node;
    struct mds_comm_channels channels;
};

/* Run the whole step. */
enum mds_rc mds_plan_dry_run(const struct mds_config *c, const struct mds_dry_rank *k,
                             struct mds_dry_step *out);

/* Run only a few blocks and micro-batches: the quickest, and a lower bound of
 * memory. */
enum mds_rc mds_plan_dry_run_lower_bound(const struct mds_config *c,
                                         const struct mds_dry_rank *k,
                                         struct mds_dry_step *out);

/* Nearly the result of mds_plan_dry_run in much less time.  Each further block and
 * micro-batch adds the same amount, so a few of both are run and the rest is
 * extrapolated. Apart from rounding of buffer sizes, memory is never above that of the
 * whole step, as a peak grows with blocks at least as fast as between the two short
 * runs. */
enum mds_rc mds_plan_dry_run_extrapolated(const struct mds_config *c,
                                          const struct mds_dry_rank *k,
                                          struct mds_dry_step *out);

/* Whether mds_plan_dry_run_extrapolated runs less than the whole step. */
int mds_plan_can_extrapolate(const struct mds_config *c);

#endif
