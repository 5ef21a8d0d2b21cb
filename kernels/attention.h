/* SPDX-License-Identifier: BSD-3-Clause */
/* Causal softmax attention, normally without the S x S matrix. */
#ifndef MDSK_ATTENTION_H
#define MDSK_ATTENTION_H

#include <math.h>

#include "kernels/inline.h"
#include "kernels/types.h"

/* A strided tensor: element d of head h of token s of sequence b is
 * data[b * batch_stride + s * token_stride + h * head_stride + d].  Borrowed. */
struct mdsk_heads {
    void *data;
    int64_t batch_stride, token_stride, head_stride;
};

/* Shapes and the mask.  Query i (of Sq) sees key j (of Sk) where j <= i + q_offset;
 * q_offset >= 0 is the distance from the first key to the first query (0 in plain
 * self-attention).  With a window it sees only the last `window` of these positions,
 * its own among them: j > i + q_offset - window.  A query that sees no key has o = 0
 * and lse = -inf.  Grouped-query: query head a uses key/value head a / (A/G); G divides
 * A.
 *
 * start, if not NULL, keeps documents apart: an array [tokens, B] i32 with, for each
 * token of a sequence, the token that its document begins with.  Query i of sequence b
 * is token first_query + i and sees no key (token first_key + j) before
 * start[(first_query + i) start_stride + b].  Starts do not fall from token to token.
 * host_start: the same array in host memory, so that a backend on GPUs can compute one
 * document after the other; or NULL.
 *
 * dropout, if dropout.p > 0, drops probabilities (not their sum): element (head h,
 * query i, key j) of sample first_sample + b takes word (first_key + j) % 4 of
 * mdsk_dropout_block(seed, site, step, sample, token = (first_head + h) * 2^32 +
 * first_query + i, block = (first_key + j) / 4), and survivors are scaled by 1 / (1 -
 * p).
 *
 * alibi_heads, if > 0, adds slope (key - query) to each scaled score, of the tokens
 * first_key + j and first_query + i: ALiBi (Press, Smith, Lewis 2022,
 * arXiv:2108.12409).  The slope is that of head first_head + h of so many heads.
 * Slopes have no gradient; scale > 0 then.
 *
 * unfused: GEMMs and a softmax, with the scores of some queries at a time in memory
 * (unfused/attention.h).  Any D; the same result up to rounding, but slower. */
struct mdsk_attention_shape {
    int64_t B, A, G, Sq, Sk, D;
    int64_t q_offset, window; /* window 0: all earlier keys */
    const int32_t *start;     /* where the kernels run, or NULL; borrowed */
    const int32_t *host_start;
    int64_t start_stride; /* 0: B */
    float scale;          /* of the scores, normally 1/sqrt(D) */
    enum mdsk_dtype dtype;
    struct mdsk_dropout_key dropout;
    int64_t first_sample, first_head, first_query, first_key;
    int64_t alibi_heads; /* 0: no such bias */
    int unfused;
};

/* The token number in dropout's counter for query i of head h. */
MDSK_INLINE int64_t mdsk_attention_token(const struct mdsk_attention_shape *s,
                                         int64_t h, int64_t i)
{
    return (s->first_head + h) * 4294967296 + s->first_query + i;
}

/* ALiBi's slope of a head.  Of n = 2^k heads, number i from 0 has 2^(-8 (i + 1) / n).
 * Of others the first 2^k < n have these, and those left slopes that 2^(k + 1) heads
 * have besides: the first, third, .... */
MDSK_INLINE float mdsk_alibi_slope(int64_t heads, int64_t i)
{
    int64_t power = 1;

    while (2 * power <= heads)
        power *= 2;
    i = i < power ? 2 * (i + 1) : 2 * (i - power) + 1;
    return exp2f(-4 * (float)i / (float)power);
}

/* What is added for each token from a query of head h to a key; 0 without ALiBi. */
MDSK_INLINE float mdsk_attention_slope(const struct mdsk_attention_shape *s, int64_t h)
{
    return s->alibi_heads > 0 ? mdsk_alibi_slope(s->alibi_heads, s->first_head + h) : 0;
}

/* From query i to key j, below 0 if that is earlier. */
MDSK_INLINE float mdsk_attention_distance(const struct mdsk_attention_shape *s,
                                          int64_t i, int64_t j)
{
    return (float)(s->first_key + j - (s->first_query + i));
}

/* The first key that a window leaves to query i, of whatever document. */
MDSK_INLINE int64_t mdsk_attention_window_key(const struct mdsk_attention_shape *s,
                                              int64_t i)
{
    int64_t first = i + s->q_offset + 1 - s->window;

    return s->window > 0 && first > 0 ? first : 0;
}

/* Which element of start is query i's of sequence b. */
MDSK_INLINE int64_t mdsk_attention_start_index(const struct mdsk_attention_shape *s,
                                               int64_t b, int64_t i)
{
    return (s->first_query + i) * (s->start_stride ? s->start_stride : s->B) + b;
}

/* Query i of sequence b sees the keys [first_key, end_key), or none if that is empty;
 * neither end falls as i grows, and the first is >= 0.  Reads start. */
