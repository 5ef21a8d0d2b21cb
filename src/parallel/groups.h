/* SPDX-License-Identifier: BSD-3-Clause */
/* The groups of ranks a rank belongs to: one for each set of axes (topo/axes.h) that
 * ranks talk along. */
#ifndef MDS_PARALLEL_GROUPS_H
#define MDS_PARALLEL_GROUPS_H

#include "base/status.h"
#include "comm/comm.h"
#include "config/config.h"
#include "device/device.h"
#include "topo/grid.h"

/* Beside sets of axes: of the pipeline's ranks the first and the last, which share a
 * tied embedding.  Ranks between them are alone. */
#define MDS_GROUP_ENDS (MDS_AXIS_PIPELINE | 1u << MDS_AXES_MOST)

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

/* The groups of rank `rank` of a grid, none yet.  dev, borrowed, is this rank's device:
 * GPUs talk over NCCL, others over MPI.  With dev NULL the groups are dry
 * (comm/comm.h). */
void mds_groups_init(struct mds_groups *g, const struct mds_grid *grid, int rank,
                     struct mds_dev *dev);

/* Make the group of a set of axes, if it is not there yet.  Collective over its
 * members; dry ones are this process's alone. */
enum mds_rc mds_groups_add(struct mds_groups *g, unsigned axes);

/* All that training needs, of rank `rank` of `world` ranks: every axis but the data's
 * own, ranks with the same weights (MDS_AXES_TOKENS), MDS_GROUP_ENDS and the world
 * (MDS_AXES_ALL).  Collective over the world, unless dry.  MDS_EUSER if the sizes of *c
 * do not divide world. */
enum mds_rc mds_groups_create(const struct mds_parallel_config *c, int world, int rank,
                              struct mds_dev *dev, struct mds_groups *out);

/* A zeroed struct is fine. */
void mds_groups_fini(struct mds_groups *g);

/* The group of a set of axes, which was made; else NULL. */
struct mds_comm *mds_group(const struct mds_groups *g, unsigned axes);

/* Its size and the distance of its ranks, for estimates of its traffic; the ends count
 * as two neighbouring stages. */
struct mds_span mds_groups_span(const struct mds_groups *g, const struct mds_group *of);

/* GPU memory that NCCL takes for the calls that the groups have counted (comm/comm.h),
 * with per_node ranks on a node. */
int64_t mds_groups_nccl_bytes(const struct mds_groups *g, int per_node,
                              struct mds_comm_channels n);

/* How many ranks there are along a set of axes, and which of them this is; whether its
 * group was made or not. */
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
