/* Where tensor-parallel products begin and end: Megatron's f and g, and their
 * sequence-parallel kin.  A pair of linears split by columns, then by rows, reads
 *
 *     x' = enter(x);  h = act(x' A_t^T);  y = leave(h B_t^T)
 *
 * and its backward is the same from the other end: dy enters, dx leaves.
 *
 *              without         with sequence parallelism: x and y [rows/tp, width]
 *     enter    nothing         all-gather rows
 *     leave    all-reduce      reduce-scatter rows
 *
 * Rows travel in a few chunks (mds_par.chunks): each sets out when it is made, and is
 * waited for where it is read, so that products of others run meanwhile.  Who leaves a
 * flow that has not ended, because something failed, ends the run.
 *
 * Sources: Shoeybi et al. 2019, arXiv:1909.08053; Korthikanti et al. 2022,
 * arXiv:2205.05198.  All are collective over the tp group. */
#ifndef MDS_PARALLEL_TENSOR_PARALLEL_H
#define MDS_PARALLEL_TENSOR_PARALLEL_H

#include "parallel/par.h"

/* In how many chunks rows of so many bytes should travel.  wanted 0: two hide half of
 * what a product waits for, and half of what waits for it; short messages would only
 * become slower. */
int mds_tp_chunks(int64_t wanted, int64_t bytes);

/* Rows on their way into products, or out of them. */
struct mds_tp_flow {
    void *rows; /* [rows, width]: what products read, or the partial sums they write */
    void *y;    /* out: [slice rows, width], borrowed */
    int64_t width;
    void *work[MDS_SHARD_CHUNKS]; /* out: of the sums */
    struct mds_comm_req req[MDS_SHARD_CHUNKS];
    int started, met; /* chunks */
};

/* x [slice rows, width] sets out for in->rows, which is x itself or working memory.
 * wait: the first `rows` rows are there.  Until all are, x stays as it is, and *in
 * where it is. */
enum mds_rc mds_tp_enter_start(const struct mds_par *p, const void *x, int64_t width,
                               struct mds_tp_flow *in);
enum mds_rc mds_tp_enter_wait(const struct mds_par *p, struct mds_tp_flow *in,
                              int64_t rows);

/* out->rows, for the partial sums of what becomes y [slice rows, width]: y itself if
 * that is where they stay, else working memory.  start: the first `rows` rows are
 * complete, and set out; wait, after the last: y is the sum. */
enum mds_rc mds_tp_leave_open(const struct mds_par *p, void *y, int64_t width,
                              struct mds_tp_flow *out);
enum mds_rc mds_tp_leave_start(const struct mds_par *p, struct mds_tp_flow *out,
                               int64_t rows);
enum mds_rc mds_tp_leave_wait(struct mds_tp_flow *out);

/* From row `at` on, how many rows arrive together, and set out together; 0 behind the
 * last. */
int64_t mds_tp_enter_rows(const struct mds_par *p, int64_t at);
int64_t mds_tp_leave_rows(const struct mds_par *p, int64_t at);

/* start and wait, all rows. */
enum mds_rc mds_tp_enter(const struct mds_par *p, const void *x, int64_t width,
                         struct mds_tp_flow *in);
enum mds_rc mds_tp_leave(const struct mds_par *p, struct mds_tp_flow *out);

/* x [n], of parameters that each tp rank applied to its own slice of rows, becomes the
 * sum over the group. */
enum mds_rc mds_tp_sum(const struct mds_par *p, float *x, int64_t n);

#endif
