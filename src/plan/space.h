/* SPDX-License-Identifier: BSD-3-Clause */
/* The layouts that a search goes through: grids of ranks, and for each grid the ways to
 * save memory.  For search.c and longest.c. */
#ifndef MDS_PLAN_SPACE_H
#define MDS_PLAN_SPACE_H

#include "plan/plan.h"

/* ---- ways to save memory ---- */

enum {
    MDS_PLAN_PLACES = 7, /* of weights, gradients and optimizer states */
    MDS_PLAN_WHERES = 3, /* of those places, the ones that need least on the device */
    MDS_PLAN_STEPS = 4   /* of the levels of activations, the last ones */
};

/* Set the stage of ZeRO, and where weights and optimizer states are, to one of the
 * places. */
void mds_plan_set_states(struct mds_layout *l, int place);

/* Whether a place shares states among ranks with the same weights, on the device:
 * pointless where there is one such rank. */
int mds_plan_shares(int place);

/* Tokens of a tile for sequences of `seq`; shorter shares need none (0). */
int64_t mds_plan_tile(const struct mds_layout *l, int64_t seq);

/* Blocks of a stage, or of each of its chunks; and of how many all that they keep may
 * go to the host. */
int64_t mds_plan_blocks(const struct mds_plan_request *r, const struct mds_layout *l);
int64_t mds_plan_leaving(const struct mds_plan_request *r, const struct mds_layout *l);

/* Set both to what needs least memory.  where 0 has most states on the host and fewest
 * on the device, MDS_PLAN_WHERES - 1 the other way round; step 0 needs least for
 * activations on the device, MDS_PLAN_STEPS - 1 least on the host. */
void mds_plan_set_least(const struct mds_plan_request *r, struct mds_layout *l,
                        int where, int step, int64_t tile);

/* Apply what is fixed to e->layout, run it dry and fill in e->estimate.  *runs: dry
 * runs made; 0 if the model does not divide so, and then mds_fail_text() says why. */
enum mds_rc mds_plan_rehearse(const struct mds_plan_request *r,
                              const struct mds_layout *now, unsigned fixed,
                              enum mds_predict_how how, struct mds_plan_entry *e,
                              int64_t *runs);

/* ---- grids ---- */

struct mds_plan_grids {
    struct mds_layout *v; /* micro- and global batch as the user has them */
    size_t n;
};

/* All grids of r->world ranks with the sizes that are fixed in *now, and no more
 * pipeline ranks than blocks nor tensor ranks than heads.  In the order in which to try
 * them, as time may be short: those that share most among most ranks first. */
enum mds_rc mds_plan_grids_list(const struct mds_plan_request *r,
                                const struct mds_layout *now, unsigned fixed,
                                struct mds_plan_grids *out);
void mds_plan_grids_fini(struct mds_plan_grids *g);

/* Whether fewer ranks share each sequence in a grid than in another, all else being the
 * same: it needs more memory then.  Not said of a grid in which tensor ranks alone do,
 * for these share learned positions as well. */
int mds_plan_shares_less(const struct mds_layout *grid, const struct mds_layout *other);

#endif
