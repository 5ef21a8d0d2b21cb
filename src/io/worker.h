/* SPDX-License-Identifier: BSD-3-Clause */
/* A few threads that do jobs in the order given, beside the caller's own work.
 *
 * Jobs call neither comm/ nor device/, which know one thread only, and report failure
 * in fields of their own: mds_fail speaks to the thread it is called in. */
#ifndef MDS_IO_WORKER_H
#define MDS_IO_WORKER_H

#include "base/status.h"

struct mds_worker;

/* One job; the caller embeds it, zero-initialised but for run, and leaves it and what
 * it uses alone from start to wait. */
struct mds_task {
    void (*run)(struct mds_task *job);
    struct mds_task *next; /* these are worker.c's */
    int busy;
};

/* The threads take no signals: those stay the caller's. */
enum mds_rc mds_worker_create(int threads, struct mds_worker **out);

/* Does what was started first.  NULL is fine. */
void mds_worker_destroy(struct mds_worker *w);

void mds_worker_start(struct mds_worker *w, struct mds_task *job);

/* Whether the job is done; so is one that was never started. */
int mds_worker_done(struct mds_worker *w, struct mds_task *job);

/* Block until the job is done; at once if it was never started. */
void mds_worker_wait(struct mds_worker *w, struct mds_task *job);

#endif
