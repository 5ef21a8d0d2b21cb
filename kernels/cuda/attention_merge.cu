/* SPDX-License-Identifier: BSD-3-Clause */
/* Merge attention over some keys with attention over other keys, by log-sum-exp: two
 * results, or all parts of a split forward pass; the largest log-sum-exp of each
 * head. */
#include "kernels/cuda/attention.h"

#include <type_traits>

#include "kernels/cuda/amax.cuh"

namespace
{

using namespace mdsk;

constexpr int threads = 256;

__device__ int64_t lse_index(int64_t A, int64_t Sq, int64_t stride, int64_t b,
                             int64_t h, int64_t i)
{
    return (b * A + h) * (stride ? stride : Sq) + i;
}

/* acc = w acc + w2 o2, for the elements of a query that this lane holds. With w = 0,
 * acc may be uninitialised. */
template <class T, class Acc, int N>
__device__ void add_weighted(int64_t D, float w, float w2, const T *o2, Acc *acc)
{
    for (int64_t d = threadIdx.x * N; d < D; d += blockDim.x * N) {
        float x[N], y[N];

        load(o2 + d, x);
        load((const Acc *)acc + d, y);
#pragma unroll
        for (int j = 0; j < N; j++)
            y[j] = (w > 0 ? y[j] * w : 0) + x[j] * w2;
        store(y, acc + d);
    }
}

/* blockDim.x lanes of a warp handle one query. A thread block has neighbouring queries
 * of one head, whose lse are neighbours in memory; `blocks` of them make up a
 * sequence. */
template <class T, class Acc, int N>
__global__ __launch_bounds__(threads) void merge_kernel(struct mdsk_attention_merge a,
                                                        unsigned blocks)
{
    unsigned block = blockIdx.x / (unsigned)a.A, h = blockIdx.x % (unsigned)a.A;
    unsigned b = block / blocks;
    int64_t i = (int64_t)(block % blocks) * blockDim.y + threadIdx.y;
    bool inside = i < a.Sq;
    float *lse = a.lse + lse_index(a.A, a.Sq, a.lse_stride, b, h, i);
    float lse1 = inside ? *lse : 0, ratio, large, small;
    float lse2 = inside ? a.lse2[lse_index(a.A, a.Sq, a.lse2_stride, b, h, i)] : 0;

    __syncwarp(); /* all lanes have read lse */
    if (!inside || lse2 == -INFINITY)
        return;
    ratio = expf(-fabsf(lse1 - lse2));
    large = 1 / (1 + ratio);
    small = ratio * large;
    if (threadIdx.x == 0)
        *lse = fmaxf(lse1, lse2) + log1pf(ratio);
    add_weighted<T, Acc, N>(a.D, lse1 < lse2 ? small : large,
                            lse1 < lse2 ? large : small,
                            (const T *)a.o2.data + b * a.o2.batch_stride +
                                i * a.o2.token_stride + h * a.o2.head_stride,
                            (Acc *)a.acc.data + b * a.acc.batch_stride +
                                i * a.acc.token_stride + h * a.acc.head_stride);
}

/* acc is of o2's type if acc_like_o2, else f32. */
template <bool acc_like_o2>
int launch_merge(void *stream, const struct mdsk_attention_merge *a)
{
    int64_t strides = a->acc.batch_stride | a->acc.token_stride | a->acc.head_stride |
                      a->o2.batch_stride | a->o2.token_stride | a->o2.head_stride |
                      a->D;
    int64_t size = (int64_t)mdsk_dtype_size(a->dtype);
    bool wide = aligned({a->acc.data, a->o2.data}) && strides * size % 16 == 0;

    if (a->B * a->A * a->Sq < 1)
        return 0;
    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        using T = decltype(type);
        using Acc = std::conditional_t<acc_like_o2, T, float>;
        unsigned lanes = 1, queries;
        int64_t blocks;

        while (lanes < 32 && lanes * width() < a->D)
            lanes *= 2;
        queries = threads / lanes;
        blocks = ceil_div(a->Sq, queries);
        return launch(merge_kernel<T, Acc, width()>,
                      mdsk_cuda_blocks(a->B * a->A * blocks), dim3(lanes, queries),
                      stream, *a, (unsigned)blocks);
    });
}

