/* SPDX-License-Identifier: BSD-3-Clause */
/* An indexed FASTA file, of which any part can be read; by htslib. */
#ifndef MDS_INFER_GENOME_H
#define MDS_INFER_GENOME_H

#include "base/status.h"

#include <stdint.h>

struct mds_genome;

/* Plain, or compressed by bgzip.  index: make path.fai (and .gzi) if it is missing;
 * open: that is MDS_EUSER.  MDS_ENOSUP in a build without htslib. */
enum mds_rc mds_genome_index(const char *path);
enum mds_rc mds_genome_open(const char *path, struct mds_genome **out);
void mds_genome_close(struct mds_genome *g); /* NULL is fine */

/* Bases of a sequence; -1 if there is none of that name. */
int64_t mds_genome_length(const struct mds_genome *g, const char *name);

/* Read n bases from `first` on (from 0), which are inside, as enum mds_base. */
enum mds_rc mds_genome_read(struct mds_genome *g, const char *name, int64_t first,
                            int64_t n, unsigned char *bases);

/* A letter as enum mds_base; what is not A C G T U, in either case, is N. */
unsigned char mds_genome_base(char letter);

#endif
