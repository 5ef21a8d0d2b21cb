/* SPDX-License-Identifier: BSD-3-Clause */
/* Where ranks can go, or were put: nodes, ranks, GPUs, each from whoever knows. */
#ifndef MDS_LAUNCH_PLACEMENT_H
#define MDS_LAUNCH_PLACEMENT_H

#include "base/host.h"
#include "launch/hosts.h"
#include "plan/machine.h"

#include <stdio.h>

/* What one source says; -1 (or no hosts) where it says nothing. */
struct mds_finding {
    const char *source; /* "PMIx", "PBS (PBS_NODEFILE)" */
    int nodes, ranks, local_ranks;
    int rank, local_rank, node; /* this process; node: its place among them */
    int gpus;                   /* of a node */
    struct mds_hosts hosts;
    int is_user;    /* the list is somebody's own, not a batch system's */
    char note[256]; /* what kept it from saying more, or "" */
    char about[96]; /* the GPUs' name, or "" */
};

enum { MDS_FINDINGS = 16 };

/* All that was found, the most trustworthy first. */
struct mds_placement {
    char host[MDS_HOST_SIZE]; /* this one */
    struct mds_finding found[MDS_FINDINGS];
    int count;

    /* The verdict: of each the first that says it. */
    int nodes, gpus; /* gpus: of a node */
    const char *nodes_from, *gpus_from;
    int slots; /* ranks that the list has room for on each node; 0: not said */
};

/* Ask PMIx, the launcher's environment, the batch system, HOSTFILE (hostfile, unless
 * NULL: it wins), then this host's GPUs (NULL: not known) and the profile.  MDS_EUSER
 * for what cannot be read: a user's HOSTFILE with a node twice, a list that is no list.
 */
enum mds_rc mds_placement_find(const struct mds_machine *m, const char *hostfile,
                               const struct mds_gpus *here, struct mds_placement *out);
void mds_placement_fini(struct mds_placement *p);

/* The list of nodes that counts; NULL if nobody has one. */
const struct mds_hosts *mds_placement_hosts(const struct mds_placement *p);

/* Log what kept a source from saying more. */
void mds_placement_warn(const struct mds_placement *p);

/* What was found, by source; then each disagreement.  Returns how many there were. */
int mds_placement_print(const struct mds_placement *p, FILE *f);

/* ---- the sources; each adds at most one finding ---- */

/* A new finding that says nothing yet; NULL if there is no room. */
struct mds_finding *mds_placement_add(struct mds_placement *p, const char *source);

void mds_find_pmix(struct mds_placement *p);         /* pmix.c */
void mds_find_launchers(struct mds_placement *p);    /* launchers.c */
enum mds_rc mds_find_batch(struct mds_placement *p); /* batch_nodes.c */
void mds_find_gpus(struct mds_placement *p, const struct mds_gpus *here); /* gpus.c */

/* What nvidia-smi says of this host, 0 if it cannot be run or fails; and how many of
 * them CUDA_VISIBLE_DEVICES leaves, -1 if it is not set. */
int mds_gpus_ask(struct mds_gpus *g);
int mds_gpus_visible(void);

/* An environment variable as a number, or -1. */
int mds_env_number(const char *name);

#endif
