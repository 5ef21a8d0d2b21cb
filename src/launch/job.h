/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs for a batch system: their script, its limits, its submission. */
#ifndef MDS_LAUNCH_JOB_H
#define MDS_LAUNCH_JOB_H

#include "launch/launch.h"

struct mds_job {
    const struct mds_launch *launch;   /* borrowed, as is all here */
    const struct mds_words *arguments; /* mds_pretrain's, in full */
    const char *name, *folder;         /* folder: of this run, made by the caller */
    const char *checkpoints;           /* what --save names */
    const char *load;            /* what --load names if that is another, or NULL */
    const char *queue, *project; /* NULL: none given */
    double walltime_s;           /* 0: none given */
    double margin_s;             /* leave so long before that */
    int64_t chain;               /* jobs that follow each other */
};

/* What its queue gives to so many nodes; NULL: none is given, or takes them. */
const struct mds_queue *mds_job_queue(const struct mds_job *j);

/* All that is wrong with queue, nodes and walltime, by the profile. */
void mds_job_check(const struct mds_job *j, struct mds_diag *diag);

/* The script: the batch system's directives, mds_launch with every argument, and what
 * follows from how that ended.  script.c says how a job goes on. */
void mds_job_script(const struct mds_job *j, struct mds_str *out);

/* Add --keep-last where the user has not said it; *kept: how many that keeps, 0, all,
 * where more than that are there already, which no default is to remove. */
enum mds_rc mds_job_keep(const struct mds_job *j, struct mds_words *words,
                         int64_t *kept);

/* Log what a checkpoint takes, and for how many its file system has room. */
enum mds_rc mds_job_tell_room(const struct mds_job *j, const struct mds_estimate *e,
                              int64_t kept);

/* Submit the script `path`, to begin after job `after` has ended (NULL: at once); id
 * receives the job's.  Where there is no batch system it is run, its output goes to
 * folder/job.log, and the id is "local"; more: other jobs go on where it leaves. */
enum mds_rc mds_job_submit(enum mds_scheduler scheduler, const char *folder,
                           const char *path, const char *after, int more, char *id,
                           size_t size);

/* Submit folder/job.sh n times, each after the one before; record and print those that
 * were, also when a later one is refused.  If a batch system takes none the folder is
 * discarded. */
enum mds_rc mds_job_chain(enum mds_scheduler scheduler, const char *folder, int64_t n);

/* Write into folder/run.yaml which jobs the run is: "12", or "12, 13".  They are
 * submitted already, so a failure is a warning that names them. */
void mds_job_record(const char *folder, const char *ids);

/* A line of a script, for printf and scanf, where its queue has such a limit. */
#define MDS_JOB_AT_ONCE "# Of an array of these at most %d at once."

/* "26:00:00"; returns buf. */
const char *mds_clock_text(double s, char *buf, size_t size);

#endif
