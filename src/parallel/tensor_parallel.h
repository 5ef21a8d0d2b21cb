/* Where tensor-parallel products begin and end: Megatron's f and g, and their
 * sequence-parallel kin.  A pair of linears split by columns, then by rows, reads
 *
 *     x' = enter(x);  h = act(x' A_t^T);  y = leave(h B_t^T)
 *
 *                 forward                          backward
 *     enter       nothing                          all-reduce
 *     leave       all-reduce                       nothing
 *   and with sequence parallelism, where x and y are [rows/tp, width]:
 *     enter       all-gather rows                  reduce-scatter rows
 *     leave       reduce-scatter rows              all-gather rows
 *
 * Sources: Shoeybi et al. 2019, arXiv:1909.08053; Korthikanti et al. 2022,
 * arXiv:2205.05198.  All are collective over the tp group. */
#ifndef MDS_PARALLEL_TENSOR_PARALLEL_H
#define MDS_PARALLEL_TENSOR_PARALLEL_H

#include "parallel/par.h"

/* x [slice rows, width] -> *full [rows, width]: x itself or working memory. */
enum mds_rc mds_tp_enter_fwd(const struct mds_par *p, const void *x, int64_t width,
                             void **full);

/* Where the partial result of the product before leave goes: y itself if that is where
 * it stays, else working memory of [rows, width]. */
enum mds_rc mds_tp_partial(const struct mds_par *p, void *y, int64_t width,
                           void **partial);

/* partial [rows, width], made by mds_tp_partial -> y [slice rows, width], the sum. */
enum mds_rc mds_tp_leave_fwd(const struct mds_par *p, void *partial, int64_t width,
                             void *y);

/* Backward of leave is enter's forward, and the other way round. */
static inline enum mds_rc mds_tp_leave_bwd(const struct mds_par *p, const void *dy,
                                           int64_t width, void **full)
{
    return mds_tp_enter_fwd(p, dy, width, full);
}

static inline enum mds_rc mds_tp_enter_bwd(const struct mds_par *p, void *partial,
                                           int64_t width, void *dx)
{
    return mds_tp_leave_fwd(p, partial, width, dx);
}

/* Gradients of parameters that each tp rank applied to its own slice of rows: the sum
 * over the group is added to grad.  fresh [n] f32, working memory, is this rank's part.
 */
enum mds_rc mds_tp_add_shared_grad(const struct mds_par *p, float *fresh, int64_t n,
                                   float *grad);

#endif
