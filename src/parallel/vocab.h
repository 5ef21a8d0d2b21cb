/* SPDX-License-Identifier: BSD-3-Clause */
/* The two ends of a model whose vocabulary is spread over the tensor-parallel group:
 * rank t of T has words t V/T .. (t + 1) V/T - 1 of the padded vocabulary. */
#ifndef MDS_PARALLEL_VOCAB_H
#define MDS_PARALLEL_VOCAB_H

#include "parallel/par.h"

struct mds_embedding {
    int64_t H;
    int64_t first_word, words; /* this rank's */
    const void *word;          /* [words, H] dtype */
    const void *position;      /* [positions, H] dtype, or NULL */
    float *dword, *dposition;  /* gradients, in backward */
    /* Row 0 of position is token first_position: 0, or where this tp rank's share of
     * the table begins (sliced). */
    int64_t first_position;
    int sliced;
};

/* y [slice rows, H] = word[token] + position[its place in the sequence]; token [rows]
 * i32: those of p->tokens, the same on all tp ranks. */
enum mds_rc mds_embedding_fwd(const struct mds_par *p, const struct mds_embedding *e,
                              const int32_t *token, void *y);

/* dword and dposition += what dy [slice rows, H] gives. */
enum mds_rc mds_embedding_bwd(const struct mds_par *p, const struct mds_embedding *e,
                              const int32_t *token, const void *dy);

struct mds_head {
    int64_t H, vocab;          /* words that count; the padding behind them does not */
    int64_t first_word, words; /* this rank's, padding included */
    const void *weight;        /* [words, H] dtype */
    float *dweight;            /* gradient, or NULL: loss alone */
    int uninit;                /* dweight is to be written, not added to */
    int64_t tile;              /* rows of logits that exist at a time; 0: all */
    float grad_scale;          /* of the loss, before it is differentiated */
};

/* Cross-entropy of x [slice rows, H] weight^T against target [rows] i32 (-1: none), in
 * tiles along the sequence: a tile's gradient takes the place of its logits.  The loss
 * in nats is added to *loss_sum and the number of targets to *count (f64, on the
 * device), on every tp rank alike.  With dweight, dx [slice rows, H] is written,
 * dweight added to, and h->uninit cleared. */
enum mds_rc mds_head_loss(const struct mds_par *p, struct mds_head *h, const void *x,
                          const int32_t *target, double *loss_sum, double *count,
                          void *dx);

#endif
