/* SPDX-License-Identifier: BSD-3-Clause */
/* The process grid: which rank holds which shard of model, sequence and data.
 *
 * A table lists the axes of the grid.  The number of ranks is the product of their
 * sizes.  The first axis varies fastest, so that the ranks that communicate most are
 * neighbours, within one node if they fit.  For a set of axes, a rank's group consists
 * of the ranks whose coordinates differ from its own only along these axes.  Its group
 * rank is its index in that group: for one axis the coordinate, for all axes the world
 * rank.  An axis within others (axes.h) cuts each of them in two: a part of its own,
 * and the rest.  A set of axes is a set of such parts.
 *
 * Pure arithmetic: it does not communicate and does not need MPI. */
#ifndef MDS_TOPO_GRID_H
#define MDS_TOPO_GRID_H

#include "base/status.h"
#include "topo/axes.h"

struct mds_grid {
    const struct mds_axis *axis; /* the table; borrowed */
    int axes;                    /* its rows */
    int size[2 * MDS_AXES_MOST]; /* ranks along each part, by bit */
    int world;                   /* the product of sizes */
};

/* size[i]: ranks along row i.  The size of the row without a key (data) is ignored: it
 * is world divided by the other sizes.  MDS_EUSER if they do not divide world, or an
 * axis within others does not divide these. */
enum mds_rc mds_grid_init(struct mds_grid *g, const struct mds_axis *table,
                          const int64_t *size, int world);

/* The number of ranks in each group of a set of axes; and the stride: the difference
 * in world ranks between neighbours, along the first of these axes with several. */
int mds_grid_size(const struct mds_grid *g, unsigned axes);
int mds_grid_stride(const struct mds_grid *g, unsigned axes);

/* rank: the group rank of world rank `rank`, from 0.  member: the world rank of the
 * member with that group rank, in the group of world rank `rank`.  Members are ordered
 * by world rank. */
int mds_grid_rank(const struct mds_grid *g, int rank, unsigned axes);
int mds_grid_member(const struct mds_grid *g, int rank, unsigned axes, int group_rank);

/* The layout of a group: `size` ranks, each `stride` world ranks after the one before.
 */
struct mds_rank_span {
    int size, stride;
};

/* The largest number of members on one node, with per_node ranks on each node. */
int mds_span_in_node(struct mds_rank_span s, int per_node);

#endif
