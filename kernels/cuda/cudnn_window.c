/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention within a window by cuDNN: blocks of queries, each with the keys that any of
 * them sees.  So the work grows with the sequence and not with its square, even where
 * cuDNN does not skip what the mask hides, as in its backward pass. */
#include "kernels/cuda/cudnn_attention.h"

#include <errno.h>

#include "kernels/attention_scratch.h"
#include "kernels/cuda/attention.h"

/* Blocks of keys begin at multiples of ALIGNED: few plans of cuDNN serve all. */
enum { ALIGNED = 128, SHORTEST = 32 };

/* What no block of any size could change. */
static int is_supported(const struct mdsk_attention_shape *s)
{
    return s->dtype != MDSK_F32 && !(s->dropout.p > 0) && !s->start;
}

/* n queries from `at` on, and the keys that they see. */
struct block {
    int64_t at, n, first, keys;
};

/* Queries that see any key: these come first. */
static int64_t seeing_queries(const struct mdsk_attention_shape *s)
{
    int64_t n = s->Sk + s->window - 1 - s->q_offset;

    return n < 0 ? 0 : n < s->Sq ? n : s->Sq;
}

/* `step` queries from `at` on, and with them a rest that would be too short for a call.
 */
static struct block block_at(const struct mdsk_attention_shape *s, int64_t at,
                             int64_t step)
{
    struct block b = {.at = at, .n = seeing_queries(s) - at};

    if (b.n >= step + SHORTEST)
        b.n = step;
    b.first = mdsk_attention_window_key(s, at) / ALIGNED * ALIGNED;
    b.keys = mdsk_attention_end_key(s, at + b.n - 1) - b.first;
    return b;
}

static struct mdsk_attention_shape shape_of_block(const struct mdsk_attention_shape *s,
                                                  const struct block *b)
{
    struct mdsk_attention_shape out = *s;

    out.Sq = b->n;
    out.Sk = b->keys;
    out.q_offset = s->q_offset + b->at - b->first;
    out.first_query += b->at;
    out.first_key += b->first;
    return out;
}

static struct mdsk_heads heads_at(const struct mdsk_heads *x, int64_t b, int64_t h,
                                  int64_t token)
{
    struct mdsk_heads out = *x;

    out.data = (uint16_t *)x->data + b * x->batch_stride + h * x->head_stride +
               token * x->token_stride;
    return out;
}

/* ---- forward ---- */

static struct mdsk_attention_fwd forward_of(const struct mdsk_attention_fwd *a,
                                            const struct block *b)
{
    return (struct mdsk_attention_fwd){.shape = shape_of_block(&a->shape, b),
                                       .q = heads_at(&a->q, 0, 0, b->at),
                                       .k = heads_at(&a->k, 0, 0, b->first),
                                       .v = heads_at(&a->v, 0, 0, b->first),
                                       .o = heads_at(&a->o, 0, 0, b->at),
                                       .lse = a->lse + b->at,
                                       .lse_stride =
                                           a->lse_stride ? a->lse_stride : a->shape.Sq};
}

/* Queries without a key are left to own kernels, which then only write. */
int mdsk_cudnn_window_fwd(cudaStream_t stream, const struct mdsk_attention_fwd *a)
{
    const struct mdsk_attention_shape *s = &a->shape;
    int64_t end = seeing_queries(s), step = mdsk_attention_window_block(s);
    struct block b = {.n = 0};
    int err = is_supported(s) ? 0 : -ENOTSUP;

    for (int64_t at = 0; !err && at < end; at += b.n) {
        struct mdsk_attention_fwd f;

        b = block_at(s, at, step);
        f = forward_of(a, &b);
        err = mdsk_cudnn_attention_fwd(stream, &f);
    }
    if (!err && end < s->Sq) {
        struct mdsk_attention_fwd f;

        b = (struct block){end, s->Sq - end, 0, s->Sk};
        f = forward_of(a, &b);
        err = mdsk_own_attention_fwd(stream, &f);
    }
    return err;
}

/* ---- backward ---- */

/* Some sequences and heads of a problem, as a problem. */
static struct mdsk_attention_bwd heads_of(const struct mdsk_attention_bwd *a, int64_t b,
                                          int64_t B, int64_t h, int64_t A)
{
    struct mdsk_attention_bwd out = *a;
    const struct mdsk_attention_shape *s = &a->shape;
    int64_t g = h / (s->A / s->G), stride = a->lse_stride ? a->lse_stride : s->Sq;
    struct mdsk_heads *queries[] = {&out.q, &out.o, &out.d_o, &out.dq};
    struct mdsk_heads *keys[] = {&out.k, &out.v, &out.dk, &out.dv};

    for (int i = 0; i < 4; i++) {
        *queries[i] = heads_at(queries[i], b, h, 0);
        *keys[i] = heads_at(keys[i], b, g, 0);
    }
    out.shape.B = B;
    out.shape.A = A;
    out.shape.G = A / (s->A / s->G);
    out.lse += (b * s->A + h) * stride;
    out.lse_stride = stride;
    return out;
}

