/* SPDX-License-Identifier: BSD-3-Clause */
/* A search for layouts, and what it does with one grid of ranks.  For search.c and
 * grid.c. */
#ifndef MDS_PLAN_SEARCH_H
#define MDS_PLAN_SEARCH_H

#include "plan/space.h"

/* A grid that may fit. */
struct candidate {
    struct mds_plan_entry least;
    struct mds_layout grid;
    double bound; /* tokens a second and rank: no layout of it makes more */
};

enum { RECENT = 32 };

/* What a search carries along. */
struct search {
    const struct mds_plan_request *r;
    struct mds_layout now; /* the user's */
    struct mds_plan *plan;
    double start_s, end_s;
    double told_s;   /* when something was last said of it */
    double best;     /* tokens a second and rank, of what fits */
    int only_frugal; /* each grid's most frugal layout alone: does anything fit? */
    int64_t tile;    /* of the grid that is searched, as is the following */
    struct {
        struct mds_layout layout;
        int fits;
    } tried[MDS_PLAN_PLACES * MDS_ACT_LEVELS];
    int tried_count;
    struct mds_plan_entry out; /* the last grid that was out; tokens_s 0: none yet */
    struct mds_plan_entry any; /* a first that fits, if it does */
    struct mds_plan_entry recent[RECENT];
    unsigned recent_at;
    struct candidate *candidates;
    size_t candidate_count;
    enum mds_rc rc;
};

/* A layout that fits, unless it is there. */
void mds_search_add_fit(struct search *s, const struct mds_plan_entry *e);
void mds_search_add_reject(struct search *s, const struct mds_plan_entry *e,
                           int divides, const char *why);

/* Where ranks have thousands of micro-batches one grid takes many seconds, so this is
 * asked before each dry run. */
int mds_search_is_late(const struct search *s);

/* Dry runs of a layout.  0 if the model does not divide so; then mds_fail_text() says
 * why.  try: brief ones, if it is none of the last. */
int mds_search_run(struct search *s, struct mds_plan_entry *e,
                   enum mds_predict_how how);
int mds_search_try(struct search *s, struct mds_plan_entry *e);

/* A grid's layout with those ways to save memory, around what is fixed. */
struct mds_plan_entry mds_search_entry(const struct search *s,
                                       const struct mds_layout *grid, int place,
                                       int level);

/* Adds what fits of a grid: for each place of weights and states the fastest. */
void mds_search_places(struct search *s, const struct mds_layout *grid);

#endif
