/* SPDX-License-Identifier: BSD-3-Clause */
/* The communication around tensor-parallel GEMMs: Megatron's f and g, and their
 * sequence-parallel forms.  A pair of linears split by columns, then by rows, is
 *
 *     x' = gather(x);  h = act(x' A_t^T);  y = reduce(h B_t^T)
 *
 * and its backward is the same in the other direction: dy is gathered, dx reduced.
 *
 *              without         with sequence parallelism: x and y [rows/tp, width]
 *     gather   nothing         all-gather rows
 *     reduce   all-reduce      reduce-scatter rows
 *
 * Rows are sent in a few chunks (mds_par.chunks): each is sent when it is complete and
 * waited for where it is read, so that GEMMs of other chunks overlap with it.  After a
 * failure between start and wait, requests still refer to the handle and its buffers:
 * the run has to end.
 *
 * Sources: Shoeybi et al. 2019, arXiv:1909.08053; Korthikanti et al. 2022,
 * arXiv:2205.05198.  All are collective over the tp group. */
#ifndef MDS_PARALLEL_TENSOR_PARALLEL_H
#define MDS_PARALLEL_TENSOR_PARALLEL_H

#include "parallel/par.h"

/* The number of chunks in which to send `bytes` bytes of rows: `wanted`, unless that is
 * 0.  Then two, so that each half is sent while the GEMM of the other half runs; or one
 * below 16 MiB, where smaller messages would only be slower. */
int mds_tp_chunks(int64_t wanted, int64_t bytes);

/* A gather (in) or a reduction (out) in progress. */
struct mds_tp_handle {
    void *rows; /* [rows, width]: what GEMMs read, or the partial sums they write */
    void *y;    /* out: [slice rows, width], borrowed: where the sums go */
    int64_t width;
    void *work[MDS_SHARD_CHUNKS]; /* out: working memory of each chunk's sum */
    struct mds_comm_req req[MDS_SHARD_CHUNKS];
    int started, waited; /* chunks started; chunks waited for */
};

/* start: begin to gather x [slice rows, width] into in->rows, which is x itself or
 * working memory.  wait: wait until the first `rows` rows of in->rows may be read.  x
 * must not change and *in must not move until all rows have been waited for. */
enum mds_rc mds_tp_gather_start(const struct mds_par *p, const void *x, int64_t width,
                                struct mds_tp_handle *in);
enum mds_rc mds_tp_gather_wait(const struct mds_par *p, struct mds_tp_handle *in,
                               int64_t rows);

/* open: set out->rows, where GEMMs write their partial sums: y [slice rows, width]
 * itself or working memory.  start: the first `rows` rows are written; begin to reduce
 * the chunks that are complete.  wait, after the last start: y holds the sums. */
enum mds_rc mds_tp_reduce_open(const struct mds_par *p, void *y, int64_t width,
                               struct mds_tp_handle *out);
enum mds_rc mds_tp_reduce_start(const struct mds_par *p, struct mds_tp_handle *out,
                                int64_t rows);
enum mds_rc mds_tp_reduce_wait(struct mds_tp_handle *out);

/* start and wait, for all rows. */
enum mds_rc mds_tp_gather(const struct mds_par *p, const void *x, int64_t width,
                          struct mds_tp_handle *in);
enum mds_rc mds_tp_reduce(const struct mds_par *p, struct mds_tp_handle *out);

#endif
