/* SPDX-License-Identifier: BSD-3-Clause */
/* The groups of ranks that a rank belongs to: one for each set of axes (topo/axes.h)
 * along which ranks communicate. */
#ifndef MDS_PARALLEL_GROUPS_H
#define MDS_PARALLEL_GROUPS_H

#include "base/status.h"
#include "comm/comm.h"
#include "config/config.h"
#include "device/device.h"
#include "topo/grid.h"

/* A group that is not a set of axes: the first and the last pipeline stage, which share
 * a tied embedding.  For ranks of other stages it is a group of one. */
#define MDS_GROUP_ENDS (MDS_AXIS_PIPELINE | 1u << 2 * MDS_AXES_MOST)

enum { MDS_GROUPS_MOST = 16 };

struct mds_groups {
    struct mds_grid grid;
    int rank;
    struct mds_dev *dev; /* borrowed; NULL: dry */
    int n;
    struct mds_group {
        unsigned axes;
        struct mds_comm *comm;
    } made[MDS_GROUPS_MOST];
};

/* Start with no groups, for rank `rank` of a grid.  dev (borrowed) is this rank's
 * device: GPUs communicate with NCCL, others with MPI.  With dev NULL the groups are
 * dry (comm/comm.h). */
void mds_groups_init(struct mds_groups *g, const struct mds_grid *grid, int rank,
                     struct mds_dev *dev);

/* Create the group of a set of axes if it does not exist.  Collective over its members,
 * unless dry. */
enum mds_rc mds_groups_add(struct mds_groups *g, unsigned axes);

/* Create all groups that training needs, for rank `rank` of `world`: one for each axis
 * except data, ranks with the same weights (MDS_AXES_TOKENS), those of a pipeline stage
 * (MDS_AXES_STAGE), MDS_GROUP_ENDS and the world (MDS_AXES_ALL); where experts are on
 * several ranks, also these (MDS_AXIS_EXPERT) and those with the same experts
 * (MDS_AXES_SAME_EXPERTS, MDS_AXES_STAGE_EXPERTS).  Collective over the world, unless
 * dry.  MDS_EUSER if the sizes of *c do not divide world. */
enum mds_rc mds_groups_create(const struct mds_parallel_config *c, int world, int rank,
                              struct mds_dev *dev, struct mds_groups *out);

/* A zeroed struct is fine. */
void mds_groups_fini(struct mds_groups *g);

/* The group of a set of axes; NULL if it was not created. */
struct mds_comm *mds_group(const struct mds_groups *g, unsigned axes);

/* A group's size and stride, for estimates of its traffic.  MDS_GROUP_ENDS counts as
 * two neighbouring stages. */
struct mds_rank_span mds_groups_span(const struct mds_groups *g,
                                     const struct mds_group *of);

/* GPU memory in bytes that NCCL allocates for the calls the groups have counted
 * (mds_comm_nccl_bytes), with per_node ranks on a node. */
int64_t mds_groups_nccl_bytes(const struct mds_groups *g, int per_node,
                              struct mds_comm_channels n);

/* The number of ranks along a set of axes, and this rank's index among them; also if
 * the group was not created. */
static inline int mds_groups_size(const struct mds_groups *g, unsigned axes)
{
    return mds_grid_size(&g->grid, axes);
}

static inline int mds_groups_rank(const struct mds_groups *g, unsigned axes)
{
    return mds_grid_rank(&g->grid, g->rank, axes);
}

static inline int mds_groups_first_stage(const struct mds_groups *g)
{
    return mds_groups_rank(g, MDS_AXIS_PIPELINE) == 0;
}

static inline int mds_groups_last_stage(const struct mds_groups *g)
{
    return mds_groups_rank(g, MDS_AXIS_PIPELINE) ==
           mds_groups_size(g, MDS_AXIS_PIPELINE) - 1;
}

#endif
