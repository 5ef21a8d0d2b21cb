/* SPDX-License-Identifier: BSD-3-Clause */
/* The host that this process runs on, and what Slurm says of those of a job. */
#ifndef MDS_BASE_HOST_H
#define MDS_BASE_HOST_H

enum { MDS_HOST_SIZE = 256 };

/* Its name, as `hostname` prints it; "unknown-host" if it cannot be told. */
void mds_host_name(char host[MDS_HOST_SIZE]);

/* Slurm writes 4 4 8 as "4(x2),8": the number of that node; -1 if there is none, or no
 * list. */
int mds_slurm_number(const char *list, int node);

#endif
