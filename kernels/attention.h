/* SPDX-License-Identifier: BSD-3-Clause */
/* Causal softmax attention, as a rule without the S x S matrix. */
#ifndef MDSK_ATTENTION_H
#define MDSK_ATTENTION_H

#include "kernels/inline.h"
#include "kernels/types.h"

/* Where element d of head h of token s of sequence b lies:
 * data[b * batch_stride + s * token_stride + h * head_stride + d]. */
struct mdsk_heads {
    void *data;
    int64_t batch_stride, token_stride, head_stride;
};

/* Shapes, and which keys a query sees.  Query i (of Sq) sees key j (of Sk) where
 * j <= i + q_offset; q_offset >= 0 is the distance from the first key to the first
 * query (0 in plain self-attention).  Grouped-query: query head a uses key/value head
 * a / (A/G); G divides A.
 *
 * dropout, if dropout.p > 0, drops probabilities (not their sum): element (head h,
 * query i, key j) of sample first_sample + b takes word (first_key + j) % 4 of
 * mdsk_dropout_block(seed, site, step, sample, token = (first_head + h) * 2^32 +
 * first_query + i, block = (first_key + j) / 4), and survivors are scaled by 1 / (1 -
 * p).
 *
 * plain: not by fused kernels, but with the scores of some queries at a time in memory
 * (plain/attention.h): the same to rounding, slower, for any D. */
struct mdsk_attention_shape {
    int64_t B, A, G, Sq, Sk, D;
    int64_t q_offset;
    float scale; /* of the scores, 1/sqrt(D) as a rule */
    enum mdsk_dtype dtype;
    struct mdsk_dropout_key dropout;
    int64_t first_sample, first_head, first_query, first_key;
    int plain;
};

/* The token of dropout's counter that query i of head h has. */
MDSK_INLINE int64_t mdsk_attention_token(const struct mdsk_attention_shape *s,
                                         int64_t h, int64_t i)
{
    return (s->first_head + h) * 4294967296 + s->first_query + i;
}

/* o = softmax(scale * q k^T, masked) v
 *
 *   q [B,Sq,A,D]  k, v [B,Sk,G,D]  o [B,Sq,A,D]   dtype; o aliases none
 *   lse [B,A,Sq]  f32, heads' rows lse_stride apart (0: packed, Sq): natural log of the
 *                 sum of exponentials of the scaled, masked scores, kept for the
 *                 backward pass
 *
 * Working memory is per thread and independent of S, unless plain.
 * Source: Dao, Fu, Ermon, Rudra, Re 2022, arXiv:2205.14135. */
struct mdsk_attention_fwd {
    struct mdsk_attention_shape shape;
    struct mdsk_heads q, k, v, o;
    float *lse;
    int64_t lse_stride;
};

/* Gradients of q, k and v.
 *
 *   q, k, v, o, lse as in (and after) the forward pass
 *   d_o        like o
 *   dq, dk, dv like q, k, v; written; alias none
 *   delta      [B,A,Sq] f32, packed, working memory: row sums of d_o * o */
struct mdsk_attention_bwd {
    struct mdsk_attention_shape shape;
    struct mdsk_heads q, k, v, o, d_o, dq, dk, dv;
    const float *lse; /* head rows lse_stride apart, 0: packed */
    int64_t lse_stride;
    float *delta;
};

/* Two attentions of the same queries over disjoint keys become one:
 * new = log(exp(lse) + exp(lse2));  acc = acc exp(lse - new) + o2 exp(lse2 - new);
 * lse = new
 *
 *   acc   [B,Sq,A,D] f32, in place, strided by acc     lse  [B,A,Sq] f32, in place
 *   o2    [B,Sq,A,D] dtype, strided by o2              lse2 [B,A,Sq] f32
 *
 * lse may be -inf: no keys so far; acc then need not be set.  Likewise lse2 and o2.
 * lse_stride and lse2_stride are the distances between heads' rows (0: packed, Sq), so
 * that a part of the queries can be merged. */
struct mdsk_attention_merge {
    int64_t B, A, Sq, D;
    enum mdsk_dtype dtype;
    struct mdsk_heads acc, o2;
    float *lse;
    const float *lse2;
    int64_t lse_stride, lse2_stride;
};

/* How many sequences and query heads the GPUs' fused backward pass takes at once, when
 * each head has bytes_per_head of working memory: all, if that is no more than
 * MDSK_ATTENTION_SCRATCH; or those of one sequence that are (one group of heads at the
 * least), in equal parts.  far: rows of o, d_o or dq are beyond the reach of 32-bit
 * offsets from the part's first, and are copied. */
#define MDSK_ATTENTION_SCRATCH (INT64_C(1) << 30)
struct mdsk_attention_part {
    int64_t B, A;
    int far;
};
struct mdsk_attention_part mdsk_attention_bwd_part(const struct mdsk_attention_bwd *a,
                                                   int64_t bytes_per_head);

/* How the GPUs' fused forward pass cuts a problem: `queries` at a time.  Of the keys
 * that all of these see, as many multiples of `keys` as there are go into one call
 * without a mask, the others into one with it.  keys == Sk: all in one call.
 *
 * While keys and values of a head stay in the L2 cache, one call is the fastest.  Where
 * they do not, blocks that run side by side read them from L2 once for all, and one
 * call reads them from memory again and again, which takes power: on an H200, head size
 * 128, 2^20 tokens, 464 TFLOP/s in one call and 580 in blocks (docs/adr/0021). */
struct mdsk_attention_blocks {
    int64_t queries, keys;
};
struct mdsk_attention_blocks
mdsk_attention_fwd_blocks(const struct mdsk_attention_shape *s);

/* Bytes of working memory on GPUs.  Fused, for 16-bit numbers: forward, of one block o
 * and lse, 0 without blocks; backward dq in f32, lse and delta of a part,
 * and o, d_o and dq where they are copied.  0 for f32.
 * Plain: mdsk_plain_attention_bytes. */
int64_t mdsk_attention_fwd_scratch(const struct mdsk_attention_fwd *a);
int64_t mdsk_attention_bwd_scratch(const struct mdsk_attention_bwd *a);

#endif
