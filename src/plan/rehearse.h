/* SPDX-License-Identifier: BSD-3-Clause */
/* Dry runs of one step of one rank.  For predict.c and time.c. */
#ifndef MDS_PLAN_REHEARSE_H
#define MDS_PLAN_REHEARSE_H

#include "config/config.h"
#include "device/device.h"
#include "parallel/groups.h"

/* What a rank's group, of these axes, sent and received. */
struct mds_traffic {
    unsigned axes;
    struct mds_span span;
    struct mds_comm_stats comm;
};

/* What one step left in the ledgers of a rank. */
struct mds_rehearsal {
    struct mds_ledger ledger;
    int groups;
    struct mds_traffic traffic[MDS_GROUPS_MOST];
    int64_t host_bytes;
    int64_t host_weights; /* that the host updates */
    int64_t nccl_bytes;   /* comm/buffers.c; for GPUs */
};

/* Which rank, and where. */
struct mds_rehearsal_rank {
    int world, rank, per_node;
    struct mds_comm_channels channels;
};

/* The step as it is. */
enum mds_rc mds_rehearse(const struct mds_config *c, const struct mds_rehearsal_rank *k,
                         struct mds_rehearsal *out);

/* A few blocks and micro-batches of it: takes least time, and no more memory than the
 * step as it is. */
enum mds_rc mds_rehearse_part(const struct mds_config *c,
                              const struct mds_rehearsal_rank *k,
                              struct mds_rehearsal *out);

/* Nearly the same in much less time: each further block and micro-batch adds the same,
 * so a few of both are run, and the rest is added to their ledgers.  Memory is then no
 * more than that of the step as it is, but for the rounding of buffers' sizes: a peak
 * grows with blocks at least as fast as between the two short runs. */
enum mds_rc mds_rehearse_short(const struct mds_config *c,
                               const struct mds_rehearsal_rank *k,
                               struct mds_rehearsal *out);

/* Whether that differs from the step as it is. */
int mds_rehearsal_is_short(const struct mds_config *c);

#endif
