/* SPDX-License-Identifier: BSD-3-Clause */
/* How far two checkpoints are from each other. */
#ifndef MDS_CKPT_COMPARE_H
#define MDS_CKPT_COMPARE_H

#include "ckpt/reader.h"

/* Of a tensor in two checkpoints, a and b. */
struct mds_ckpt_distance {
    double relative; /* |a - b| / |a| in the L2 norm; infinite if only |a| is 0 */
    double most;     /* the largest |a - b| of an element */
    int64_t unequal; /* elements with other bits */
};

/* The first `rows` rows of tensor ta of a's and tb of b's, which have as many columns.
 * What is not a number in one of them alone is infinitely far from the other. */
enum mds_rc mds_ckpt_compare(struct mds_ckpt_reader *a, int64_t ta,
                             struct mds_ckpt_reader *b, int64_t tb,
                             enum mds_ckpt_what what, int64_t rows,
                             struct mds_ckpt_distance *out);

#endif
