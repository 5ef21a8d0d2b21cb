/* SPDX-License-Identifier: BSD-3-Clause */
/* The name of this host, and a reader of Slurm's lists of numbers per node. */
#ifndef MDS_BASE_HOST_H
#define MDS_BASE_HOST_H

enum { MDS_HOST_SIZE = 256 };

/* The name that `hostname` prints; "unknown-host" if gethostname fails. */
void mds_host_name(char host[MDS_HOST_SIZE]);

/* Entry `node` of a list in which Slurm writes 4 4 8 as "4(x2),8"; -1 if the list has
 * no such entry, is malformed or is NULL. */
int mds_slurm_list_entry(const char *list, int node);

#endif
