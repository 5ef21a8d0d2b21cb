/* SPDX-License-Identifier: BSD-3-Clause */
/* Rectangular parts of tensors, and where a file holds them: arithmetic only. */
#ifndef MDS_CKPT_PART_H
#define MDS_CKPT_PART_H

#include "tensor/params.h"

#include <stdint.h>

/* Rows row .. row + rows - 1 and columns col .. col + cols - 1 of a tensor, stored
 * row-major in a list from element `at` on (in a file, the list is the tensor's data
 * set).  A vector is one column.  Seven integers, as in the tables of index.h5. */
struct mds_ckpt_part {
    int64_t tensor, file, at, row, rows, col, cols;
};
enum { MDS_PART_COLUMNS = 7, MDS_PART_SPLIT = 3 };

/* Express elements first .. first + n - 1 of a rank's shard of a parameter as parts of
 * the whole tensor: the end of a row, whole rows, the beginning of a row.  Returns how
 * many parts; `at` counts from 0, tensor and file are 0. */
int mds_part_split(const struct mds_param *p, int64_t first, int64_t n,
                   struct mds_ckpt_part out[MDS_PART_SPLIT]);

/* The intersection of two parts of a tensor; returns 0 if it is empty.  out->at is not
 * set. */
int mds_part_intersect(const struct mds_ckpt_part *a, const struct mds_ckpt_part *b,
                       struct mds_ckpt_part *out);

/* Where in the list of `whole` its sub-rectangle `sub` begins. */
int64_t mds_part_offset(const struct mds_ckpt_part *whole,
                        const struct mds_ckpt_part *sub);

#endif
