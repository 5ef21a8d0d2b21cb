/* SPDX-License-Identifier: BSD-3-Clause */
/* Which ranks and nodes a run has lost, and how it ended, by what its ranks print. */
#ifndef MDS_LAUNCH_LOSSES_H
#define MDS_LAUNCH_LOSSES_H

#include "base/host.h"

struct mds_loss {
    int rank;                 /* -1: no rank says so, but mds_launch */
    char host[MDS_HOST_SIZE]; /* as the node itself says */
    char why[192];            /* "was killed by signal 9 (Killed)" */
};

enum { MDS_LOSSES = 64 };

/* Zero-initialise. */
struct mds_losses {
    struct mds_loss v[MDS_LOSSES];
    int n;
    int in_check;      /* --preflight found them: several, and nothing was trained */
    int out_of_memory; /* the kernel killed a rank because host memory ran out */
    int silent;        /* it was silent, as a host that is gone would be */
    int stuck; /* ranks waited for one that did not come: 1 in MPI_Init, 2 later */
    int never_started; /* and did so before they began */
    int may_follow;    /* the one here may have died because another did */
    int failed;        /* a rank has ended the run with another error */
    int done;          /* no loss: the run has reached its target */
    int ended_early;   /* no loss: the run ended in order before that */
    int status;        /* of the first rank that failed, as MPI or srun says; or 0 */
};

/* Read a line of the ranks' output.  Faults that --preflight names are all kept.  Of
 * ranks that die or are silent only the first is, because the launcher then ends the
 * others.  It also does so when a rank has failed. */
void mds_losses_read(struct mds_losses *l, const char *line);

/* Add a node to them, once. */
void mds_losses_add(struct mds_losses *l, int rank, const char *host, const char *why);

#endif
