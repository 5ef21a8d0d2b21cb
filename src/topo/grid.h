/* SPDX-License-Identifier: BSD-3-Clause */
/* The process grid: which rank holds which share of model, sequence and data.
 *
 * world = PP x DP x SP x TP.  TP is fastest, then SP, then DP, then PP, so that ranks
 * that share a weight matrix sit side by side, inside a node where they fit.
 * Arithmetic only: the same answers for 4 ranks or 4096, with or without MPI. */
#ifndef MDS_TOPO_GRID_H
#define MDS_TOPO_GRID_H

#include "base/status.h"

struct mds_grid {
    int pp, dp, sp, tp; /* pipeline, data, sequence, tensor parallel sizes */
    int world;          /* their product */
};

/* A rank's coordinates, each from 0. */
struct mds_place {
    int pp, dp, sp, tp;
};

enum mds_axis {
    MDS_AXIS_TP,
    MDS_AXIS_SP,
    MDS_AXIS_DP,
    MDS_AXIS_PP,
    MDS_AXIS_DPSP, /* ranks with the same weights: gradients are summed over it */
};

/* dp = world / (tp x sp x pp).  MDS_EUSER, naming sizes that would work, where that is
 * no whole number. */
enum mds_rc mds_grid_init(struct mds_grid *g, int world, int tp, int sp, int pp);

/* rank from 0 to world - 1, and back. */
struct mds_place mds_grid_place(const struct mds_grid *g, int rank);
int mds_grid_rank(const struct mds_grid *g, struct mds_place p);

/* How many ranks the groups along an axis have. */
int mds_grid_axis_size(const struct mds_grid *g, enum mds_axis axis);

/* The ranks that differ from `rank` along `axis` alone, itself included, in the order
 * of their coordinate (DPSP: SP fastest), hence ascending.  members has room for
 * g->world; returns how many were set. */
int mds_grid_group(const struct mds_grid *g, int rank, enum mds_axis axis,
                   int *members);

/* A group by how its ranks lie: so many, each `stride` after the one before, in order
 * of ranks, of which nodes take per_node each. */
struct mds_span {
    int size, stride;
};

/* How many of its members share a node, at most. */
int mds_span_in_node(struct mds_span s, int per_node);

#endif
