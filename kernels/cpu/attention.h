/* SPDX-License-Identifier: BSD-3-Clause */
/* What the forward and the backward pass of attention share. */
#ifndef MDSK_CPU_ATTENTION_H
#define MDSK_CPU_ATTENTION_H

#include "kernels/table.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/storage.h"

/* Queries and keys go in blocks of these sizes: the scores of a block pair stay in L1,
 * the packed keys and values in L2.  48 is a multiple of the rows of every tile. */
enum { MDSK_QUERIES = 48, MDSK_KEYS = 96 };

/* Where a head of sequence b begins, at token s: its element, and in f32 its address.
 */
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

/* n tokens of head h of sequence b, from s on; room [n, D] for those of 16 bits. */
static inline struct mdsk_view mdsk_view(const struct mdsk_attention_shape *shape,
                                         const struct mdsk_heads *x, int64_t b,
                                         int64_t s, int64_t h, int64_t n, float *room)
{
    int64_t D = shape->D;

    if (shape->dtype == MDSK_F32)
        return (struct mdsk_view){mdsk_head(x, b, s, h), x->token_stride};
    for (int64_t i = 0; i < n; i++)
        mdsk_widen(shape->dtype, x->data, mdsk_head_at(x, b, s + i, h), D,
                   room + i * D);
    return (struct mdsk_view){room, D};
}

/* Where the number of head h of sequence b, query 0, lies in an array [B,A,Sq] whose
 * heads' rows are stride apart, or packed where stride is 0. */
static inline int64_t mdsk_head_row(int64_t A, int64_t Sq, int64_t stride, int64_t b,
                                    int64_t h)
{
    return (b * A + h) * (stride ? stride : Sq);
}

/* Rows of a block pair and the columns any of them sees: queries i .. i+m-1, keys j ..
 * j+n-1 of head h of sequence b.  n <= 0: the pair is masked out. */
struct mdsk_pair {
    int64_t b, h, i, m, j, n;
};

static inline void mdsk_pair_clip(const struct mdsk_attention_shape *s,
                                  struct mdsk_pair *p)
{
    p->m = mdsk_min(MDSK_QUERIES, s->Sq - p->i);
    p->n = mdsk_min(MDSK_KEYS, s->Sk - p->j);
    p->n = mdsk_min(p->n, p->i + p->m + s->q_offset - p->j);
}

#endif
