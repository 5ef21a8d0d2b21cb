/* SPDX-License-Identifier: BSD-3-Clause */
/* CPU affinity: the cores that are local to each GPU of this host (by hwloc). */
#ifndef MDS_LAUNCH_AFFINITY_H
#define MDS_LAUNCH_AFFINITY_H

#include "launch/launch.h"

#include <stdio.h>

enum { MDS_AFFINITY_GPUS = 64, MDS_AFFINITY_THREADS = 4096 };

struct mds_gpu_affinity {
    char bus[24]; /* "0000:07:00.0" */
    int numa;     /* the NUMA node's number; -1: there are several, or none */
    /* Hardware threads by the operating system's numbers.  GPUs local to the same cores
     * divide them evenly; all threads of a core go to the same GPU. */
    short *thread;
    int threads;
};

/* GPUs in nvidia-smi's order, or in PCI bus order without nvidia-smi. */
struct mds_affinity {
    struct mds_gpu_affinity gpu[MDS_AFFINITY_GPUS];
    int count;
    char note[256]; /* why count is 0, or "" */
};

/* Never fails; out->note says what could not be found. */
void mds_affinity_find(struct mds_affinity *out);
void mds_affinity_fini(struct mds_affinity *n);

/* Print one line per GPU, or the note. */
void mds_affinity_print(const struct mds_affinity *n, FILE *f);

/* Append the CPU binding of local ranks 0 .. ranks - 1, rank i on GPU order[i], in the
 * launcher's syntax:
 *   PALS   0-7,32-39:8-15,40-47        ranks by colons
 *   Slurm  0xff000000ff,0xff000000ff00  masks, by commas
 *   hydra  0+1+2+3,4+5+6+7             ranks by commas
 *
 * Returns 0, or -1 if a GPU is unknown or the launcher has no such option. */
int mds_affinity_list(const struct mds_affinity *n, enum mds_launcher launcher,
                      const int *order, int ranks, struct mds_str *out);

#endif
