/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a search for layouts, and the search within one grid of ranks.  Private
 * to search.c and grid.c. */
#ifndef MDS_PLAN_SEARCH_H
#define MDS_PLAN_SEARCH_H

#include "plan/search_space.h"

/* A grid that may fit. */
struct candidate {
    struct mds_plan_entry least;
    struct mds_layout grid;
    double bound; /* upper bound of its layouts, in tokens per second and rank */
};

enum { CACHED = 32 };

/* The state of a search. */
struct search {
    const struct mds_plan_request *r;
    struct mds_layout user; /* the user's */
    struct mds_plan *plan;
    double start_s, deadline_s;
    double reported_s;     /* when progress was last reported */
    double best;           /* of the layouts that fit, in tokens per second and rank */
    int only_least_memory; /* try only the least-memory layout of each grid */
    int64_t tile;          /* of the current grid, as is the next member */
    struct {
        struct mds_layout layout;
        int fits;
    } tried[MDS_PLAN_PLACEMENTS * MDS_ACT_LEVELS];
    int tried_count;
    struct mds_plan_entry
        last_reject;                 /* the last rejected grid; tokens_s 0: none yet */
    struct mds_plan_entry first_fit; /* the first layout that fits, if any */
    struct mds_plan_entry cached[CACHED];
    unsigned cached_at;
    struct candidate *candidates;
    size_t candidate_count;
    enum mds_rc rc;
};

/* Add a layout that fits, unless it is in the list already. */
void mds_search_add_fit(struct search *s, const struct mds_plan_entry *e);
void mds_search_add_reject(struct search *s, const struct mds_plan_entry *e,
                           int divides, const char *why);

/* Whether the budget is used up.  Checked before each dry run, since one grid may take
 * many seconds if ranks have thousands of micro-batches. */
int mds_search_out_of_time(const struct search *s);

/* Estimate a layout by dry runs.  Returns 0 if the model cannot be divided like this;
 * then mds_fail_text() says why.  try: a shortened dry run, unless it was tried
 * recently. */
int mds_search_estimate(struct search *s, struct mds_plan_entry *e,
                        enum mds_predict_how how);
int mds_search_estimate_cached(struct search *s, struct mds_plan_entry *e);

/* Whether weights, gradients and states alone exceed the device, so that no level of
 * activation memory can fit. */
int mds_search_states_exceed_device(const struct mds_estimate *e);

/* A grid's layout with those ways to save memory, around what is fixed. */
struct mds_plan_entry mds_search_make_entry(const struct search *s,
                                            const struct mds_layout *grid,
                                            int placement, int level);

/* Add the layouts of a grid that fit: the fastest for each placement of weights and
 * states. */
void mds_search_grid(struct search *s, const struct mds_layout *grid);

#endif
