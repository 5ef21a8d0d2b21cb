/* SPDX-License-Identifier: BSD-3-Clause */
/* The process grid: which rank holds which shard of model, sequence and data.
 *
 * A table lists the axes along which ranks differ.  The world is their product, the
 * first axis varying fastest, so that ranks that communicate most are neighbours,
 * within a node if they fit.  For a set of axes, a rank's group are the ranks whose
 * coordinates differ from its own only along these axes, and its group rank is its
 * index in that group: for one axis the coordinate, for all axes the world rank.
 *
 * Arithmetic only: the same answers for 4 ranks or 4096, with or without MPI. */
#ifndef MDS_TOPO_GRID_H
#define MDS_TOPO_GRID_H

#include "base/status.h"
#include "topo/axes.h"

struct mds_grid {
    const struct mds_axis *axis; /* the table; borrowed */
    int axes;                    /* its rows */
    int size[MDS_AXES_MOST];     /* ranks along each */
    int world;                   /* the product of sizes */
};

/* size[i] ranks along row i.  The size of the row without a key is not read: it follows
 * from world and the others; MDS_EUSER if it would not be a whole number. */
enum mds_rc mds_grid_init(struct mds_grid *g, const struct mds_axis *table,
                          const int64_t *size, int world);

/* The number of ranks in each group of a set of axes, and the distance in world ranks
 * of neighbours along the first of the axes. */
int mds_grid_size(const struct mds_grid *g, unsigned axes);
int mds_grid_stride(const struct mds_grid *g, unsigned axes);

/* A world rank's rank in its group, from 0; and back: the world rank of the group's
 * member with that group rank.  Groups are ordered by world rank. */
int mds_grid_rank(const struct mds_grid *g, int rank, unsigned axes);
int mds_grid_member(const struct mds_grid *g, int rank, unsigned axes, int group_rank);

/* The layout of a group: `size` ranks, each `stride` world ranks after the one before.
 */
struct mds_span {
    int size, stride;
};

/* The most members that share a node, with per_node ranks on each node. */
int mds_span_in_node(struct mds_span s, int per_node);

#endif
