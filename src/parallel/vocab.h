/* SPDX-License-Identifier: BSD-3-Clause */
/* Embedding and head of a model whose vocabulary is sharded over the tensor-parallel
 * group: rank t of T has words t V/T .. (t + 1) V/T - 1 of the padded vocabulary. */
#ifndef MDS_PARALLEL_VOCAB_H
#define MDS_PARALLEL_VOCAB_H

#include "kernels/loss.h"
#include "parallel/par.h"

struct mds_embedding {
    int64_t H;
    int64_t first_word, words; /* this rank's */
    const void *word;          /* [words, H] dtype */
    const void *position;      /* [positions, H] dtype, or NULL */
    float *dword, *dposition;  /* gradients, in backward */
    /* Row 0 of `position` is for token first_position: 0, or with `sliced` the first
     * token of this tensor rank's slice of the table. */
    int64_t first_position;
    int sliced;
};

/* y [slice rows, H] = word[token] + position[the token's index in its sequence].  token
 * [rows] i32: those of p->tokens, the same on all tensor ranks. */
enum mds_rc mds_embedding_fwd(const struct mds_par *p, const struct mds_embedding *e,
                              const int32_t *token, void *y);

/* Add the gradients from dy [slice rows, H] to dword and dposition. */
enum mds_rc mds_embedding_bwd(const struct mds_par *p, const struct mds_embedding *e,
                              const int32_t *token, const void *dy);

struct mds_head {
    int64_t H, vocab;          /* words, without the padding after them */
    int64_t first_word, words; /* this rank's, padding included */
    const void *weight;        /* [words, H] dtype */
    float *dweight;            /* gradient, or NULL: loss only */
    int uninit;                /* dweight is to be written, not added to */
    int64_t tile;              /* rows of logits computed at a time; 0: all */
    float grad_scale;          /* the gradient is of grad_scale times the loss, */
    float z_loss;              /* to which each target adds z_loss log(sum exp)^2 */
};

/* On the device. */
struct mds_targets {
    const int32_t *id;       /* [rows], -1: none */
    struct mdsk_kinds kinds; /* of these rows */
    double *sum, *count;     /* [kinds] */
    double *loss;            /* [rows], out: each one's loss; NULL: not wanted */
    void
        *logits; /* [rows, words of this rank], out: without gradients; NULL: not wanted
                   */
};

/* Cross-entropy of x [slice rows, H] weight^T against the targets, in tiles along the
 * sequence; a tile's gradient overwrites its logits.  Adds the loss in nats to the sums
 * and the number of targets to the counts; all tensor ranks get the same values.  With
 * dweight, writes dx [slice rows, H], adds to dweight (writes it if h->uninit), and
 * clears h->uninit. */
enum mds_rc mds_head_loss(const struct mds_par *p, struct mds_head *h, const void *x,
                          const struct mds_targets *targets, void *dx);

#endif
