/* SPDX-License-Identifier: BSD-3-Clause */
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
 * Rows travel in a few chunks (mds_par.chunks): each is sent when it is complete, and
 * waited for where it is read, so that products of other chunks run meanwhile.  A
 * failure between start and wait leaves requests that refer to the flow and its
 * buffers: the run has to end.
 *
 * Sources: Shoeybi et al. 2019, arXiv:1909.08053; Korthikanti et al. 2022,
 * arXiv:2205.05198.  All are collective over the tp group. */
#ifndef MDS_PARALLEL_TENSOR_PARALLEL_H
#define MDS_PARALLEL_TENSOR_PARALLEL_H

#include "parallel/par.h"

/* In how many chunks rows of so many bytes should travel: `wanted`, or by default (0)
 * two, which hide half of each message behind the products of the other half, and one
 * below 16 MiB, where messages would only become slower. */
int mds_tp_chunks(int64_t wanted, int64_t bytes);

/* Rows on their way into products, or out of them; in: a gather's, out: a sum's. */
struct mds_tp_flow {
    void *rows; /* [rows, width]: what products read, or the partial sums they write */
    void *y;    /* out: [slice rows, width], borrowed: where the sums go */
    int64_t width;
    void *work[MDS_SHARD_CHUNKS]; /* out: working memory of each chunk's sum */
    struct mds_comm_req req[MDS_SHARD_CHUNKS];
    int started, met; /* chunks sent; chunks waited for */
};

/* start: begin to gather x [slice rows, width] into in->rows, which is x itself or
 * working memory.  wait: the first `rows` rows of in->rows may be read.  Until all have
 * been waited for, x must not change and *in must not move. */
enum mds_rc mds_tp_enter_start(const struct mds_par *p, const void *x, int64_t width,
                               struct mds_tp_flow *in);
enum mds_rc mds_tp_enter_wait(const struct mds_par *p, struct mds_tp_flow *in,
                              int64_t rows);

/* open: out->rows is where products write their partial sums: y [slice rows, width]
 * itself, or working memory.  start: the first `rows` rows are written; begin to sum
 * the chunks that are complete.  wait, after the last start: y holds the sums. */
enum mds_rc mds_tp_leave_open(const struct mds_par *p, void *y, int64_t width,
                              struct mds_tp_flow *out);
enum mds_rc mds_tp_leave_start(const struct mds_par *p, struct mds_tp_flow *out,
                               int64_t rows);
enum mds_rc mds_tp_leave_wait(struct mds_tp_flow *out);

/* How many rows from row `at` on become readable (leave: are sent) together: the rest
 * of its chunk; 0 behind the last row. */
int64_t mds_tp_enter_rows(const struct mds_par *p, int64_t at);
int64_t mds_tp_leave_rows(const struct mds_par *p, int64_t at);

/* start and wait, for all rows. */
enum mds_rc mds_tp_enter(const struct mds_par *p, const void *x, int64_t width,
                         struct mds_tp_flow *in);
enum mds_rc mds_tp_leave(const struct mds_par *p, struct mds_tp_flow *out);

#endif
