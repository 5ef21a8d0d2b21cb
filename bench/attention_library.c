/* SPDX-License-Identifier: BSD-3-Clause */
/* Our attention for Hopper, and our kernels for any GPU, as a shared library, for
 * bench/attention.py: "make bench/libattention.so".  Tensors are packed
 * [B, S, heads, D] in bf16, lse is [B, A, queries].  Functions return 0 or -errno. */
#include <stdint.h>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/hopper/attention.h"
#include "kernels/cuda/hopper/backward.h"

/* A query heads, G key/value heads; bf16.  The queries are the last ones of S tokens.
 * plain: by the kernels for any GPU. */
struct bench_shape {
    int64_t B, S, A, G, D, window, queries, plain;
    double scale, dropout;
};

int bench_attention_fwd(void *stream, const struct bench_shape *s, void *q, void *k,
                        void *v, void *o, float *lse);
int bench_attention_bwd(void *stream, const struct bench_shape *s, void *const *tensors,
                        const float *lse, float *delta);
void bench_attention_repeatable(int on);

static struct mdsk_attention_shape shape_of(const struct bench_shape *s)
{
    return (struct mdsk_attention_shape){
        .B = s->B,
        .A = s->A,
        .G = s->G,
        .Sq = s->queries,
        .Sk = s->S,
        .D = s->D,
        .q_offset = s->S - s->queries,
        .window = s->window,
        .scale = (float)s->scale,
        .dtype = MDSK_BF16,
        .dropout = {.p = (float)s->dropout, .seed = 1234},
    };
}

static struct mdsk_heads heads_of(const struct bench_shape *s, void *data,
                                  int64_t tokens, int64_t n)
{
    return (struct mdsk_heads){data, tokens * n * s->D, n * s->D, s->D};
}

static struct mdsk_heads queries_of(const struct bench_shape *s, void *data)
{
    return heads_of(s, data, s->queries, s->A);
}

static struct mdsk_heads keys_of(const struct bench_shape *s, void *data)
{
    return heads_of(s, data, s->S, s->G);
}

int bench_attention_fwd(void *stream, const struct bench_shape *s, void *q, void *k,
                        void *v, void *o, float *lse)
{
    const struct mdsk_attention_fwd a = {
        .shape = shape_of(s),
        .q = queries_of(s, q),
        .k = keys_of(s, k),
        .v = keys_of(s, v),
        .o = queries_of(s, o),
        .lse = lse,
    };

    return s->plain ? mdsk_own_attention_fwd(stream, &a)
                    : mdsk_hopper_attention_fwd(stream, &a);
}

/* tensors: q, k, v, o, d_o, dq, dk, dv; delta is for the plain kernels */
int bench_attention_bwd(void *stream, const struct bench_shape *s, void *const *tensors,
                        const float *lse, float *delta)
{
    const struct mdsk_attention_bwd a = {
        .shape = shape_of(s),
        .q = queries_of(s, tensors[0]),
        .k = keys_of(s, tensors[1]),
        .v = keys_of(s, tensors[2]),
        .o = queries_of(s, tensors[3]),
        .d_o = queries_of(s, tensors[4]),
        .dq = queries_of(s, tensors[5]),
        .dk = keys_of(s, tensors[6]),
        .dv = keys_of(s, tensors[7]),
        .lse = lse,
        .delta = delta,
    };

    return s->plain ? mdsk_own_attention_bwd(stream, &a)
                    : mdsk_hopper_attention_bwd(stream, &a);
}

void bench_attention_repeatable(int on)
{
    mdsk_cuda_set_repeatable(on);
}
