/* SPDX-License-Identifier: BSD-3-Clause */
/* How much two checkpoints differ. */
#ifndef MDS_CKPT_COMPARE_H
#define MDS_CKPT_COMPARE_H

#include "ckpt/reader.h"

/* The difference of one tensor in two checkpoints, a and b. */
struct mds_ckpt_distance {
    double relative; /* |a - b| / |a| in the L2 norm; infinite if only |a| is 0 */
    double most;     /* the largest |a - b| of any element */
    int64_t unequal; /* number of elements whose bits differ */
};

/* Compare the first `rows` rows of a's tensor ta and b's tensor tb; both have the same
 * number of columns.  A NaN in only one of them counts as an infinite difference. */
enum mds_rc mds_ckpt_compare(struct mds_ckpt_reader *a, int64_t ta,
                             struct mds_ckpt_reader *b, int64_t tb,
                             enum mds_ckpt_what what, int64_t rows,
                             struct mds_ckpt_distance *out);

#endif
