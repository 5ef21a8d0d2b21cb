/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run's folder says of it besides its steps: events.jsonl and run.yaml
 * (docs/events.md). */
#ifndef MDS_LAUNCH_HISTORY_H
#define MDS_LAUNCH_HISTORY_H

#include "launch/argv.h"

#include "base/status.h"

#include <stddef.h>

/* One start of the ranks.  Times are seconds since 1970. */
struct mds_stint {
    double nodes, began_s, ended_s; /* ended_s: the last sign of life */
    int has_loss;                   /* a rank of it was lost */
};

struct mds_history {
    struct mds_stint *stint; /* [stints], in order; owned */
    size_t stints;
    struct mds_argv
        losses; /* "on 2026-11-23 10:11:12 UTC rank 1 on n4 was killed ..." */
    struct mds_argv asked; /* the options that the user set, as words */
};

/* Read what is there of both files.  The caller frees *out by mds_history_fini, also
 * after a failure. */
enum mds_rc mds_history_read(const char *folder, struct mds_history *out);
void mds_history_fini(struct mds_history *h);

/* The run made a step then. */
void mds_history_note_step(struct mds_history *h, double wall_s);

/* NAN if no event says when ranks were started. */
double mds_history_node_hours(const struct mds_history *h);

/* The value of an option among the words in `asked`, which for several words is
 * appended to out with blanks between, "on" without one.  Whether it is there. */
int mds_history_option(const struct mds_argv *asked, const char *flag,
                       struct mds_str *out);

#endif
