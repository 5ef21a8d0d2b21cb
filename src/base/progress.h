/* SPDX-License-Identifier: BSD-3-Clause */
/* When a long job reports its progress: after two seconds, then every ten; or, of what
 * may take days, after so many, and then each time that it has taken twice as long. */
#ifndef MDS_BASE_PROGRESS_H
#define MDS_BASE_PROGRESS_H

struct mds_progress {
    double next_s;
    double began_s; /* mds_clock_s; 0: every ten seconds */
};

struct mds_progress mds_progress_begin(void);
struct mds_progress mds_progress_doubling(double first_s);

/* 1 if a report is due now. */
int mds_progress_is_due(struct mds_progress *p);

#endif
