/* SPDX-License-Identifier: BSD-3-Clause */
/* Accumulation in f32 of kernel results in the activations' type. */
#ifndef MDS_PARALLEL_SUMS_H
#define MDS_PARALLEL_SUMS_H

#include "parallel/par.h"

/* sum[n] += x[n], or with `first` sum[n] = x[n]; sum in f32, x of p->dtype.  Takes
 * working memory for 2^24 floats at most. */
enum mds_rc mds_accumulate(const struct mds_par *p, int first, int64_t n, const void *x,
                           float *sum);

/* y[n] = sum[n], rounded to p->dtype. */
enum mds_rc mds_accumulate_store(const struct mds_par *p, int64_t n, const float *sum,
                                 void *y);

#endif
