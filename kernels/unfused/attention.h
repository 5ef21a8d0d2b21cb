/* SPDX-License-Identifier: BSD-3-Clause */
/* Unfused attention: GEMMs and a separate softmax, with the scores of some queries of
 * one head at a time in memory.  It shares no kernel with fused attention, so the two
 * can be compared.
 *
 * The loops over sequences, heads and queries are here; each backend implements the
 * steps. */
#ifndef MDSK_UNFUSED_ATTENTION_H
#define MDSK_UNFUSED_ATTENTION_H

#include "kernels/attention.h"

/* Queries first .. first + m - 1 of query head h of sequence b against keys key ..
 * key + n - 1; those from Sk on are padding.  Scores, probabilities and their gradients
 * are [m, n]. */
struct mdsk_unfused_block {
    struct mdsk_attention_shape shape;
    int64_t b, h, first, m, key, n;
};

/* Query i of the block sees its keys [begin, end). */
MDSK_INLINE int64_t mdsk_unfused_end(const struct mdsk_unfused_block *x, int64_t i)
{
    int64_t end = mdsk_attention_end_key(&x->shape, x->first + i) - x->key;

    return end > 0 ? end : 0;
}

MDSK_INLINE int64_t mdsk_unfused_begin(const struct mdsk_unfused_block *x, int64_t i)
{
    int64_t begin = mdsk_attention_first_key(&x->shape, x->b, x->first + i) - x->key;
    int64_t end = mdsk_unfused_end(x, i);

    return begin < end ? begin : end;
}

/* Tokens first .. first + n - 1 of head h of sequence b, and the shape of their packed
 * copy: a matrix [rows, width], with 0 in elements from D on and in rows from n on. */
struct mdsk_unfused_tokens {
    struct mdsk_heads heads;
    enum mdsk_dtype dtype;
    int64_t b, h, first, n, D, rows, width;
};

/* C = A B, or C += A B if add is set; row-major, all packed.  A [m,k], or stored as
 * [k,m] if flip_a is set; B [k,n], or [n,k] if flip_b is set; C [m,n] f32. */
struct mdsk_unfused_gemm {
    int64_t m, n, k;
    const void *a, *b;
    float *c;
    int flip_a, flip_b, add;
    enum mdsk_dtype dtype; /* of A and B */
};

/* Probabilities from scores q k^T: after dropout, and 0 for masked keys.
 *
 *   scores [m,n] f32    p [m,n] operands, out    lse [m] f32, out */
struct mdsk_unfused_softmax_fwd {
    const float *scores;
    void *p;
    float *lse;
};

/* Gradient of scores, from s = q k^T and d_p = d_o v^T, with dropout factors f:
 * delta = row sums of d_o * o;  p = exp(scale s - lse);
 * ds = scale p (f d_p - delta);  and p = f p
 *
 *   scores, d_p [m,n] f32    o, d_o [m,width] operands    lse [m] f32
 *   p, ds [m,n] operands, out, 0 for masked keys    delta [m] f32, out */
struct mdsk_unfused_softmax_bwd {
    const float *scores, *d_p;
    const void *o, *d_o;
    int64_t width;
    const float *lse;
    float *delta;
    void *p, *ds;
};

/* Each returns 0 or -errno, and is queued on the stream. */
struct mdsk_unfused_steps {
    int wide; /* 1: operands of GEMMs are f32; 0: they have the dtype of the tensors */
    int here; /* 1: shape.start can be read by the caller; 0: by the steps alone */
    /* Scratch for the whole call, aligned to 256 bytes; NULL if there is no memory. */
    void *(*scratch)(void *stream, int64_t bytes);
    int (*zero)(void *stream, void *p, int64_t bytes);
    /* pack: packed operands = tokens.  unpack: tokens = packed f32, rounded. */
    int (*pack)(void *stream, const struct mdsk_unfused_tokens *t, void *packed);
    int (*unpack)(void *stream, const struct mdsk_unfused_tokens *t,
                  const float *packed);
    int (*gemm)(void *stream, const struct mdsk_unfused_gemm *p);
    int (*softmax_fwd)(void *stream, const struct mdsk_unfused_block *x,
                       const struct mdsk_unfused_softmax_fwd *a);
    int (*softmax_bwd)(void *stream, const struct mdsk_unfused_block *x,
                       const struct mdsk_unfused_softmax_bwd *a);
};

int mdsk_unfused_attention_fwd(const struct mdsk_unfused_steps *steps, void *stream,
                               const struct mdsk_attention_fwd *a);
int mdsk_unfused_attention_bwd(const struct mdsk_unfused_steps *steps, void *stream,
                               const struct mdsk_attention_bwd *a);

/* Bytes of scratch memory for operands of this type: the keys and values of one head,
 * and as many queries at a time (at least 16) as keep all [m,n] arrays within
 * MDSK_UNFUSED_SCORES bytes. */
#define MDSK_UNFUSED_SCORES (INT64_C(64) << 20)
int64_t mdsk_unfused_attention_bytes(const struct mdsk_attention_shape *s,
                                     enum mdsk_dtype operand, int backward);

#endif
