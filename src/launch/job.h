/* SPDX-License-Identifier: BSD-3-Clause */
/* Batch jobs: checking against the queue's limits, the script, and submission. */
#ifndef MDS_LAUNCH_JOB_H
#define MDS_LAUNCH_JOB_H

#include "launch/infer.h"
#include "launch/launch.h"

struct mds_job {
    const struct mds_launch *launch;    /* borrowed, as is all here */
    const struct mds_argv *arguments;   /* mds_pretrain's, in full */
    const struct mds_infer_plan *infer; /* or what mds_infer is to do */
    int64_t array;                      /* of it: jobs that share its files */
    const char *name, *folder;          /* folder: of this run, made by the caller */
    const char *checkpoints;            /* what --save names */
    const char *load;            /* what --load names if that is another, or NULL */
    const char *queue, *project; /* NULL: none given */
    double walltime_s;           /* 0: none given */
    double margin_s;             /* how long before the walltime to save and exit */
    int64_t chain;               /* jobs that follow each other */
};

/* The machine's batch system. */
const struct mds_scheduler *mds_job_scheduler(const struct mds_job *j);

/* How many nodes to ask for: those of the run and --spare-nodes. */
int64_t mds_job_nodes(const struct mds_job *j);

/* The queue's limits for this number of nodes; NULL if no queue is given or it does not
 * accept that many. */
const struct mds_queue *mds_job_queue(const struct mds_job *j);

/* Check queue, nodes, walltime, names and project against the machine profile.  All
 * faults go to diag. */
void mds_job_check(const struct mds_job *j, struct mds_diag *diag);

/* Write the job script: the batch system's directives, the mds_launch command with all
 * arguments, and what to do when it exits (script.c describes how a job continues). */
void mds_job_script(const struct mds_job *j, struct mds_str *out);

enum { MDS_JOB_KEPT = 3 };

/* Add a default --keep-last, MDS_JOB_KEPT.  *kept is its value; it is 0 (keep all) if
 * the folder has more checkpoints already, because a default must never delete any. */
enum mds_rc mds_job_add_keep_last(const struct mds_job *j, struct mds_argv *words,
                                  int64_t *kept);

/* Log the size of a checkpoint and how many fit on its file system. */
enum mds_rc mds_job_log_disk_space(const struct mds_job *j,
                                   const struct mds_estimate *e, int64_t kept);

/* Submit the folder's job.sh j->chain times, each to start after the previous one.
 * Records the jobs that were submitted, in run.yaml and as an event, and prints them,
 * even if a later one is refused.  If none was submitted the folder is removed.
 * Without a batch system the script is run here, and its output goes to the folder's
 * job.log. */
enum mds_rc mds_job_submit_chain(const struct mds_job *j);

/* Format seconds as "26:00:00"; returns buf. */
const char *mds_clock_text(double s, char *buf, size_t size);

#endif
