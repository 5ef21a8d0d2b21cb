/* SPDX-License-Identifier: BSD-3-Clause */
/* The search space: grids of ranks, and for each grid the ways to save memory.  Private
 * to search.c, grid.c and longest.c. */
#ifndef MDS_PLAN_SEARCH_SPACE_H
#define MDS_PLAN_SEARCH_SPACE_H

#include "plan/plan.h"

/* ---- ways to save memory ---- */

enum {
    MDS_PLAN_PLACEMENTS = 7, /* of weights, gradients and optimizer states */
    MDS_PLAN_LEAST_PLACEMENTS =
        3, /* of those places, the ones that need least on the device */
    MDS_PLAN_LEAST_LEVELS = 4, /* of the levels of activations, the last ones */
    MDS_PLAN_LEAST_LEVEL = MDS_ACT_LEVELS - MDS_PLAN_LEAST_LEVELS /* first of them */
};

/* Set ZeRO's stage, and where weights and optimizer states are stored, to one of the
 * places. */
void mds_plan_set_placement(struct mds_layout *l, int placement);

/* Whether a placement shards states on the device over the ranks with the same weights,
 * which is pointless if there is only one such rank. */
int mds_plan_placement_shards(int placement);

/* Tokens of a sequence tile: mds_config_tile. */
int64_t mds_plan_sequence_tile(const struct mds_plan_request *r,
                               const struct mds_layout *l);

/* Number of blocks of a stage, or of each of its model chunks; and how many of them can
 * be offloaded to the host. */
int64_t mds_plan_blocks(const struct mds_plan_request *r, const struct mds_layout *l);
int64_t mds_plan_offloadable(const struct mds_plan_request *r,
                             const struct mds_layout *l);

/* Set states and activations to a least-memory combination.  Of the placements that
 * need least, 0 has most on the host and fewest bytes on the device, and
 * MDS_PLAN_LEAST_PLACEMENTS - 1 the reverse; of the last levels of activation memory,
 * 0 needs least on the device and MDS_PLAN_LEAST_LEVELS - 1 least on the host. */
void mds_plan_set_least_memory(const struct mds_plan_request *r, struct mds_layout *l,
                               int placement, int level, int64_t tile);

/* Apply the fixed members to e->layout, run it dry and set e->estimate.  *runs = number
 * of dry runs; 0 if the model cannot be divided like this: then mds_fail_text() says
 * why. */
enum mds_rc mds_plan_estimate(const struct mds_plan_request *r,
                              const struct mds_layout *user, unsigned fixed,
                              enum mds_predict_how how, struct mds_plan_entry *e,
                              int64_t *runs);

/* ---- grids ---- */

struct mds_plan_grids {
    struct mds_layout *v; /* micro- and global batch as the user has them */
    size_t n;
};

/* All grids of r->world ranks with the sizes that are fixed in *user, and no more
 * pipeline ranks than blocks nor tensor ranks than heads.  Sorted so
 * that those that shard most over most ranks are tried first, as time may be short. */
enum mds_rc mds_plan_grids_list(const struct mds_plan_request *r,
                                const struct mds_layout *user, unsigned fixed,
                                struct mds_plan_grids *out);
void mds_plan_grids_fini(struct mds_plan_grids *g);

/* Whether a grid differs from another only in that fewer ranks share each sequence, so
 * that it needs more memory.  0 if only tensor ranks share it, as those shard learned
 * positions as well. */
int mds_plan_shards_less(const struct mds_layout *grid, const struct mds_layout *other);

#endif
