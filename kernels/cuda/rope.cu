/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/rope.h"

#include <string.h>

#include "kernels/cuda/launch.cuh"

namespace
{

using namespace mdsk;

constexpr int threads = 256, most_turns = 1024;

/* Pairs first .. first + n - 1 of each head.  A parameter of the kernel: it needs no
 * copy in device memory, and its 2 KiB fit the 4 KiB that every CUDA has for them. */
struct pairs {
    int first, n;
    double frequency[256];
};

constexpr int most_pairs = sizeof(pairs::frequency) / sizeof(double);

/* Block i rotates p's pairs of all heads of `tokens` tokens from i * tokens on.  Its
 * threads first make the cosines and sines that these share.  The start of token s is
 * that at s * stride, for all its sequences. */
template <class T, int N>
__global__ __launch_bounds__(threads) void rope(struct mdsk_rope a, int64_t stride,
                                                int tokens, pairs p)
{
    __shared__ float2 turn[most_turns]; /* [tokens, N, pieces]: no bank conflicts */
    int64_t s0 = (int64_t)blockIdx.x * tokens;
    unsigned half = (unsigned)a.rot / 2, n = (unsigned)p.n, pieces = n / N;
    unsigned here = (unsigned)min((int64_t)tokens, a.S - s0);
    unsigned A = (unsigned)a.A, B = (unsigned)a.B;
    float scale_sin = a.inverse ? -a.scale : a.scale;

    for (unsigned i = threadIdx.x; i < here * n; i += threads) {
        unsigned s = i / n, d = i % n;
        int64_t start = a.start ? a.start[(s0 + s) * stride] : 0;
        double t = (double)(a.first_token + s0 + s - start) * p.frequency[d], c, z;

        sincospi(t * 0.31830988618379067154, &z, &c);
        turn[s * n + d % N * pieces + d / N] =
            make_float2((float)c * a.scale, (float)z * scale_sin);
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < here * B * A * pieces; i += threads) {
        unsigned piece = i % pieces, head = i / pieces;
        unsigned h = head % A, b = head / A % B, s = head / A / B;
        T *x = (T *)a.x.data + b * a.x.batch_stride + (s0 + s) * a.x.token_stride +
               h * a.x.head_stride + p.first + piece * N;
        float lo[N], hi[N];

        load(x, lo);
        load(x + half, hi);
#pragma unroll
        for (int j = 0; j < N; j++) {
            float2 t = turn[s * n + j * pieces + piece];
            float x0 = lo[j];

            lo[j] = x0 * t.x - hi[j] * t.y;
            hi[j] = hi[j] * t.x + x0 * t.y;
        }
        store(lo, x);
        store(hi, x + half);
    }
}

/* Positions of a block: some work for each thread, and room for their turns. */
int tokens_of(const struct mdsk_rope *a, int64_t n, int width)
{
    int64_t of_one = a->B * a->A * (n / width);
    int64_t tokens = ceil_div(2 * threads, of_one);

    return (int)(tokens * n > most_turns ? most_turns / n : tokens);
}

template <class T, int N>
int rotate_pairs(void *stream, const struct mdsk_rope *a, int64_t stride, int64_t first)
{
    int64_t left = a->rot / 2 - first, n = left < most_pairs ? left : most_pairs;
    int tokens = tokens_of(a, n, N);
    pairs p = {(int)first, (int)n, {}};

    memcpy(p.frequency, a->frequency + first, (size_t)n * sizeof(double));
    return launch(rope<T, N>, mdsk_cuda_blocks(ceil_div(a->S, tokens)), threads, stream,
                  *a, stride, tokens, p);
}

int rotate(void *stream, const struct mdsk_rope *a, int64_t stride, bool wide)
{
    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        int err = 0;

        for (int64_t first = 0; first < a->rot / 2 && !err; first += most_pairs)
            err = rotate_pairs<decltype(type), width()>(stream, a, stride, first);
        return err;
    });
}

/* Sequences whose documents begin elsewhere share no angles: one after the other. */
int rotate_each(void *stream, const struct mdsk_rope *a, bool wide)
{
    int err = 0;

    for (int64_t b = 0; b < a->B && !err; b++) {
        struct mdsk_rope one = *a;

        one.B = 1;
        one.start += b;
        one.x.data = (char *)a->x.data +
                     b * a->x.batch_stride * (int64_t)mdsk_dtype_size(a->dtype);
        err = rotate(stream, &one, a->B, wide);
    }
    return err;
}

} // namespace

extern "C" int mdsk_rope_cuda(void *stream, const struct mdsk_rope *a)
{
    int64_t half = a->rot / 2, size = (int64_t)mdsk_dtype_size(a->dtype);
    int64_t all = a->x.batch_stride | a->x.token_stride | a->x.head_stride | half;
    bool wide = aligned({a->x.data}) && all * size % 16 == 0;

    if (a->B * a->S * a->A < 1)
        return 0;
    if (a->B * a->A * most_pairs > INT_MAX) {
        mdsk_cuda_fail("rope", "too many heads");
        return -ENOTSUP;
    }
    return a->start ? rotate_each(stream, a, wide) : rotate(stream, a, 0, wide);
}
