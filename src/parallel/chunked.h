/* Attention of sequences whose q, k and v do not fit on the device: they are in host
 * memory, and a chunk of queries meets a chunk of keys at a time.  Forward, results are
 * merged by their log-sum-exp; backward, with the merged ones, each pair of chunks
 * gives its part of the gradients, which are summed in f32.  What the next pair needs
 * is on its way while one is computed.  Source: Yao et al. 2024, arXiv:2408.16978.
 *
 * For one rank's whole sequences: Ulysses and ring groups of one. */
#ifndef MDS_PARALLEL_CHUNKED_H
#define MDS_PARALLEL_CHUNKED_H

#include "parallel/attention.h"
#include "parallel/window.h"

/* Host memory; n: tokens here. */
struct mds_far {
    void *q;       /* [n,B,A D]; after backward its gradient, as kv */
    void *kv;      /* [n,B,2 G D]: keys' heads, then values' */
    void *o;       /* [n,B,A D] */
    void *d_o;     /* [n,B,A D]; backward alone, as dq */
    float *dq;     /* [n,B,A D]: sums */
    int64_t chunk; /* tokens on the device at a time */
};

/* q, kv -> o, and lse [B,A,n] f32 on the device. */
enum mds_rc mds_chunked_fwd(const struct mds_par *p, const struct mds_attention *a,
                            const struct mds_far *f, float *lse);

/* All of it -> gradients in q and kv. */
enum mds_rc mds_chunked_bwd(const struct mds_par *p, const struct mds_attention *a,
                            const struct mds_far *f, const float *lse);

/* ---- tiles of rows between the device and those buffers ---- */

struct mds_far_rows {
    struct mds_window q, kv;
};

/* Room for tiles of `rows` rows of p's. */
enum mds_rc mds_far_open(const struct mds_par *p, const struct mds_attention *a,
                         const struct mds_far *f, int64_t rows,
                         struct mds_far_rows *out);
void mds_far_close(struct mds_far_rows *r);

/* qkv [rows, (A + 2G) D] of the tile that begins at row `row`: rotate, and put. */
enum mds_rc mds_far_put(const struct mds_par *tile, const struct mds_attention *a,
                        struct mds_far_rows *r, int64_t row, void *qkv);
/* Gradients of the same: get, and rotate back. */
enum mds_rc mds_far_get(const struct mds_par *tile, const struct mds_attention *a,
                        struct mds_far_rows *r, int64_t row, void *dqkv);

#endif
