/* Sums in f32 of what kernels leave in the type of activations. */
#ifndef MDS_PARALLEL_SUMS_H
#define MDS_PARALLEL_SUMS_H

#include "parallel/par.h"

/* sum[n] f32 (=: first, else +=) x[n] of p's dtype.  With working memory for a stretch
 * of x at a time. */
enum mds_rc mds_sum(const struct mds_par *p, int first, int64_t n, const void *x,
                    float *sum);

/* The sum as the type of activations: y[n]. */
enum mds_rc mds_sum_store(const struct mds_par *p, int64_t n, const float *sum,
                          void *y);

#endif
