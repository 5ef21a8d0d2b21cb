/* SPDX-License-Identifier: BSD-3-Clause */
/* The cores nearest to each GPU of this host. */
#ifndef MDS_LAUNCH_NEAR_H
#define MDS_LAUNCH_NEAR_H

#include "launch/launch.h"

#include <stdio.h>

enum { MDS_NEAR_GPUS = 64, MDS_NEAR_THREADS = 4096 };

struct mds_near_gpu {
    char bus[24]; /* "0000:07:00.0" */
    int numa;     /* the NUMA node's number; -1: there are several, or none */
    /* Hardware threads by the system's numbers.  Where several GPUs are near to the
     * same cores each has its share of them, all threads of a core. */
    short *thread;
    int threads;
};

/* GPUs in nvidia-smi's order, or that of the bus where it is not there. */
struct mds_near {
    struct mds_near_gpu gpu[MDS_NEAR_GPUS];
    int count;
    char note[256]; /* why count is 0, or "" */
};

/* Never fails: what cannot be found is in the note. */
void mds_near_find(struct mds_near *out);
void mds_near_fini(struct mds_near *n);

/* A line for each GPU, or the note. */
void mds_near_print(const struct mds_near *n, FILE *f);

/* The threads of local ranks 0, 1, ... `ranks` - 1, the i-th taking GPU order[i], as
 * launchers spell them:
 *   PALS   0-7,32-39:8-15,40-47        ranks by colons
 *   Slurm  0xff000000ff,0xff000000ff00  masks, by commas
 *   hydra  0+1+2+3,4+5+6+7             ranks by commas
 *
 * Returns 0, or -1 if a GPU is not known or the launcher has no such list. */
int mds_near_list(const struct mds_near *n, enum mds_launcher launcher,
                  const int *order, int ranks, struct mds_str *out);

#endif
