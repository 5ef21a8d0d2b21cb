/* SPDX-License-Identifier: BSD-3-Clause */
/* The bases of features on one FASTA record: marked, or cut out. */
#ifndef MDS_DATA_FEATURE_BASES_H
#define MDS_DATA_FEATURE_BASES_H

#include "data/features.h"
#include "data/record_file.h"

#include <stddef.h>

struct mds_base_range {
    int64_t begin, end; /* bases begin .. end - 1 */
};

/* Disjoint ranges of bases, in order. */
struct mds_cover {
    struct mds_base_range *range;
    int64_t n;
};

/* All bases in any of these parts, on a record of `length` bases. */
enum mds_rc mds_cover_create(const struct mds_feature_part *parts, int64_t n,
                             int64_t length, struct mds_cover *out);
void mds_cover_fini(struct mds_cover *c); /* a zeroed struct is fine */

/* Set MDS_BASE_MARKED in those of bases[n] that are covered; bases[0] is base `at` of
 * the record. */
void mds_cover_mark(const struct mds_cover *c, int64_t at, unsigned char *bases,
                    size_t n);

/* Copy n parts, in order, from the record to *to, which is emptied. */
enum mds_rc mds_feature_cut(const struct mds_feature_part *parts, int64_t n,
                            const struct mds_record_file *record,
                            struct mds_record_file *to);

#endif
