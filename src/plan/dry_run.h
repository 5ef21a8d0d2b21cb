/* SPDX-License-Identifier: BSD-3-Clause */
/* Dry runs of one step of one rank, with the time that it takes.  For predict.c. */
#ifndef MDS_PLAN_DRY_RUN_H
#define MDS_PLAN_DRY_RUN_H

#include "config/config.h"
#include "device/device.h"
#include "plan/machine.h"

/* Where the seconds of a step go: operations, and what of messages and copies shows. */
enum mds_time {
    MDS_TIME_COMPUTE,
    MDS_TIME_TENSOR,
    MDS_TIME_SEQUENCE,
    MDS_TIME_DATA,
    MDS_TIME_PIPELINE,
    MDS_TIME_HOST,
    MDS_TIMES,
};

/* Of one rank, after one step. */
struct mds_dry_step {
    struct mds_mem_account memory;
    int64_t scratch_bytes; /* of attention's kernels */
    int64_t host_bytes;
    int64_t nccl_bytes;         /* comm/buffers.c; for GPUs */
    double s[MDS_TIMES];        /* of generation: of a token */
    double prompt_s[MDS_TIMES]; /* of generation: of all of a prompt before */
};

/* Which rank, and where. */
struct mds_dry_rank {
    int world, rank, per_node;
    const struct mds_machine *machine; /* borrowed */
};

/* Run the whole step. */
enum mds_rc mds_plan_dry_run(const struct mds_config *c, const struct mds_dry_rank *k,
                             struct mds_dry_step *out);

/* Run only a few blocks and micro-batches, with all inputs of blocks on the host if any
 * are and no saved attention, and extrapolate the blocks: the quickest, and a lower
 * bound of memory on the device.  Times are 0. */
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
