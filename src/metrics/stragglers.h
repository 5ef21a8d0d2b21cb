/* SPDX-License-Identifier: BSD-3-Clause */
/* Find the straggler: the rank that the others wait for. */
#ifndef MDS_METRICS_STRAGGLERS_H
#define MDS_METRICS_STRAGGLERS_H

#include "base/status.h"

/* One rank's measured step.  Only ranks of the same pipeline stage have equal work. */
struct mds_rank_time {
    double step_s, wait_s; /* wait_s: how much of step_s it waited for other ranks */
    int stage;
};

/* The rank whose own time, step_s - wait_s, exceeds the median of its stage the most.
 * In a stage of two ranks the median is the faster rank's time. */
struct mds_straggler {
    int rank;
    double step_s, wait_s;
    double median_own_s; /* of its stage */
    double most_wait_s;  /* the longest that any rank waited */
    double excess;       /* own time above the median, as a fraction of it */
};

enum mds_rc mds_straggler_find(const struct mds_rank_time *t, int ranks,
                               struct mds_straggler *out);

/* Zero it before the first call. */
struct mds_straggler_history {
    int slow;   /* 1 + the rank that was slow in the latest measured step; 0: none */
    int times;  /* in how many measured steps in a row that rank was slow */
    int warned; /* 1 + the rank of the latest warning; 0: none yet */
};

/* Add a measured step.  Its straggler counts as slow if it is both 20 ms and `fraction`
 * above the median.  Returns whether to warn: 1 if this rank has now been slow in four
 * measured steps in a row and the latest warning was not about it. */
int mds_straggler_needs_warning(struct mds_straggler_history *h,
                                const struct mds_straggler *s, double fraction);

#endif
