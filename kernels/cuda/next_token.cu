/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/next_token.h"

#include "kernels/cuda/launch.cuh"

namespace
{

using namespace mdsk;

constexpr int threads = 512;

/* The best of some words; `bad`: a logit among them is NaN. */
struct best {
    float logit;
    int word;
    bool bad;
};

/* Of equal logits the first. */
__device__ void take(struct best &b, float logit, int word)
{
    b.bad |= logit != logit;
    if (logit > b.logit || (logit == b.logit && word < b.word)) {
        b.logit = logit;
        b.word = word;
    }
}

__device__ void merge_warp(struct best &b)
{
#pragma unroll
    for (int other = 16; other > 0; other /= 2) {
        float logit = __shfl_xor_sync(~0u, b.logit, other);
        int word = __shfl_xor_sync(~0u, b.word, other);
        int bad = __shfl_xor_sync(~0u, (int)b.bad, other);

        take(b, logit, word);
        b.bad |= bad != 0;
    }
}

template <class T, int N> __device__ void take_row(const T *row, int V, struct best &b)
{
#pragma unroll 4
    for (int c = threadIdx.x * N; c < V; c += threads * N) {
        float v[N];

        load(row + c, v);
#pragma unroll
        for (int j = 0; j < N; j++)
            if (c + j < V)
                take(b, v[j], c + j);
    }
}

/* A block for each row. */
template <class T, int N>
__global__ __launch_bounds__(threads) void next_token(struct mdsk_next_token a)
{
    __shared__ struct best of[threads / 32];
    struct best b = {-INFINITY, INT_MAX, false};
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, place, token;

    take_row<T, N>((const T *)a.logits + blockIdx.x * a.stride, (int)a.V, b);
    merge_warp(b);
    if (lane == 0)
        of[warp] = b;
    __syncthreads();
    if (warp > 0)
        return;
    b = of[lane % (threads / 32)];
    merge_warp(b);
    if (lane > 0)
        return;
    place = -a.start[blockIdx.x];
    token = b.bad || !isfinite(b.logit) ? -1 : b.word;
    a.token[blockIdx.x] = token;
    a.made[place % MDSK_TOKENS_AHEAD * a.B + blockIdx.x] = token;
    a.start[blockIdx.x] = -(place + 1);
    if (blockIdx.x == 0)
        *a.place = place + 1;
}

} // namespace

extern "C" int mdsk_next_token_cuda(void *stream, const struct mdsk_next_token *a)
{
    size_t size = mdsk_dtype_size(a->dtype);
    bool wide = aligned({a->logits}) && (size_t)a->stride * size % 16 == 0;

    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        return launch(next_token<decltype(type), width()>, mdsk_cuda_blocks(a->B),
                      threads, stream, *a);
    });
}
