/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention of sequences whose q, k and v do not fit on the device: they are in host
 * memory, and the device computes one chunk of queries with one chunk of keys at a
 * time.  Forward merges the results for a chunk of queries by their log-sum-exp.
 * Backward sums the gradients of each pair of chunks in f32.  While one pair is
 * computed, the next is prefetched.  Source: Yao et al. 2024, arXiv:2408.16978.
 *
 * For whole sequences on one rank: Ulysses and ring groups have one rank each. */
#ifndef MDS_PARALLEL_CHUNKED_H
#define MDS_PARALLEL_CHUNKED_H

#include "parallel/attention.h"
#include "parallel/multibuffer.h"

/* Buffers in host memory, borrowed; n tokens; of p->dtype unless declared otherwise. */
struct mds_chunked {
    void *q;       /* [n,B,A D]; backward overwrites it with its gradient */
    void *kv;      /* [n,B,2 G D]: heads of keys, then of values; likewise */
    void *o;       /* [n,B,A D] */
    void *d_o;     /* [n,B,A D]: gradient of o; for backward */
    float *dq;     /* [n,B,A D]: working memory of backward, sums in f32 */
    int64_t chunk; /* tokens of a chunk; the last may have fewer */
};

/* q, kv -> o, and its log-sum-exp lse [B,A,n] f32 on the device. */
enum mds_rc mds_chunked_fwd(const struct mds_par *p, const struct mds_attention *a,
                            const struct mds_chunked *f, float *lse);

/* q, kv, o, d_o, lse -> gradients, in place of q and kv. */
enum mds_rc mds_chunked_bwd(const struct mds_par *p, const struct mds_attention *a,
                            const struct mds_chunked *f, const float *lse);

/* ---- copying tiles of rows between the device and q and kv ---- */

struct mds_chunked_rows {
    struct mds_multibuffer q, kv;
};

/* open: allocate device memory for tiles of `rows` rows.  close: make operations queued
 * from now on wait until the host buffers are complete. */
enum mds_rc mds_chunked_open(const struct mds_par *p, const struct mds_attention *a,
                             const struct mds_chunked *f, int64_t rows,
                             struct mds_chunked_rows *out);
void mds_chunked_close(struct mds_chunked_rows *r);

/* Rotate qkv [rows, (A + 2G) D] of the tile that begins at row `row`, and store it in
 * the buffers. */
enum mds_rc mds_chunked_put(const struct mds_par *tile, const struct mds_attention *a,
                            struct mds_chunked_rows *r, int64_t row, void *qkv);
/* Fetch the gradients of such a tile from the buffers, and rotate them back. */
enum mds_rc mds_chunked_get(const struct mds_par *tile, const struct mds_attention *a,
                            struct mds_chunked_rows *r, int64_t row, void *dqkv);

#endif
