/* SPDX-License-Identifier: BSD-3-Clause */
/* Detect the nodes, ranks and GPUs of this job from every source that knows them. */
#ifndef MDS_LAUNCH_PLACEMENT_H
#define MDS_LAUNCH_PLACEMENT_H

#include "base/host.h"
#include "launch/hosts.h"
#include "plan/machine.h"

#include <stdio.h>

/* What one source reports; -1 (or no hosts) for what it does not know. */
struct mds_finding {
    const char *source; /* "PMIx", "PBS (PBS_NODEFILE)" */
    int nodes, ranks, local_ranks;
    int rank, local_rank, node; /* of this process; node: index among the nodes */
    int gpus;                   /* per node */
    struct mds_hosts hosts;
    int is_user;    /* the list is the user's, not a batch system's */
    char note[256]; /* why it could not report more, or "" */
    char about[96]; /* the GPUs' name, or "" */
};

enum { MDS_FINDINGS = 16 };

/* All findings, the most trustworthy first, and the values chosen from them. */
struct mds_placement {
    char host[MDS_HOST_SIZE]; /* name of this host */
    struct mds_finding found[MDS_FINDINGS];
    int count;

    /* Chosen: each from the first source that reports it. */
    int nodes, gpus; /* gpus: per node */
    const char *nodes_from, *gpus_from;
    int slots;       /* ranks per node that the node list allows; 0: not given */
    size_t excluded; /* nodes of the list that were left out */
};

/* Nodes to leave out; NULL: none of that kind. */
struct mds_exclusions {
    const char *list; /* these are always left out */
    const char *file; /* those in it (one a line) as long as there are enough others */
    int64_t nodes;    /* that the run needs; 0: all of the job but `spare` */
    int64_t spare;
};

/* Query, in this order, PMIx, the launcher's environment, the batch system, this host's
 * GPUs (NULL: unknown) and the machine profile.  hostfile, unless NULL, goes before all
 * of them.  exclude may be NULL.  MDS_EUSER if a list cannot be parsed, a user's
 * hostfile repeats a node, or no node is left. */
enum mds_rc mds_placement_find(const struct mds_machine *m, const char *hostfile,
                               const struct mds_exclusions *exclude,
                               const struct mds_gpus *here, struct mds_placement *out);
void mds_placement_fini(struct mds_placement *p);

/* The node list in effect; NULL if no source has one. */
const struct mds_hosts *mds_placement_hosts(const struct mds_placement *p);

/* Leave a node out, from all lists.  It is named as in the list in effect. */
enum mds_rc mds_placement_leave_out(struct mds_placement *p, const char *node);

/* Log the notes of all sources as warnings. */
void mds_placement_warn(const struct mds_placement *p);

/* Print the findings by source, then each disagreement between them.  Returns the
 * number of disagreements. */
int mds_placement_print(const struct mds_placement *p, FILE *f);

/* ---- the sources; each adds at most one finding ---- */

/* Add an empty finding; NULL if the table is full. */
struct mds_finding *mds_placement_add(struct mds_placement *p, const char *source);

void mds_find_pmix(struct mds_placement *p);         /* pmix.c */
void mds_find_launchers(struct mds_placement *p);    /* launchers.c */
enum mds_rc mds_find_batch(struct mds_placement *p); /* batch_nodes.c */
void mds_find_gpus(struct mds_placement *p, const struct mds_gpus *here); /* gpus.c */

/* Read this host's GPUs from nvidia-smi into *g; 0 if it cannot be run or fails.  And
 * the number of GPUs in CUDA_VISIBLE_DEVICES, -1 if it is not set. */
int mds_gpus_detect(struct mds_gpus *g);
int mds_gpus_count_visible(void);

/* An environment variable as a number; -1 if it is unset or not a number. */
int mds_env_number(const char *name);

#endif
