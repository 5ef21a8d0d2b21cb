/* SPDX-License-Identifier: BSD-3-Clause */
/* What is known of a run from its folder (docs/events.md) and the batch system. */
#ifndef MDS_LAUNCH_RUN_STATE_H
#define MDS_LAUNCH_RUN_STATE_H

#include "io/folder.h"
#include "launch/argv.h"
#include "plan/machine.h"

enum mds_run_phase {
    MDS_RUN_WRITTEN,    /* nothing has been started */
    MDS_RUN_QUEUED,     /* its job waits */
    MDS_RUN_STARTING,   /* ranks are being started */
    MDS_RUN_TRAINING,   /* or evaluating */
    MDS_RUN_LEAVING,    /* out of time, or told to leave: it saves */
    MDS_RUN_SILENT,     /* it should be training, but nothing has happened for long */
    MDS_RUN_UNFINISHED, /* it saved, and can go on */
    MDS_RUN_DONE,
    MDS_RUN_FAILED,
};
const char *mds_run_phase_name(enum mds_run_phase phase);

/* Numbers are NAN, iterations -1, where nothing is known.  Times are seconds since 1970
 * by the hosts' clocks. */
struct mds_run_state {
    char name[256], folder[MDS_PATH_SIZE];
    enum mds_scheduler scheduler;
    struct mds_argv jobs; /* ids of its jobs, in order; owned */
    enum mds_run_phase phase;
    int64_t iteration, last_iteration;
    double loss, validation_loss;
    double step_s, tokens_per_s; /* of the last step */
    double leaves_at;            /* when this job will leave */
    double active_at;            /* the last sign of life */
    char last[256];              /* the last event, in words; "": none */
    double last_at;
};

/* Whether a folder is one of a run. */
int mds_run_folder_is_run(const char *folder);

/* Read it, and ask the batch system for the job if that may still be there.  The caller
 * frees it by mds_run_state_fini, also after a failure. */
enum mds_rc mds_run_state_read(const char *folder, struct mds_run_state *out);
void mds_run_state_fini(struct mds_run_state *s);

/* Whether the job (one of s->jobs) waits (1) or runs (2), as the batch system says; 0:
 * it is not there. */
enum { MDS_JOB_GONE, MDS_JOB_WAITS, MDS_JOB_RUNS };
int mds_run_job_state(const struct mds_run_state *s, const char *job);

#endif
