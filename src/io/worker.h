/* SPDX-License-Identifier: BSD-3-Clause */
/* A small thread pool that runs tasks in the order given, in the background.
 *
 * Tasks must not call comm/ or device/, which are not thread-safe.  They report failure
 * in their own fields, because mds_fail keeps its message per thread. */
#ifndef MDS_IO_WORKER_H
#define MDS_IO_WORKER_H

#include "base/status.h"

struct mds_worker;

/* One task.  The caller embeds it, zero-initialised except for `run`, and must not
 * touch it or the data it uses between start and wait. */
struct mds_task {
    void (*run)(struct mds_task *job);
    struct mds_task *next; /* these are worker.c's */
    int busy;
};

/* The threads block all signals, so the caller's threads handle them. */
enum mds_rc mds_worker_create(int threads, struct mds_worker **out);

/* Finishes the tasks that were started.  NULL is fine. */
void mds_worker_destroy(struct mds_worker *w);

void mds_worker_start(struct mds_worker *w, struct mds_task *job);

/* Whether the task has finished; true if it was never started. */
int mds_worker_done(struct mds_worker *w, struct mds_task *job);

/* Block until the task has finished; returns at once if it was never started. */
void mds_worker_wait(struct mds_worker *w, struct mds_task *job);

#endif