MDSK_INLINE int64_t mdsk_attention_first_key(const struct mdsk_attention_shape *s,
                                             int64_t b, int64_t i)
{
    int64_t first = mdsk_attention_window_key(s, i), document = 0;

    if (s->start)
        document = s->start[mdsk_attention_start_index(s, b, i)] - s->first_key;
    return document > first ? document : first;
}

MDSK_INLINE int64_t mdsk_attention_end_key(const struct mdsk_attention_shape *s,
                                           int64_t i)
{
    int64_t end = i + s->q_offset + 1;

    return end < s->Sk ? end : s->Sk;
}

/* Sum over the queries i of the number of keys j <= i + offset.  The first `none`
 * queries have none, the `part` after them fewer than all. */
MDSK_INLINE double mdsk_attention_pairs_up_to(const struct mdsk_attention_shape *s,
                                              int64_t offset)
{
    int64_t none = offset < 0 ? -offset : 0, part, left;

    none = none > s->Sq ? s->Sq : none;
    left = s->Sq - none;
    offset += none;
    part = s->Sk - 1 - offset;
    part = part < 0 ? 0 : part > left ? left : part;
    return (double)part * ((double)offset + ((double)part + 1) / 2) +
           (double)(left - part) * (double)s->Sk;
}

/* How many pairs of a query and a key that it sees one head of one sequence has, if it
 * is one document (start is not read). */
MDSK_INLINE double mdsk_attention_pairs(const struct mdsk_attention_shape *s)
{
    double pairs = mdsk_attention_pairs_up_to(s, s->q_offset);

    if (s->window > 0)
        pairs -= mdsk_attention_pairs_up_to(s, s->q_offset - s->window);
    return pairs;
}

/* o = softmax(scale * q k^T + ALiBi, masked) v
 *
 *   q [B,Sq,A,D]  k, v [B,Sk,G,D]  o [B,Sq,A,D]   dtype; o aliases none
 *   lse [B,A,Sq]  f32, heads' rows lse_stride apart (0: packed, Sq): natural log of the
 *                 sum of exponentials of the scaled, masked scores, saved for the
 *                 backward pass
 *
 * Scratch memory is per thread and independent of S, unless unfused.
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
 *   dq, dk, dv like q, k, v; written; may not alias anything
 *   delta      [B,A,Sq] f32, packed, scratch: row sums of d_o * o */
struct mdsk_attention_bwd {
    struct mdsk_attention_shape shape;
    struct mdsk_heads q, k, v, o, d_o, dq, dk, dv;
    const float *lse; /* head rows lse_stride apart, 0: packed */
    int64_t lse_stride;
    float *delta;
};

/* Merge two attentions of the same queries over disjoint keys:
 * new = log(exp(lse) + exp(lse2));  acc = acc exp(lse - new) + o2 exp(lse2 - new);
 * lse = new
 *
 *   acc   [B,Sq,A,D] f32, in place, strided by acc     lse  [B,A,Sq] f32, in place
 *   o2    [B,Sq,A,D] dtype, strided by o2              lse2 [B,A,Sq] f32
 *
 * lse may be -inf, meaning no keys so far; then acc may be undefined.  Likewise lse2
 * and o2.
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

/* Attention of one more token of each sequence, whose key and value are first appended
 * to the cache of those before it; and its query and key rotated before that.
 *
 *   shape  Sq 1; q_offset = first_query: the token's place, Sk = q_offset + 1; no
 *          starts, dropout or unfused; D % 8 == 0, D <= MDSK_CACHED_D
 *   k, v   the cache, [B,tokens,G,D]; new_k, new_v [B,1,G,D], apart from it
 *   q, o   [B,1,A,D], apart from all
 *   place  i32 where the kernels run, or NULL: GPUs read q_offset there, and take from
 *          shape only what does not depend on it.  So a call that was recorded serves
 *          the tokens that follow
 *   rot, frequency, rope_scale   as in rope.h, at position `place`; rot 0: no rotation.
 *          q and new_k may be changed
 *
 * GPUs may read place, k and v before what was queued just before is done.
 *
 * Keys are added up in another order than by mdsk_attention_fwd on GPUs; which depends
 * on the place alone. */
#define MDSK_CACHED_D 256
struct mdsk_attention_cached {
    struct mdsk_attention_shape shape;
    struct mdsk_heads q, k, v, new_k, new_v, o;
    const int32_t *place;
    int64_t tokens, rot;
    const double *frequency;
    float rope_scale;
};

/* most[h] = the largest of most[h] and the lse of head h, of all queries of all
 * sequences: an upper bound of its largest score, above it by the logarithm of the
 * number of keys at most.  NaN if one is NaN.
 *
 *   lse   [B,A,Sq] f32, heads' rows lse_stride apart (0: packed, Sq)
 *   most  [A]      f32, in place, >= 0 */
struct mdsk_attention_most {
    int64_t B, A, Sq, lse_stride;
    const float *lse;
    float *most;
};

/* Bytes of scratch memory on GPUs, whatever computes it there
 * (attention_scratch.h). */
int64_t mdsk_attention_fwd_scratch(const struct mdsk_attention_fwd *a);
int64_t mdsk_attention_bwd_scratch(const struct mdsk_attention_bwd *a);

#endif
