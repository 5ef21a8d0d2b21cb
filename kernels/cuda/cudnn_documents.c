/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention of rows with several documents by cuDNN: a call for each long document.
 *
 * A plan of cuDNN is for one number of tokens and takes a tenth of a second to build,
 * so lengths are rounded up to a few numbers, and a call runs on into the tokens of the
 * next documents.  No query of its own document sees those, because they come later.
 * What it writes for them is wrong, and the calls for them overwrite it: calls are made
 * in the order of tokens.  In the backward pass they must not add to the gradients of
 * the document's keys; so they get a log-sum-exp that makes their probabilities 0. */
#include "kernels/cuda/cudnn_attention.h"

#include <errno.h>

#include "kernels/cuda/attention.h"

/* Shorter documents are left to the project's own kernels, many in one launch. */
enum { SHORTEST = 1024 };

/* Tokens at .. at + n - 1 of sequence b: a long document, for which `call` tokens go
 * into a call of cuDNN; or any number of short ones, and call is 0. */
struct part {
    int64_t b, at, n, call;
};

/* Whole rows, whose starts can be read here. */
static int is_supported(const struct mdsk_attention_shape *s)
{
    return s->host_start && s->dtype != MDSK_F32 && !(s->dropout.p > 0) &&
           s->q_offset == 0 && s->Sq == s->Sk && s->first_query == s->first_key;
}

static int64_t round_up(int64_t n, int64_t step)
{
    return (n + step - 1) / step * step;
}

/* The tokens of a call for a document of n, of which the row has `room` from its first
 * on: rounded up by at most a 16th of n (below 2048: to 128), if that fits. */
static int64_t call_length(int64_t n, int64_t room)
{
    int64_t step = 128;

    while (32 * step <= n)
        step *= 2;
    if (round_up(n, step) <= room)
        return round_up(n, step);
    return round_up(n, 128) <= room ? round_up(n, 128) : n;
}

static int64_t document_end(const struct mdsk_attention_shape *s, int64_t b, int64_t at)
{
    int32_t start = s->host_start[mdsk_attention_start_index(s, b, at)];
    int64_t end = at + 1;

    while (end < s->Sq && s->host_start[mdsk_attention_start_index(s, b, end)] == start)
        end++;
    return end;
}

/* The part after *p of the same sequence; 0 if there is none. */
static int next_part(const struct mdsk_attention_shape *s, struct part *p)
{
    int64_t end;

    p->at += p->n;
    p->n = p->call = 0;
    while (p->at + p->n < s->Sq) {
        end = document_end(s, p->b, p->at + p->n);
        if (end - (p->at + p->n) >= SHORTEST) {
            if (p->n > 0)
                break;
            p->n = end - p->at;
            p->call = call_length(p->n, s->Sq - p->at);
            break;
        }
        p->n = end - p->at;
    }
    return p->n > 0;
}

static struct mdsk_heads heads_of_part(const struct mdsk_heads *x, const struct part *p)
{
    struct mdsk_heads out = *x;

    out.data = (uint16_t *)x->data + p->b * x->batch_stride + p->at * x->token_stride;
    return out;
}

/* The first n tokens of a part; of a long document without its start. */
static struct mdsk_attention_shape shape_of_part(const struct mdsk_attention_shape *s,
                                                 const struct part *p, int64_t n)
{
    struct mdsk_attention_shape out = *s;

    out.B = 1;
    out.Sq = out.Sk = n;
    out.start_stride = s->start_stride ? s->start_stride : s->B;
    out.start = p->call ? NULL : s->start + p->b;
    out.host_start = NULL;
    out.first_sample += p->b;
    out.first_query += p->at;
    out.first_key += p->at;
    return out;
}

static int64_t lse_stride_of(const struct mdsk_attention_shape *s, int64_t stride)
{
    return stride ? stride : s->Sq;
}

/* ---- forward ---- */

static struct mdsk_attention_fwd forward_of(const struct mdsk_attention_fwd *a,
                                            const struct part *p, int64_t n)
{
    int64_t stride = lse_stride_of(&a->shape, a->lse_stride);

    return (struct mdsk_attention_fwd){.shape = shape_of_part(&a->shape, p, n),
                                       .q = heads_of_part(&a->q, p),
                                       .k = heads_of_part(&a->k, p),
                                       .v = heads_of_part(&a->v, p),
                                       .o = heads_of_part(&a->o, p),
                                       .lse =
                                           a->lse + p->b * a->shape.A * stride + p->at,
                                       .lse_stride = stride};
}

