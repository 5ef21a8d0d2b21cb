/* SPDX-License-Identifier: BSD-3-Clause */
/* Node lists, in the formats that batch systems and users write. */
#ifndef MDS_LAUNCH_HOSTS_H
#define MDS_LAUNCH_HOSTS_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Nodes in order, normally each once.  Zero-initialise. */
struct mds_hosts {
    char **name;
    int *slots; /* ranks per node: how often it is listed, or its slots= */
    size_t count;
    int has_slots; /* the file gives slots: by slots=, or by repeating a node */
};

void mds_hosts_fini(struct mds_hosts *h);

/* Where the node is in the list; "n5" and "n5.site.org" are the same.  -1: nowhere. */
int64_t mds_hosts_find(const struct mds_hosts *h, const char *name);

/* Remove the nodes that are in `bad`.  Returns how many were removed. */
size_t mds_hosts_remove(struct mds_hosts *h, const struct mds_hosts *bad);

/* Expand a node list as Slurm writes it, "a,node[1-3,07],rack[1-2]n[0-3]", or PBS,
 * "n1+n2", to at most 100000 nodes.  MDS_EUSER quotes the part that cannot be
 * parsed. */
enum mds_rc mds_hosts_expand(const char *text, struct mds_hosts *out);

/* Read a hostfile with one node per line: "name", "name slots=N" or "name:N".  Batch
 * systems repeat a node once per rank.  With strict a repeated node and a blank line
 * between nodes are MDS_EUSER, with "path:line".  So is an empty file, always. */
enum mds_rc mds_hosts_read(const char *path, int strict, struct mds_hosts *out);

/* Read nodes to leave out: lists as for mds_hosts_expand, separated by white space, and
 * comments from # on.  A node may be listed repeatedly, and is then in *out repeatedly;
 * the file may be empty, or not exist yet.  MDS_EUSER gives "path:line". */
enum mds_rc mds_hosts_read_excluded(const char *path, struct mds_hosts *out);

#endif
