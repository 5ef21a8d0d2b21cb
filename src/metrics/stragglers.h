/* SPDX-License-Identifier: BSD-3-Clause */
/* Which rank do the others wait for? */
#ifndef MDS_METRICS_STRAGGLERS_H
#define MDS_METRICS_STRAGGLERS_H

#include "base/status.h"

/* One rank's measured step; stage: ranks of one pipeline stage have the same work. */
struct mds_rank_time {
    double step_s, wait_s; /* wait_s: the part in which it waited for other ranks */
    int stage;
};

/* The rank whose own time, step_s - wait_s, is furthest above the median of its stage
 * (of two, above the other's). */
struct mds_straggler {
    int rank;
    double step_s, wait_s;
    double median_own_s; /* of its stage */
    double most_wait_s;  /* the longest that any rank waited */
    double excess;       /* own time above the median, as a fraction of it */
};

enum mds_rc mds_straggler_find(const struct mds_rank_time *t, int ranks,
                               struct mds_straggler *out);

/* What has been seen so far; zeroed before the first call. */
struct mds_straggler_history {
    int slow;   /* 1 + the rank that was slow in the latest measured step; 0: none */
    int times;  /* in how many measured steps in a row */
    int warned; /* 1 + the rank of the latest warning */
};

/* Add a measured step, in which a rank is slow if it is 20 ms and this fraction above
 * the median.  1: this rank was slow in four measured steps in a row, and was not the
 * one of the latest warning. */
int mds_straggler_is_news(struct mds_straggler_history *h,
                          const struct mds_straggler *s, double fraction);

#endif
