/* SPDX-License-Identifier: BSD-3-Clause */
/* The process grid: which rank holds which share of model, sequence and data.
 *
 * A table lists the axes along which ranks differ.  The world is their product, the
 * first axis fastest: ranks that talk most sit side by side, inside a node where they
 * fit.  A set of axes gives a rank its group, the ranks that differ from it along these
 * axes alone, and its place in that group; of one axis the place is a coordinate, of
 * all axes the rank itself.
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

/* size[i] ranks along row i; that of the row without a key follows from the others, and
 * is not read.  MDS_EUSER where that is no whole number. */
enum mds_rc mds_grid_init(struct mds_grid *g, const struct mds_axis *table,
                          const int64_t *size, int world);

/* How many ranks the groups of a set of axes have, and how far apart in the world its
 * neighbours along the first of them are. */
int mds_grid_size(const struct mds_grid *g, unsigned axes);
int mds_grid_stride(const struct mds_grid *g, unsigned axes);

/* Which of its group a rank is, from 0, and back: the rank at that place of the group.
 * Groups are in the order of ranks. */
int mds_grid_place(const struct mds_grid *g, int rank, unsigned axes);
int mds_grid_member(const struct mds_grid *g, int rank, unsigned axes, int place);

/* A group by how its ranks lie: so many, each `stride` after the one before, in order
 * of ranks, of which nodes take per_node each. */
struct mds_span {
    int size, stride;
};

/* How many of its members share a node, at most. */
int mds_span_in_node(struct mds_span s, int per_node);

#endif
