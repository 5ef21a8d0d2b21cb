/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of nodes, in the forms that batch systems and users write them. */
#ifndef MDS_LAUNCH_HOSTS_H
#define MDS_LAUNCH_HOSTS_H

#include "base/status.h"

#include <stddef.h>

/* Nodes in order, each once.  Zero-initialise. */
struct mds_hosts {
    char **name;
    int *slots; /* ranks it takes: how often it stood there, or what slots= says */
    size_t count;
    int said; /* a file says slots= of one, or has one more than once */
};

void mds_hosts_fini(struct mds_hosts *h);

/* Slurm's form: "a,node[1-3,07],rack[1-2]n[0-3]".  MDS_EUSER names what cannot be read,
 * with at most 100000 nodes. */
enum mds_rc mds_hosts_expand(const char *text, struct mds_hosts *out);

/* A file with one node a line: "name", "name slots=N" or "name:N".  Batch systems
 * repeat a node once per rank it takes; with strict that is MDS_EUSER, as is a blank
 * line in between, "path:line" either way.  An empty file is MDS_EUSER. */
enum mds_rc mds_hosts_read(const char *path, int strict, struct mds_hosts *out);

#endif
