/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/rope.h"

#include <math.h>

#include "kernels/cuda/launch.cuh"

namespace
{

using namespace mdsk;

constexpr int threads = 256, most_turns = 1024;

/* Block i rotates all heads of `tokens` positions from i * tokens on.  Its threads
 * first make the cosines and sines that these share. */
template <class T, int N>
__global__ __launch_bounds__(threads) void rope(struct mdsk_rope a, int tokens,
                                                double log2_theta)
{
    __shared__ float2 turn[most_turns]; /* [tokens, N, pieces]: no bank conflicts */
    int64_t s0 = (int64_t)blockIdx.x * tokens;
    unsigned half = (unsigned)a.rot / 2, pieces = half / N;
    unsigned here = (unsigned)min((int64_t)tokens, a.S - s0);
    unsigned A = (unsigned)a.A, B = (unsigned)a.B;

    for (unsigned i = threadIdx.x; i < here * half; i += threads) {
        unsigned s = i / half, d = i % half;
        double power = -2.0 * d / (double)a.rot, c, z;
        double t = (double)(a.first_token + s0 + s) * exp2(power * log2_theta);

        sincospi(t * 0.31830988618379067154, &z, &c);
        turn[s * half + d % N * pieces + d / N] =
            make_float2((float)c, a.inverse ? (float)-z : (float)z);
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < here * B * A * pieces; i += threads) {
        unsigned piece = i % pieces, head = i / pieces;
        unsigned h = head % A, b = head / A % B, s = head / A / B;
        T *x = (T *)a.x.data + b * a.x.batch_stride + (s0 + s) * a.x.token_stride +
               h * a.x.head_stride + piece * N;
        float lo[N], hi[N];

        load(x, lo);
        load(x + half, hi);
#pragma unroll
        for (int j = 0; j < N; j++) {
            float2 t = turn[s * half + j * pieces + piece];
            float x0 = lo[j];

            lo[j] = x0 * t.x - hi[j] * t.y;
            hi[j] = hi[j] * t.x + x0 * t.y;
        }
        store(lo, x);
        store(hi, x + half);
    }
}

/* Positions of a block: some work for each thread, and room for their turns. */
int tokens_of(const struct mdsk_rope *a, int width)
{
    int64_t half = a->rot / 2, of_one = a->B * a->A * (half / width);
    int64_t tokens = ceil_div(2 * threads, of_one);

    return (int)(tokens * half > most_turns ? most_turns / half : tokens);
}

} // namespace

extern "C" int mdsk_rope_cuda(void *stream, const struct mdsk_rope *a)
{
    int64_t half = a->rot / 2, size = (int64_t)mdsk_dtype_size(a->dtype);
    int64_t all = a->x.batch_stride | a->x.token_stride | a->x.head_stride | half;
    bool wide = aligned({a->x.data}) && all * size % 16 == 0;

    if (a->B * a->S * a->A < 1)
        return 0;
    if (half > most_turns || a->B * a->A * half > INT_MAX) {
        mdsk_cuda_fail("rope", "rotations of more than 2048, or too many heads");
        return -ENOTSUP;
    }
    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        int tokens = tokens_of(a, width());

        return launch(rope<decltype(type), width()>,
                      mdsk_cuda_blocks(ceil_div(a->S, tokens)), threads, stream, *a,
                      tokens, log2(a->theta));
    });
}
