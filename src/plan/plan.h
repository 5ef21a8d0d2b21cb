/* SPDX-License-Identifier: BSD-3-Clause */
/* The search for a layout: every one that divides, by dry runs, fastest first. */
#ifndef MDS_PLAN_PLAN_H
#define MDS_PLAN_PLAN_H

#include "plan/layout.h"
#include "plan/predict.h"

#include <stdio.h>

struct mds_plan_request {
    const struct mds_machine *machine; /* borrowed, as is run */
    const struct mds_config_run *run;  /* read, not resolved */
    int64_t world, per_node;
    /* Members of layouts (bits as in mds_layout_fixed) that are searched even though
     * the user fixed them. */
    unsigned freed;
    double budget_s; /* no dry run starts later, except for the winner and the row of
                        the model table */
};

struct mds_plan_entry {
    struct mds_layout layout;
    struct mds_estimate estimate;
};

/* A rejected grid of ranks, with its least-memory layout if there is one. */
struct mds_plan_reject {
    struct mds_plan_entry entry;
    int divides; /* 0: the model cannot be divided like this; no estimate */
    char why[256];
};

struct mds_plan {
    /* Layouts at least half as fast as the best, and a few others.  The first three
     * were run in full, others may be estimates from shortened dry runs.  Fastest
     * first, with a penalty of 2 % for each thing on the host; a row of the model table
     * comes first unless it is only half as fast. */
    struct mds_plan_entry *fits;
    size_t fit_count;
    struct mds_plan_reject
        *rejects; /* nearest to fitting first, then those that do not divide */
    size_t reject_count;
    unsigned fixed;      /* mds_layout_fixed */
    char origin[256];    /* of the model table's row for this, or "" */
    char row_fault[256]; /* why that row is not fits[0], or "" */
    int64_t dry_runs;    /* dry runs */
    int64_t untried;     /* grids that were not, or not fully, tried in time */
    int64_t slow;        /* grids skipped: less than half as fast as the best */
    double first_s;      /* time until the first layout that fits */
    double took_s;
};

enum mds_rc mds_plan_search(const struct mds_plan_request *r, struct mds_diag *diag,
                            struct mds_plan *out);
void mds_plan_fini(struct mds_plan *p);

enum mds_plan_answer {
    MDS_PLAN_NO,      /* nothing fits */
    MDS_PLAN_YES,     /* *best does */
    MDS_PLAN_UNKNOWN, /* nothing fitted within the time, or the search failed */
};

/* Whether a layout fits at that length.  Looks for a sixteenth of the budget.  *rc is
 * set in any case: MDS_OK, or why the search failed. */
enum mds_plan_answer mds_plan_fits(const struct mds_plan_request *r, int64_t seq,
                                   struct mds_plan_entry *best, enum mds_rc *rc);

/* The longest sequence for which a layout fits, to one part in 256, and that layout. */
struct mds_plan_longest {
    int64_t seq; /* 0 if none fits at all */
    struct mds_plan_entry best;
    int64_t dry_runs; /* dry runs */
    int64_t untried;  /* grids that were not, or not fully, tried in time */
    double took_s;
};

/* The configuration's length does not matter. */
enum mds_rc mds_plan_max_seq(const struct mds_plan_request *r,
                             struct mds_plan_longest *out);

/* The table of the best `rows`, the winner's memory and time by purpose, and what is
 * out. */
void mds_plan_print(const struct mds_plan_request *r, const struct mds_plan *p,
                    int64_t rows, FILE *f);

/* Print what would fit, each by a dry run: the plan's first layout or, if nothing fits,
 * other lengths, settings and numbers of nodes. */
void mds_plan_advise(const struct mds_plan_request *r, const struct mds_plan *p,
                     FILE *f);

/* For a plan without a fit: MDS_EUSER, with the reason as mds_fail_text(). */
enum mds_rc mds_plan_refuse(const struct mds_plan_request *r, const struct mds_plan *p);

/* "tensor 4, pipeline 2, data 4, ZeRO 1, full recompute": what differs from 1 and none.
 */
void mds_layout_describe(const struct mds_layout *l, int64_t world,
                         struct mds_str *out);

#endif
