/* How batch systems spell what all of them know. */
#ifndef MDS_LAUNCH_DIALECT_H
#define MDS_LAUNCH_DIALECT_H

#include "plan/machine.h"

/* NULL: it has no such thing. */
struct mds_dialect {
    const char *prefix; /* of a directive: "#PBS " */

    /* Directives, before their value. */
    const char *name, *queue, *project, *walltime, *nodes, *output, *warning, *array;
    const char *fixed;      /* whole */
    const char *rerun[2];   /* whole: that a job may not, or may, be started twice */
    const char *log, *logs; /* the output's name in a folder; that of an array's jobs */
    const char *folder,
        *index; /* variables: where it was submitted; which of an array */

    const char *submit, *after; /* a script; that it waits for a job */
    const char *again; /* the same from within the job, the script is to follow; NULL:
                          scontrol requeue */
};

const struct mds_dialect *mds_dialect_of(enum mds_scheduler scheduler);

#endif
