/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention over one part of the keys and attention over another become one. */
#include "kernels/cuda/attention.h"

#include <type_traits>

#include "kernels/cuda/launch.cuh"

namespace
{

using namespace mdsk;

constexpr int threads = 256;

__device__ int64_t stat_at(int64_t A, int64_t Sq, int64_t stride, int64_t b, int64_t h,
                           int64_t i)
{
    return (b * A + h) * (stride ? stride : Sq) + i;
}

/* acc = keep acc + take o2 on the elements of a query that this lane holds; what has
 * weight 0 may not be set. */
template <class T, class Acc, int N>
__device__ void blend(int64_t D, float keep, float take, const T *o2, Acc *acc)
{
    for (int64_t d = threadIdx.x * N; d < D; d += blockDim.x * N) {
        float x[N], y[N];

        load(o2 + d, x);
        load((const Acc *)acc + d, y);
#pragma unroll
        for (int j = 0; j < N; j++)
            y[j] = (keep > 0 ? y[j] * keep : 0) + x[j] * take;
        store(y, acc + d);
    }
}

/* blockDim.x lanes of a warp take a query of head h.  A block has neighbouring queries,
 * as their statistics are neighbours; `blocks` have all of a sequence's head. */
template <class T, class Acc, int N>
__global__ __launch_bounds__(threads) void merge(struct mdsk_attention_merge a,
                                                 unsigned blocks)
{
    unsigned some = blockIdx.x / (unsigned)a.A, h = blockIdx.x % (unsigned)a.A;
    unsigned b = some / blocks;
    int64_t i = (int64_t)(some % blocks) * blockDim.y + threadIdx.y;
    bool live = i < a.Sq;
    float *lse = a.lse + stat_at(a.A, a.Sq, a.lse_stride, b, h, i);
    float was = live ? *lse : 0, ratio, large, small;
    float more = live ? a.lse2[stat_at(a.A, a.Sq, a.lse2_stride, b, h, i)] : 0;

    __syncwarp(); /* all lanes have read lse */
    if (!live || more == -INFINITY)
        return;
    ratio = expf(-fabsf(was - more));
    large = 1 / (1 + ratio);
    small = ratio * large;
    if (threadIdx.x == 0)
        *lse = fmaxf(was, more) + log1pf(ratio);
    blend<T, Acc, N>(a.D, was < more ? small : large, was < more ? large : small,
                     (const T *)a.o2.data + b * a.o2.batch_stride +
                         i * a.o2.token_stride + h * a.o2.head_stride,
                     (Acc *)a.acc.data + b * a.acc.batch_stride +
                         i * a.acc.token_stride + h * a.acc.head_stride);
}

/* acc: f32, or of o2's type. */
template <bool narrow> int run(void *stream, const struct mdsk_attention_merge *a)
{
    int64_t all = a->acc.batch_stride | a->acc.token_stride | a->acc.head_stride |
                  a->o2.batch_stride | a->o2.token_stride | a->o2.head_stride | a->D;
    int64_t size = (int64_t)mdsk_dtype_size(a->dtype);
    bool wide = aligned({a->acc.data, a->o2.data}) && all * size % 16 == 0;

    if (a->B * a->A * a->Sq < 1)
        return 0;
    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        using T = decltype(type);
        using Acc = std::conditional_t<narrow, T, float>;
        unsigned lanes = 1, queries;
        int64_t blocks;

        while (lanes < 32 && lanes * width() < a->D)
            lanes *= 2;
        queries = threads / lanes;
        blocks = ceil_div(a->Sq, queries);
        return launch(merge<T, Acc, width()>, mdsk_cuda_blocks(a->B * a->A * blocks),
                      dim3(lanes, queries), stream, *a, (unsigned)blocks);
    });
}

} // namespace

extern "C" int mdsk_attention_merge_cuda(void *stream,
                                         const struct mdsk_attention_merge *a)
{
    return run<false>(stream, a);
}

extern "C" int mdsk_cuda_attention_merge_16(cudaStream_t stream,
                                            const struct mdsk_attention_merge *a)
{
    return run<true>(stream, a);
}