/* Each block has a head, and every gridDim.y-th row of queries.  Negative numbers are
 * below what `most` begins with, and the bits of others order as they do. */
__global__ __launch_bounds__(threads) void most_kernel(struct mdsk_attention_most a)
{
    uint32_t *most = (uint32_t *)a.most + blockIdx.x;
    uint32_t seen = amax_so_far(most), here = 0;

    for (int64_t i = (int64_t)blockIdx.y * threads + threadIdx.x; i < a.B * a.Sq;
         i += (int64_t)gridDim.y * threads) {
        float lse =
            a.lse[lse_index(a.A, a.Sq, a.lse_stride, i / a.Sq, blockIdx.x, i % a.Sq)];

        if (!(lse < 0))
            here = max(here, amax_of<1>({lse}));
    }
    raise_amax<threads>(most, seen, here);
}

/* Row (b A + h) Sq + i is query i of head h of sequence b; `rows` are a part's. */
template <class T> struct merge_parts {
    struct mdsk_heads o;
    float *lse;
    const float *part_o, *part_lse;
    int64_t lse_stride, A, Sq, D, rows;
    int parts;

    template <int N> __device__ void run(int64_t row, int64_t d) const
    {
        int64_t i = row % Sq, h = row / Sq % A, b = row / Sq / A;
        float top = -INFINITY, total = 0, sum[N] = {0};

#pragma unroll 8
        for (int p = 0; p < parts; p++)
            top = fmaxf(top, part_lse[p * rows + row]);
#pragma unroll 4
        for (int p = 0; p < parts; p++) {
            float l = part_lse[p * rows + row], x[N];

            if (l == -INFINITY) /* no keys, and no o */
                continue;
            load(part_o + (p * rows + row) * D + d, x);
            l = expf(l - top);
            total += l;
            for (int j = 0; j < N; j++)
                sum[j] += l * x[j];
        }
        for (int j = 0; j < N; j++)
            sum[j] = total > 0 ? sum[j] / total : 0;
        store(sum, (T *)o.data + b * o.batch_stride + h * o.head_stride +
                       i * o.token_stride + d);
        if (d == 0)
            lse[(b * A + h) * lse_stride + i] = top + logf(total);
    }
};

} // namespace

extern "C" int mdsk_attention_most_cuda(void *stream,
                                        const struct mdsk_attention_most *a)
{
    int64_t rows = ceil_div(a->B * a->Sq, 8 * threads);

    return launch(most_kernel,
                  dim3(mdsk_cuda_blocks(a->A), (unsigned)(rows < 64 ? rows : 64)),
                  threads, stream, *a);
}

extern "C" int mdsk_cuda_attention_merge_parts(cudaStream_t stream,
                                               const struct mdsk_attention_fwd *f,
                                               int parts, const float *o,
                                               const float *lse)
{
    const struct mdsk_attention_shape *s = &f->shape;
    const int64_t rows = s->B * s->A * s->Sq;

    return with_storage(s->dtype, true, [&](auto type, auto width) {
        return each_row<width()>(
            stream, rows, s->D,
            merge_parts<decltype(type)>{f->o, f->lse, o, lse,
                                        f->lse_stride ? f->lse_stride : s->Sq, s->A,
                                        s->Sq, s->D, rows, parts});
    });
}

extern "C" int mdsk_attention_merge_cuda(void *stream,
                                         const struct mdsk_attention_merge *a)
{
    return launch_merge<false>(stream, a);
}

extern "C" int mdsk_cuda_attention_merge_16(cudaStream_t stream,
                                            const struct mdsk_attention_merge *a)
{
    return launch_merge<true>(stream, a);
}
