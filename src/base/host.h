/* SPDX-License-Identifier: BSD-3-Clause */
/* The name of this host, the folder of this program, and a reader of Slurm's lists of
 * numbers per node. */
#ifndef MDS_BASE_HOST_H
#define MDS_BASE_HOST_H

#include <stddef.h>

enum { MDS_HOST_SIZE = 256 };

/* The name that `hostname` prints; "unknown-host" if gethostname fails. */
void mds_host_name(char host[MDS_HOST_SIZE]);

/* The folder of this program's binary, without symbolic links.  Returns 0, or -1 and an
 * empty path if it is unknown. */
int mds_program_folder(char *path, size_t size);

/* Entry `node` of a list in which Slurm writes 4 4 8 as "4(x2),8"; -1 if the list has
 * no such entry, is malformed or is NULL. */
int mds_slurm_list_entry(const char *list, int node);

#endif