static int forward_part(cudaStream_t stream, const struct mdsk_attention_fwd *a,
                        const struct part *p)
{
    struct mdsk_attention_fwd f = forward_of(a, p, p->call);
    int err = -ENOTSUP;

    if (p->call)
        err = f.shape.window > 0 ? mdsk_cudnn_window_fwd(stream, &f)
                                 : mdsk_cudnn_attention_fwd(stream, &f);
    if (err != -ENOTSUP)
        return err;
    f = forward_of(a, p, p->n);
    return mdsk_own_attention_fwd(stream, &f);
}

int mdsk_cudnn_documents_fwd(cudaStream_t stream, const struct mdsk_attention_fwd *a)
{
    int err = is_supported(&a->shape) ? 0 : -ENOTSUP;

    for (int64_t b = 0; !err && b < a->shape.B; b++) {
        struct part p = {.b = b};

        while (!err && next_part(&a->shape, &p))
            err = forward_part(stream, a, &p);
    }
    return err;
}

/* ---- backward ---- */

static struct mdsk_attention_bwd backward_of(const struct mdsk_attention_bwd *a,
                                             const struct part *p, int64_t n)
{
    int64_t stride = lse_stride_of(&a->shape, a->lse_stride);

    return (struct mdsk_attention_bwd){.shape = shape_of_part(&a->shape, p, n),
                                       .q = heads_of_part(&a->q, p),
                                       .k = heads_of_part(&a->k, p),
                                       .v = heads_of_part(&a->v, p),
                                       .o = heads_of_part(&a->o, p),
                                       .d_o = heads_of_part(&a->d_o, p),
                                       .dq = heads_of_part(&a->dq, p),
                                       .dk = heads_of_part(&a->dk, p),
                                       .dv = heads_of_part(&a->dv, p),
                                       .lse =
                                           a->lse + p->b * a->shape.A * stride + p->at,
                                       .lse_stride = stride,
                                       .delta = a->delta};
}

/* Give b a log-sum-exp, in its delta, which cuDNN does not use, that hides all queries
 * after the first n.  Bytes of 0x7f are 3.4e38 as f32. */
static int hide_queries(cudaStream_t stream, struct mdsk_attention_bwd *b, int64_t n)
{
    const size_t e = sizeof(float), row = (size_t)b->shape.Sq * e;
    const size_t from = (size_t)b->lse_stride * e, used = (size_t)n * e;
    int err = mdsk_cuda_rc(cudaMemcpy2DAsync(b->delta, row, b->lse, from, used,
                                             (size_t)b->shape.A,
                                             cudaMemcpyDeviceToDevice, stream));

    if (!err)
        err = mdsk_cuda_rc(cudaMemset2DAsync(b->delta + n, row, 0x7f, row - used,
                                             (size_t)b->shape.A, stream));
    b->lse = b->delta;
    b->lse_stride = b->shape.Sq;
    return err;
}

static int backward_part(cudaStream_t stream, const struct mdsk_attention_bwd *a,
                         const struct part *p)
{
    struct mdsk_attention_bwd b = backward_of(a, p, p->call);
    int err = p->call ? 0 : -ENOTSUP;

    if (p->call > p->n)
        err = hide_queries(stream, &b, p->n);
    if (!err)
        err = b.shape.window > 0 ? mdsk_cudnn_window_bwd(stream, &b)
                                 : mdsk_cudnn_attention_bwd(stream, &b);
    if (err != -ENOTSUP)
        return err;
    b = backward_of(a, p, p->n);
    return mdsk_own_attention_bwd(stream, &b);
}

int mdsk_cudnn_documents_bwd(cudaStream_t stream, const struct mdsk_attention_bwd *a)
{
    int err = is_supported(&a->shape) ? 0 : -ENOTSUP;

    for (int64_t b = 0; !err && b < a->shape.B; b++) {
        struct part p = {.b = b};

        while (!err && next_part(&a->shape, &p))
            err = backward_part(stream, a, &p);
    }
    return err;
}
