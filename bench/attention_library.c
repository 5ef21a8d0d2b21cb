/* SPDX-License-Identifier: BSD-3-Clause */
/* Our attention for Hopper as a shared library, for bench/attention.py: "make
 * bench/libattention.so".  Tensors are packed [B, S, heads, D] in bf16, lse is
 * [B, A, S].  Functions return 0 or -errno. */
#include <stdint.h>

#include "kernels/cuda/hopper/attention.h"
#include "kernels/cuda/hopper/backward.h"

/* A query heads, G key/value heads; bf16. */
struct bench_shape {
    int64_t B, S, A, G, D, window;
    double scale;
};

int bench_attention_fwd(void *stream, const struct bench_shape *s, void *q, void *k,
                        void *v, void *o, float *lse);
int bench_attention_bwd(void *stream, const struct bench_shape *s, void *const *tensors,
                        const float *lse);
void bench_attention_repeatable(int on);

static struct mdsk_attention_shape shape_of(const struct bench_shape *s)
{
    return (struct mdsk_attention_shape){
        .B = s->B,
        .A = s->A,
        .G = s->G,
        .Sq = s->S,
        .Sk = s->S,
        .D = s->D,
        .window = s->window,
        .scale = (float)s->scale,
        .dtype = MDSK_BF16,
    };
}

static struct mdsk_heads heads_of(const struct bench_shape *s, void *data, int64_t n)
{
    return (struct mdsk_heads){data, s->S * n * s->D, n * s->D, s->D};
}

int bench_attention_fwd(void *stream, const struct bench_shape *s, void *q, void *k,
                        void *v, void *o, float *lse)
{
    const struct mdsk_attention_fwd a = {
        .shape = shape_of(s),
        .q = heads_of(s, q, s->A),
        .k = heads_of(s, k, s->G),
        .v = heads_of(s, v, s->G),
        .o = heads_of(s, o, s->A),
        .lse = lse,
    };

    return mdsk_hopper_attention_fwd(stream, &a);
}

/* tensors: q, k, v, o, d_o, dq, dk, dv */
int bench_attention_bwd(void *stream, const struct bench_shape *s, void *const *tensors,
                        const float *lse)
{
    const struct mdsk_attention_bwd a = {
        .shape = shape_of(s),
        .q = heads_of(s, tensors[0], s->A),
        .k = heads_of(s, tensors[1], s->G),
        .v = heads_of(s, tensors[2], s->G),
        .o = heads_of(s, tensors[3], s->A),
        .d_o = heads_of(s, tensors[4], s->A),
        .dq = heads_of(s, tensors[5], s->A),
        .dk = heads_of(s, tensors[6], s->G),
        .dv = heads_of(s, tensors[7], s->G),
        .lse = lse,
    };

    return mdsk_hopper_attention_bwd(stream, &a);
}

void bench_attention_repeatable(int on)
{
    mdsk_cuda_set_repeatable(on);
}
