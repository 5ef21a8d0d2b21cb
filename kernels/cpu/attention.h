/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers shared by the forward and backward pass of attention. */
#ifndef MDSK_CPU_ATTENTION_H
#define MDSK_CPU_ATTENTION_H

#include "kernels/table.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/storage.h"

/* Block sizes of queries and keys: the scores of a pair of blocks stay in L1, the
 * packed keys and values in L2.  48 is a multiple of the rows of every tile. */
enum { MDSK_QUERIES = 48, MDSK_KEYS = 96 };

/* Offset of token s of head h of sequence b, in elements; and its address, f32 only. */
static inline int64_t mdsk_head_at(const struct mdsk_heads *x, int64_t b, int64_t s,
                                   int64_t h)
{
    return b * x->batch_stride + s * x->token_stride + h * x->head_stride;
}

static inline float *mdsk_head(const struct mdsk_heads *x, int64_t b, int64_t s,
                               int64_t h)
{
    return (float *)x->data + mdsk_head_at(x, b, s, h);
}

/* Some tokens of a head as f32: row i is data + i * stride. */
struct mdsk_view {
    const float *data;
    int64_t stride;
};

/* n tokens of head h of sequence b, from s on; scratch [n, D] is used for 16-bit
 * types. */
static inline struct mdsk_view mdsk_view(const struct mdsk_attention_shape *shape,
                                         const struct mdsk_heads *x, int64_t b,
                                         int64_t s, int64_t h, int64_t n,
                                         float *scratch)
{
    int64_t D = shape->D;

    if (shape->dtype == MDSK_F32)
        return (struct mdsk_view){mdsk_head(x, b, s, h), x->token_stride};
    for (int64_t i = 0; i < n; i++)
        mdsk_widen(shape->dtype, x->data, mdsk_head_at(x, b, s + i, h), D,
                   scratch + i * D);
    return (struct mdsk_view){scratch, D};
}

/* Offset of query 0 of head h of sequence b in an array [B,A,Sq] whose rows are stride
 * apart, or packed if stride is 0. */
static inline int64_t mdsk_head_row(int64_t A, int64_t Sq, int64_t stride, int64_t b,
                                    int64_t h)
{
    return (b * A + h) * (stride ? stride : Sq);
}

/* A pair of blocks: queries i .. i+m-1 and keys j .. j+n-1, of head h of sequence b. */
struct mdsk_pair {
    int64_t b, h, i, m, j, n;
};

/* Set m, and n without the keys after the last that any of the queries sees; 0 if the
 * pair is masked out. */
static inline int mdsk_pair_clip(const struct mdsk_attention_shape *s,
                                 struct mdsk_pair *p)
{
    p->m = mdsk_min(MDSK_QUERIES, s->Sq - p->i);
    p->n = mdsk_min(MDSK_KEYS, mdsk_attention_end_key(s, p->i + p->m - 1) - p->j);
    return p->n > 0 && mdsk_attention_first_key(s, p->b, p->i) < p->j + p->n;
}

/* The block of keys in which the first key of query i lies begins here. */
static inline int64_t mdsk_first_key_block(const struct mdsk_attention_shape *s,
                                           int64_t b, int64_t i)
{
    return mdsk_attention_first_key(s, b, i) / MDSK_KEYS * MDSK_KEYS;
}

#endif
