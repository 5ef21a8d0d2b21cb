/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/rope.h"

#include <string.h>

#include "kernels/cuda/launch.cuh"

namespace
{

using namespace mdsk;

constexpr int threads = 256, max_rotations = 1024;

/* The frequencies of pairs first .. first + n - 1 of each head. Passed as a kernel
 * argument, so nothing is copied to device memory: its 2 KiB fit the 4 KiB that every
 * CUDA version allows for arguments. */
struct pairs {
    int first, n;
    double frequency[256];
};

constexpr int max_pairs = sizeof(pairs::frequency) / sizeof(double);

/* Thread blocks (i, any) rotate the pairs p of all heads of tokens i * tokens .. +
 * tokens - 1.  Their threads first compute the cosines and sines, which heads share.
 * a.start[s * stride] is the document start of token s. */
template <class T, int N>
__global__ __launch_bounds__(threads) void rope_kernel(struct mdsk_rope a,
                                                       int64_t stride, int tokens,
                                                       pairs p)
{
    /* [tokens, N, vectors]: no bank conflicts */
    __shared__ float2 cos_sin[max_rotations];
    int64_t s0 = (int64_t)blockIdx.x * tokens;
    unsigned half = (unsigned)a.rot / 2, n = (unsigned)p.n, vectors = n / N;
    unsigned count = (unsigned)min((int64_t)tokens, a.S - s0);
    unsigned A = (unsigned)a.A, B = (unsigned)a.B;
    float scale_sin = a.inverse ? -a.scale : a.scale;

    for (unsigned i = threadIdx.x; i < count * n; i += threads) {
        unsigned s = i / n, d = i % n;
        int64_t start = a.start ? a.start[(s0 + s) * stride] : 0;
        double t = (double)(a.first_token + s0 + s - start) * p.frequency[d], c, z;

        sincospi(t * 0.31830988618379067154, &z, &c);
        cos_sin[s * n + d % N * vectors + d / N] =
            make_float2((float)c * a.scale, (float)z * scale_sin);
    }
    __syncthreads();
    for (unsigned i = blockIdx.y * threads + threadIdx.x; i < count * B * A * vectors;
         i += gridDim.y * threads) {
        unsigned vector = i % vectors, head = i / vectors;
        unsigned h = head % A, b = head / A % B, s = head / A / B;
        T *x = (T *)a.x.data + b * a.x.batch_stride + (s0 + s) * a.x.token_stride +
               h * a.x.head_stride + p.first + vector * N;
        float lo[N], hi[N];

        load(x, lo);
        load(x + half, hi);
#pragma unroll
        for (int j = 0; j < N; j++) {
            float2 t = cos_sin[s * n + j * vectors + vector];
            float x0 = lo[j];

            lo[j] = x0 * t.x - hi[j] * t.y;
            hi[j] = hi[j] * t.x + x0 * t.y;
        }
        store(lo, x);
        store(hi, x + half);
    }
}

/* How many tokens a thread block rotates: enough for two vectors per thread, if their
 * cosines and sines fit in shared memory. */
int tokens_per_block(const struct mdsk_rope *a, int64_t n, int width)
{
    int64_t vectors_per_token = a->B * a->A * (n / width);
    int64_t tokens = ceil_div(2 * threads, vectors_per_token);

    return (int)(tokens * n > max_rotations ? max_rotations / n : tokens);
}

template <class T, int N>
int rotate_pairs(void *stream, const struct mdsk_rope *a, int64_t stride, int64_t first)
{
    int64_t left = a->rot / 2 - first, n = left < max_pairs ? left : max_pairs;
    int64_t parts, most = 64; /* of a token with many heads */
    int tokens = tokens_per_block(a, n, N);
    pairs p = {(int)first, (int)n, {}};

    memcpy(p.frequency, a->frequency + first, (size_t)n * sizeof(double));
    parts = ceil_div(tokens * a->B * a->A * (n / N), 4 * threads);
    return launch(rope_kernel<T, N>,
                  dim3(mdsk_cuda_blocks(ceil_div(a->S, tokens)),
                       (unsigned)(parts < most ? parts : most)),
                  threads, stream, *a, stride, tokens, p);
}

int rotate(void *stream, const struct mdsk_rope *a, int64_t stride, bool wide)
{
    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        int err = 0;

        for (int64_t first = 0; first < a->rot / 2 && !err; first += max_pairs)
            err = rotate_pairs<decltype(type), width()>(stream, a, stride, first);
        return err;
    });
}

/* Documents begin at other tokens in each sequence, so the sequences share no angles
 * and are rotated one by one. */
int rotate_each_sequence(void *stream, const struct mdsk_rope *a, bool wide)
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
    int64_t strides = a->x.batch_stride | a->x.token_stride | a->x.head_stride | half;
    bool wide = aligned({a->x.data}) && strides * size % 16 == 0;

    if (a->B * a->S * a->A < 1)
        return 0;
    if (a->B * a->A * max_pairs > INT_MAX) {
        mdsk_cuda_fail("rope", "too many heads");
        return -ENOTSUP;
    }
    return a->start ? rotate_each_sequence(stream, a, wide)
                    : rotate(stream, a, a->B, wide);
}
