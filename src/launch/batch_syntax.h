/* SPDX-License-Identifier: BSD-3-Clause */
/* The directives, variables and commands of each batch system. */
#ifndef MDS_LAUNCH_BATCH_SYNTAX_H
#define MDS_LAUNCH_BATCH_SYNTAX_H

#include "plan/machine.h"

/* One batch system's spellings; NULL if it has no such thing. */
struct mds_batch_syntax {
    const char *prefix; /* of a directive: "#PBS " */

    /* Directives, up to their value. */
    const char *name, *queue, *project, *walltime, *nodes, *output, *warning, *exclude;
    const char *fixed; /* whole */
    const char
        *rerun[2];       /* whole: [0] the job is not to be started twice, [1] it may */
    const char *outlive; /* whole: the job goes on when it loses a node */
    const char *log;     /* the output's name in a folder */
    int live; /* the job has to write its log itself, to be read while it runs */
    const char *folder; /* the variable with the folder it was submitted in */
    const char *id;     /* the variable that has the id of this job */

    /* Variables of a job: the path of the list of its nodes; or that list, in short,
     * with an older name for it, and how many they are; GPUs of this node.  source: how
     * messages name them. */
    const char *nodefile, *nodelist, *old_nodelist, *node_count, *gpus, *source;

    const char *submit;    /* the command that submits a script */
    const char *cancel;    /* the command that cancels jobs */
    const char *update;    /* keeps a waiting $job from getting the nodes $excluded */
    const char *after;     /* its option to wait for a job, before that one's id */
    const char *preempted; /* succeeds in a job that is being preempted, and has to
                              requeue itself if it ends before it is killed */
    const char *again; /* submits the job's script from within the job; NULL: scontrol
                           requeue does */
};

enum { MDS_SCHEDULERS = MDS_SCHEDULER_COBALT + 1 };

const struct mds_batch_syntax *mds_batch_syntax_of(enum mds_scheduler scheduler);

/* The list of this job's nodes that the batch system wrote, or NULL. */
const char *mds_batch_nodefile(void);

#endif
