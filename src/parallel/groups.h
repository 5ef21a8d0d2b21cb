/* SPDX-License-Identifier: BSD-3-Clause */
/* The groups of ranks a rank belongs to.
 *
 *   tp       share every weight matrix (with sequence parallelism, the rows between)
 *   ulysses  share a sequence by tokens, and attention by heads
 *   ring     share a sequence by tokens; keys and values travel
 *   data     have the same weights: data x ring x ulysses; gradients are summed over it
 *   pipe     hold the stages of the model, in order
 *   ends     first and last stage, which share a tied embedding (size 1 elsewhere)
 *   world    everybody
 */
#ifndef MDS_PARALLEL_GROUPS_H
#define MDS_PARALLEL_GROUPS_H

#include "base/status.h"
#include "comm/comm.h"
#include "config/config.h"
#include "device/device.h"
#include "topo/grid.h"

struct mds_groups {
    struct mds_grid grid;
    struct mds_place place;
    int ulysses_size, ring_size;
    struct mds_comm *tp, *ulysses, *ring, *data, *pipe, *ends, *world;
};

/* The groups as a list. */
enum mds_group {
    MDS_GROUP_TP,
    MDS_GROUP_ULYSSES,
    MDS_GROUP_RING,
    MDS_GROUP_DATA,
    MDS_GROUP_PIPE,
    MDS_GROUP_ENDS,
    MDS_GROUP_WORLD,
    MDS_GROUPS
};
void mds_groups_list(const struct mds_groups *g, const struct mds_comm *of[MDS_GROUPS]);

/* Size of each group and distance of its ranks, for estimates of its traffic; `ends`
 * counts as two neighbouring stages. */
void mds_groups_spans(const struct mds_groups *g, struct mds_span of[MDS_GROUPS]);

/* GPU memory that NCCL takes for the calls that the groups have counted (comm/comm.h),
 * with per_node ranks on a node. */
int64_t mds_groups_nccl_bytes(const struct mds_groups *g, int per_node,
                              struct mds_comm_channels n);

/* The groups of rank `rank` of `world` ranks.  dev, borrowed, is this rank's device:
 * GPUs talk over NCCL, others over MPI, and the call is collective over the world.
 * With dev NULL the groups are dry (comm/comm.h), and the call is this process's alone.
 * MDS_EUSER if the sizes of *c do not divide world. */
enum mds_rc mds_groups_create(const struct mds_parallel_config *c, int world, int rank,
                              struct mds_dev *dev, struct mds_groups *out);

/* A zeroed struct is fine. */
void mds_groups_fini(struct mds_groups *g);

/* Which replica of the model this rank belongs to: its share of the global batch. */
static inline int mds_groups_replica(const struct mds_groups *g)
{
    return g->place.dp;
}

static inline int mds_groups_first_stage(const struct mds_groups *g)
{
    return g->place.pp == 0;
}

static inline int mds_groups_last_stage(const struct mds_groups *g)
{
    return g->place.pp == g->grid.pp - 1;
}

#endif
