/* SPDX-License-Identifier: BSD-3-Clause */
/* Which parts of features make one sequence, and in which order.
 *
 * Parts of one ID belong together.  Parts of one Parent do where each goes on where the
 * one before it ends: on the same strand, behind it, and in the phase that follows from
 * it, as far as phases are known.  Where one does not, a sequence of its own begins.
 *
 * Around the start of a circular record (one that is called so, or else if the phases
 * fit better), the parts at its end come before those at its start. */
#ifndef MDS_DATA_FEATURE_JOIN_H
#define MDS_DATA_FEATURE_JOIN_H

#include "data/features.h"

struct mds_joined_features {
    struct mds_feature_part *part; /* those of a sequence together, as they follow each
                                      other on the forward strand; phases are known */
    int64_t *parts;                /* [n] how many each sequence has */
    int64_t n;
    int64_t apart; /* parts that do not go on where the one before them ends */
};

/* Join the n parts (as mds_features_on gives them) on a record of `length` bases. */
enum mds_rc mds_features_join(const struct mds_feature_part *parts, int64_t n,
                              int64_t length, int circular,
                              struct mds_joined_features *out);
void mds_joined_features_fini(struct mds_joined_features *f); /* zeroed is fine */

#endif
