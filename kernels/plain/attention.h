/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention without fusing, of products and a softmax by itself: the scores of some
 * queries of one head at a time lie in memory.  It shares no kernel with the fused
 * attention, which may be held against it.
 *
 * The walk over sequences, heads and queries is here; a backend brings its steps. */
#ifndef MDSK_PLAIN_ATTENTION_H
#define MDSK_PLAIN_ATTENTION_H

#include "kernels/attention.h"

/* Queries first .. first + m - 1 of query head h of sequence b against keys 0 .. n - 1,
 * of which those from Sk on do not exist.  Scores and what becomes of them are [m, n].
 */
struct mdsk_plain_block {
    struct mdsk_attention_shape shape;
    int64_t b, h, first, m, n;
};

/* How many keys query i of the block sees. */
MDSK_INLINE int64_t mdsk_plain_seen(const struct mdsk_plain_block *x, int64_t i)
{
    int64_t causal = x->first + i + x->shape.q_offset + 1;

    return causal < x->shape.Sk ? causal : x->shape.Sk;
}

/* Tokens first .. first + n - 1 of head h of sequence b, where they lie, and packed: a
 * matrix [rows, width].  Elements from D on, and rows from n on, are 0 there. */
struct mdsk_plain_tokens {
    struct mdsk_heads heads;
    enum mdsk_dtype dtype;
    int64_t b, h, first, n, D, rows, width;
};

/* C = A B, or C += A B where add is set; by rows, all packed.  A [m,k], or stored [k,m]
 * where flip_a is set; B [k,n], or [n,k] where flip_b is; C [m,n] f32. */
struct mdsk_plain_product {
    int64_t m, n, k;
    const void *a, *b;
    float *c;
    int flip_a, flip_b, add;
    enum mdsk_dtype dtype; /* of A and B */
};

/* From scores q k^T: probabilities, as dropout leaves them, 0 where a key is not seen.
 *
 *   scores [m,n] f32    p [m,n] operands, out    lse [m] f32, out */
struct mdsk_plain_softmax {
    const float *scores;
    void *p;
    float *lse;
};

/* From scores s = q k^T and d_p = d_o v^T, with dropout's factors f:
 * delta = row sums of d_o * o;  p = exp(scale s - lse);
 * ds = scale p (f d_p - delta);  and p = f p
 *
 *   scores, d_p [m,n] f32    o, d_o [m,width] operands    lse [m] f32
 *   p, ds [m,n] operands, out, 0 where a key is not seen    delta [m] f32, out */
struct mdsk_plain_slopes {
    const float *scores, *d_p;
    const void *o, *d_o;
    int64_t width;
    const float *lse;
    float *delta;
    void *p, *ds;
};

/* Each returns 0 or -errno, and is queued on the stream. */
struct mdsk_plain_steps {
    int wide; /* operands are f32 whatever is stored; else of its type */
    /* Working memory of the whole call, aligned to 256; NULL if refused. */
    void *(*room)(void *stream, int64_t bytes);
    int (*clear)(void *stream, void *p, int64_t bytes);
    /* Packed operands = tokens; tokens = packed f32, rounded. */
    int (*pack)(void *stream, const struct mdsk_plain_tokens *t, void *packed);
    int (*unpack)(void *stream, const struct mdsk_plain_tokens *t, const float *packed);
    int (*product)(void *stream, const struct mdsk_plain_product *p);
    int (*softmax)(void *stream, const struct mdsk_plain_block *x,
                   const struct mdsk_plain_softmax *a);
    int (*slopes)(void *stream, const struct mdsk_plain_block *x,
                  const struct mdsk_plain_slopes *a);
};

int mdsk_plain_attention_fwd(const struct mdsk_plain_steps *steps, void *stream,
                             const struct mdsk_attention_fwd *a);
int mdsk_plain_attention_bwd(const struct mdsk_plain_steps *steps, void *stream,
                             const struct mdsk_attention_bwd *a);

/* Bytes of working memory for operands of this type: so many queries at a time that
 * what is [m,n] takes no more than MDSK_PLAIN_SCORES, or 16; and a head's keys. */
#define MDSK_PLAIN_SCORES (INT64_C(64) << 20)
int64_t mdsk_plain_attention_bytes(const struct mdsk_attention_shape *s,
                                   enum mdsk_dtype operand, int backward);

#endif
