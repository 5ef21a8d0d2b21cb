/* SPDX-License-Identifier: BSD-3-Clause */
/* When a long job reports its progress: after two seconds, then every ten. */
#ifndef MDS_BASE_PROGRESS_H
#define MDS_BASE_PROGRESS_H

struct mds_progress {
    double next_s;
};

struct mds_progress mds_progress_begin(void);

/* 1 if a report is due now. */
int mds_progress_is_due(struct mds_progress *p);

#endif
