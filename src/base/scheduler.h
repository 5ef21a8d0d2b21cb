/* SPDX-License-Identifier: BSD-3-Clause */
/* The batch systems: all that mds knows of one is a row of this table. */
#ifndef MDS_BASE_SCHEDULER_H
#define MDS_BASE_SCHEDULER_H

/* Texts; NULL if it has no such thing.  Those of job scripts and commands are for
 * shells. */
struct mds_scheduler {
    /* Directives, up to their value. */
    const char *prefix; /* of each: "#PBS " */
    int seconds;        /* the walltime is 7200s, not 02:00:00 */
    const char *name, *queue, *project, *walltime, *nodes, *output, *warning, *exclude;
    const char *fixed; /* whole */
    const char
        *rerun[2];       /* whole: [0] the job is not to be started twice, [1] it may */
    const char *outlive; /* whole: the job goes on when it loses a node */
    const char *log;     /* the output's name in a folder */
    const char *special; /* what it interprets in the path of a log */
    int live; /* the job has to write its log itself, to be read while it runs */

    /* Of an array: the directive, the variable with the number of this one of its jobs,
     * and what matches the array's id in a regular expression. */
    const char *array, *task, *array_id;

    /* Variables of a job: the folder that it was submitted in; its id; the cores that
     * OMP_NUM_THREADS of every job is set to; the path of the list of its nodes; or
     * that list, in short, with an older name for it, and how many they are; GPUs of
     * this node.  source: how messages name the list.  list: a command that prints the
     * list, where a job is in a variable `nodelist` that is none. */
    const char *folder, *id, *cores;
    const char *nodefile, *nodelist, *old_nodelist, *node_count, *gpus, *source;
    const char *const *list;

    /* Commands.  The id of a job that was submitted is the last line that is printed,
     * up to a blank or semicolon. */
    const char *submit;       /* submits the script behind it */
    const char *after;        /* its option to wait for a job, before that one's id */
    const char *cancel;       /* cancels the jobs behind it */
    const char *state;        /* prints the state of $job */
    const char *runs, *waits; /* states, with blanks between them: it runs, or will */

    /* Lines of a job script. */
    const char *again; /* starts the run's next job, unless this one is cancelled */
    const char *again_task; /* the same of one job, $task, of an array */
    const char *leave; /* commands from here on mean the batch system, not this job */
    const char *preempted; /* a job that is being preempted requeues itself */
    const char *update;    /* keeps a waiting $job from getting the nodes $excluded */
};

enum { MDS_SCHEDULER_NONE = 0 };

/* The names of the rows as profiles have them: "none", "pbs", ..., NULL. */
extern const char *const mds_scheduler_names[];

const struct mds_scheduler *mds_scheduler_at(int row);

/* The list of this job's nodes that the batch system wrote, or NULL. */
const char *mds_scheduler_nodefile(void);

/* The id of the batch job that this is, or NULL. */
const char *mds_scheduler_job(void);

#endif
