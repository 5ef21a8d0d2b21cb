/* SPDX-License-Identifier: BSD-3-Clause */
/* Which elements of a whole tensor a file holds: arithmetic only. */
#ifndef MDS_CKPT_PART_H
#define MDS_CKPT_PART_H

#include "tensor/params.h"

#include <stdint.h>

/* Rows row .. row + rows - 1 of columns col .. col + cols - 1 of a tensor, row after
 * row from element `at` on of a list (in a file: of the tensor's data set there).  A
 * vector is one column.  Seven integers, as in the tables of index.h5. */
struct mds_part {
    int64_t tensor, file, at, row, rows, col, cols;
};
enum { MDS_PART_COLUMNS = 7, MDS_PART_SPLIT = 3 };

/* Elements first .. first + n - 1 of a rank's share of a parameter, as parts of the
 * whole (the rest of a row, whole rows, the begin of a row); `at` counts from 0.
 * Returns how many; tensor and file are 0. */
int mds_part_split(const struct mds_param *p, int64_t first, int64_t n,
                   struct mds_part out[MDS_PART_SPLIT]);

/* What two parts of a tensor have in common; 0 if nothing.  `at` is not set. */
int mds_part_meet(const struct mds_part *a, const struct mds_part *b,
                  struct mds_part *out);

/* Where in the list of `whole` its sub-part `sub` begins. */
int64_t mds_part_offset(const struct mds_part *whole, const struct mds_part *sub);

#endif
