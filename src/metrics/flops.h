/* SPDX-License-Identifier: BSD-3-Clause */
/* Floating-point operations of a training step, from the model's shape, by two
 * conventions.  A multiply and an add are two operations; everything that is not a
 * GEMM is left out of both.  Of attention both count what documents and windows leave:
 * that share of a row's pairs of a query and an earlier key (`seen`). */
#ifndef MDS_METRICS_FLOPS_H
#define MDS_METRICS_FLOPS_H

#include "config/config.h"

#include <stdint.h>

struct mds_flops_model {
    int64_t layers, hidden, heads, kv_heads, head_dim;
    int64_t ffn;             /* inner size of the MLP, or of each expert */
    int64_t experts, active; /* in its place, and of these for each token; 0: none */
    int64_t shared;          /* inner size of an MLP beside the experts; 0: none */
    int64_t dense_layers;    /* so many layers have no experts, but an MLP */
    int64_t dense_ffn;       /* of this inner size */
    enum mdsk_activation_kind
        activation;               /* gated: three matrices in the MLP, not two */
    int64_t seq;                  /* tokens per sequence */
    int64_t window, local_layers; /* so many layers see at most `window` keys */
    int64_t padded_vocab;
    struct mds_pairs seen; /* shares */
};

/* Of a shape that is resolved.  Without data.seen a row is one document. */
struct mds_flops_model mds_flops_model_of(const struct mds_config *c);

/* Of attention's operations in all layers, the share that is left if rows have the
 * documents of `seen`, and not one each. */
double mds_flops_documents_share(const struct mds_flops_model *m);

/* Weights that take part in a token's GEMMs: the layers' linears (of experts the active
 * ones) and the output head (tied or not); no biases, norms, or embedding look-ups. */
double mds_flops_matmul_params(const struct mds_flops_model *m);

/* Causal model FLOPs: what the mathematics asks for, whatever the program does.
 *   6 * matmul parameters * tokens + 6 * layers * heads * head_dim * seq * tokens
 * The second term is QK^T and PV (4 * seq operations per token, head and head element)
 * on half of the square, forward once and backward twice.  In each layer it is
 * multiplied by the share of the half that is seen. */
double mds_flops_causal(const struct mds_flops_model *m, int64_t tokens);

/* Megatron's convention: the whole square, and recomputed operations count.  For a GPT
 * (no grouped queries, ffn 4H, no gate) and full recompute it is Narayanan et al. 2021,
 * arXiv:2104.04473, equation 3:
 *   96 B s l h^2 (1 + s/(6h) + V/(16 l h))
 * In general, with r = 0, 1 for none, full (what the backward pass computes again):
 *   (6 + 2r) * layer parameters * tokens
 *   + (12 + 4r) * layers * heads * head_dim * seq * tokens
 *   + 6 * hidden * padded_vocab * tokens
 * and selective, QK^T and PV, takes r = 1 in the attention term alone.  Without
 * recompute the layers' 96 thus becomes 72; the head is never recomputed and keeps
 * its 6.  (Megatron's own script scales the head down too, and so counts it a quarter
 * too low there.)  The term with seq * tokens is multiplied by what is seen, as
 * above. */
double mds_flops_megatron(const struct mds_flops_model *m, int64_t tokens,
                          enum mds_recompute recompute);

#endif
