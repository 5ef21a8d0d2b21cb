/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions of a genome: a line of BED, or a feature of GFF3, is a sequence. */
#ifndef MDS_INFER_REGIONS_H
#define MDS_INFER_REGIONS_H

#include "base/status.h"

#include <stdint.h>

struct mds_infer_regions;

/* Borrowed until the next call. */
struct mds_infer_region {
    const char *name; /* NAME::chrom:start-end(strand), as bedtools getfasta; or from
                         chrom on */
    const char *chrom;
    int64_t first, n; /* bases of chrom, from 0 */
    int reverse;      /* it is read on the other strand */
};

/* path: BED of three to twelve columns between tabs, or GFF3, of which features of type
 * `feature` are read; plain or gzip.  fasta: has its index already. */
enum mds_rc mds_infer_regions_open(const char *path, const char *fasta,
                                   const char *feature, struct mds_infer_regions **out);
void mds_infer_regions_close(struct mds_infer_regions *g); /* NULL is fine */

/* The next one; *found is 0 after the last.  MDS_EUSER, with the line, if it is not in
 * the FASTA. */
enum mds_rc mds_infer_regions_next(struct mds_infer_regions *g,
                                   struct mds_infer_region *out, int *found);
/* bases[r->n], as enum mds_base, on the region's strand. */
enum mds_rc mds_infer_regions_read(struct mds_infer_regions *g,
                                   const struct mds_infer_region *r,
                                   unsigned char *bases);

#endif