/* y += x, or with x NULL y = 0, for n tokens of B sequences and A heads. */
static int add_heads(cudaStream_t stream, const struct mdsk_attention_shape *s,
                     int64_t A, int64_t n, const struct mdsk_heads *x,
                     const struct mdsk_heads *y)
{
    const struct mdsk_heads zero = {0};
    struct mdsk_attention_shape of = {
        .B = s->B, .A = A, .Sk = n, .D = s->D, .dtype = s->dtype};

    return n > 0 ? mdsk_cuda_heads_add(stream, &of, x ? x : &zero, y) : 0;
}

static int clear_gradients(cudaStream_t stream, const struct mdsk_attention_bwd *a)
{
    const struct mdsk_attention_shape *s = &a->shape;
    int64_t end = seeing_queries(s);
    struct mdsk_heads rest = heads_at(&a->dq, 0, 0, end);
    int err = add_heads(stream, s, s->G, s->Sk, NULL, &a->dk);

    if (!err)
        err = add_heads(stream, s, s->G, s->Sk, NULL, &a->dv);
    return err ? err : add_heads(stream, s, s->A, s->Sq - end, NULL, &rest);
}

/* dq of a block's queries, and what they add to the gradient of their keys. */
static int backward_block(cudaStream_t stream, const struct mdsk_attention_bwd *a,
                          const struct block *b)
{
    const struct mdsk_attention_shape *s = &a->shape;
    const int64_t row = s->G * s->D, n = s->B * b->keys * row;
    uint16_t *scratch =
        mdsk_cuda_scratch(stream, MDSK_CUDA_WINDOW, 2 * n * (int64_t)sizeof(uint16_t));
    const struct mdsk_heads dk = {scratch, b->keys * row, row, s->D},
                            dv = {scratch + n, b->keys * row, row, s->D};
    const struct mdsk_heads dk_sum = heads_at(&a->dk, 0, 0, b->first),
                            dv_sum = heads_at(&a->dv, 0, 0, b->first);
    struct mdsk_attention_bwd some = {.shape = shape_of_block(s, b),
                                      .q = heads_at(&a->q, 0, 0, b->at),
                                      .k = heads_at(&a->k, 0, 0, b->first),
                                      .v = heads_at(&a->v, 0, 0, b->first),
                                      .o = heads_at(&a->o, 0, 0, b->at),
                                      .d_o = heads_at(&a->d_o, 0, 0, b->at),
                                      .dq = heads_at(&a->dq, 0, 0, b->at),
                                      .dk = dk,
                                      .dv = dv,
                                      .lse = a->lse + b->at,
                                      .lse_stride = a->lse_stride,
                                      .delta = a->delta};
    int err = scratch ? mdsk_cudnn_attention_bwd(stream, &some) : -ENOMEM;

    if (!err)
        err = add_heads(stream, s, s->G, b->keys, &dk, &dk_sum);
    return err ? err : add_heads(stream, s, s->G, b->keys, &dv, &dv_sum);
}

static int backward_heads(cudaStream_t stream, const struct mdsk_attention_bwd *a,
                          int64_t step)
{
    int64_t end = seeing_queries(&a->shape);
    struct block b = {.n = 0};
    int err = clear_gradients(stream, a);

    for (int64_t at = 0; !err && at < end; at += b.n) {
        b = block_at(&a->shape, at, step);
        err = backward_block(stream, a, &b);
    }
    return err;
}

int mdsk_cudnn_window_bwd(cudaStream_t stream, const struct mdsk_attention_bwd *a)
{
    const struct mdsk_attention_shape *s = &a->shape;
    struct mdsk_attention_part part = mdsk_attention_window_part(a);
    int64_t step = mdsk_attention_window_bwd_block(s);
    int err = is_supported(s) ? 0 : -ENOTSUP;

    for (int64_t b = 0; !err && b < s->B; b += part.B)
        for (int64_t h = 0; !err && h < s->A; h += part.A) {
            struct mdsk_attention_bwd some = heads_of(a, b, part.B, h, part.A);

            err = backward_heads(stream, &some, step);
        }
    return err;
}
