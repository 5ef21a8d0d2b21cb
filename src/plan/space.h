/* The layouts that a search goes through: grids of ranks, and for each grid the ways to
 * save memory.  For search.c and longest.c. */
#ifndef MDS_PLAN_SPACE_H
#define MDS_PLAN_SPACE_H

#include "plan/plan.h"

/* ---- ways to save memory ---- */

enum {
    MDS_PLAN_RUNGS = 10,
    MDS_PLAN_HOMES = 7,
    MDS_PLAN_STEPS = 4,
    MDS_PLAN_WHERES = 3
};

/* Tiles, and what blocks keep and where: each rung needs less memory than the one
 * before, on the device or on the host, and takes more time. */
void mds_plan_climb(struct mds_layout *l, int rung, int64_t tile);

/* Where the optimizer and the weights are, and the stage of ZeRO. */
void mds_plan_settle(struct mds_layout *l, int home);

/* 1 for a home that shares weights among several holders, on the device: pointless
 * where there is one. */
int mds_plan_shares(int home);

/* Tokens of a tile for sequences of `seq`: 4096 rows fill a GPU, shorter shares need
 * none (0). */
int64_t mds_plan_tile(const struct mds_layout *l, int64_t seq);

/* What needs least.  where 0 has most on the host and least on the device, where
 * MDS_PLAN_WHERES - 1 the other way round; of the last MDS_PLAN_STEPS rungs the first
 * needs least on the device, the last least on the host. */
void mds_plan_save(struct mds_layout *l, int where, int step, int64_t tile);

/* Keep what is fixed, and run it dry: *runs is the number of dry runs, 0 if the model
 * does not divide so; then mds_fail_text() says why. */
enum mds_rc mds_plan_rehearse(const struct mds_plan_request *r,
                              const struct mds_layout *now, unsigned fixed,
                              struct mds_plan_entry *e, int64_t *runs);

/* ---- grids ---- */

struct mds_plan_grids {
    struct mds_layout *v; /* micro- and global batch as the user has them */
    size_t n;
};

/* All that have the members of `now` that are fixed.  The order is for when time is
 * short: groups that stay in a node first, or, frugal, those that share most.  No grid
 * has more pipeline ranks than blocks or more tensor ranks than heads. */
enum mds_rc mds_plan_grids_list(const struct mds_plan_request *r,
                                const struct mds_layout *now, unsigned fixed,
                                int frugal, struct mds_plan_grids *out);
void mds_plan_grids_fini(struct mds_plan_grids *g);

#endif
