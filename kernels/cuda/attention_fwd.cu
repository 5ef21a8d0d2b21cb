/* SPDX-License-Identifier: BSD-3-Clause */
/* Flash attention, forward: each thread block takes some queries of a head and loops
 * over tiles of keys, with an online softmax. */
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_tile.cuh"

namespace
{

using namespace mdsk;

/* Maximum and sum over the 16 threads that share a row. */
__device__ float row_max(float v)
{
#pragma unroll
    for (int other = 8; other > 0; other /= 2)
        v = fmaxf(v, __shfl_xor_sync(~0u, v, other));
    return v;
}

__device__ float row_sum(float v)
{
#pragma unroll
    for (int other = 8; other > 0; other /= 2)
        v += __shfl_xor_sync(~0u, v, other);
    return v;
}

/* Online softmax of one tile: turn the scores p of queries q .. and keys k .. into
 * exp(score - row_top), where row_top is each row's largest score so far; rescale the
 * sums of earlier tiles (row_total and o) to the new row_top. */
template <int WIDE, class T>
__device__ void
online_softmax(const struct mdsk_attention_shape &s, int64_t b, float slope, int64_t q,
               int64_t k,
               float (&p)[tiling<WIDE>::per_thread][tiling<WIDE>::per_thread],
               float (&row_top)[tiling<WIDE>::per_thread],
               float (&row_total)[tiling<WIDE>::per_thread], sums<WIDE> &o)
{
    using t = tiling<WIDE>;

#pragma unroll
    for (int i = 0; i < t::per_thread; i++) {
        int64_t query = q + threadIdx.y + 16 * i;
        seen_keys seen(s, b, query);
        float old = row_top[i], base, rescale, tile_sum = 0;
        float distance = mdsk_attention_distance(&s, query, k + threadIdx.x);

#pragma unroll
        for (int j = 0; j < t::per_thread; j++) {
            int64_t key = k + threadIdx.x + 16 * j;

            p[i][j] = seen.has(key) ? p[i][j] * s.scale + slope * (distance + 16 * j)
                                    : -INFINITY;
            row_top[i] = fmaxf(row_top[i], p[i][j]);
        }
        row_top[i] = row_max(row_top[i]);
        base = row_top[i] == -INFINITY ? 0 : row_top[i]; /* no key seen so far */
#pragma unroll
        for (int j = 0; j < t::per_thread; j++) {
            p[i][j] = exp_for<T>(p[i][j] - base);
            tile_sum += p[i][j];
        }
        rescale = exp_for<T>(old - base);
        row_total[i] = row_total[i] * rescale + row_sum(tile_sum);
#pragma unroll
        for (int j = 0; j < t::column_groups; j++)
#pragma unroll
            for (int c = 0; c < 4; c++)
                o[i][j][c] *= rescale;
    }
}

template <class T, int WIDE>
__global__ void __launch_bounds__(256)
    attention_kernel(struct attention_view v, struct mdsk_attention_fwd a)
{
    using t = tiling<WIDE>;
    extern __shared__ float4 shared[];
    float *q_tile = (float *)shared, *kv_tile = q_tile + t::heads;
    float *p_tile = kv_tile + t::heads, *drop_tile = p_tile + t::scores;
    const struct mdsk_attention_shape &s = v.s;
    int64_t h = blockIdx.y, b = blockIdx.z, g = h / (s.A / s.G);
    int64_t q = (gridDim.x - 1 - (int64_t)blockIdx.x) * t::side; /* long rows first */
    int64_t keys = mdsk_attention_end_key(&s, q + t::side - 1);
    int D = (int)s.D;
    float slope = mdsk_attention_slope(&s, h);
    float p[t::per_thread][t::per_thread], row_top[t::per_thread],
        row_total[t::per_thread], factor[t::per_thread];
    sums<WIDE> o;

    zero_sums<WIDE>(o);
#pragma unroll
    for (int i = 0; i < t::per_thread; i++) {
        row_top[i] = -INFINITY;
        row_total[i] = 0;
    }
    load_heads<WIDE>(q_tile, head_at<T>(a.q, b, h), a.q.token_stride, q, s.Sq, D);
    for (int64_t k = first_tile_start<WIDE>(s, b, q); k < keys; k += t::side) {
        __syncthreads();
        load_heads<WIDE>(kv_tile, head_at<T>(a.k, b, g), a.k.token_stride, k, s.Sk, D);
        if (s.dropout.p > 0)
            dropout_factors<WIDE>(v, b, h, q, k, drop_tile);
        __syncthreads();
        dot_rows<WIDE>(q_tile, kv_tile, D, p);
        online_softmax<WIDE, T>(s, b, slope, q, k, p, row_top, row_total, o);
#pragma unroll
        for (int i = 0; i < t::per_thread; i++)
#pragma unroll
            for (int j = 0; j < t::per_thread; j++) {
                int at = (threadIdx.y + 16 * i) * t::score_row + threadIdx.x + 16 * j;

                p_tile[at] = s.dropout.p > 0 ? p[i][j] * drop_tile[at] : p[i][j];
            }
        __syncthreads();
        load_heads<WIDE>(kv_tile, head_at<T>(a.v, b, g), a.v.token_stride, k, s.Sk, D);
        __syncthreads();
        add_matmul<WIDE>(p_tile, kv_tile, o);
    }
#pragma unroll
    for (int i = 0; i < t::per_thread; i++) {
        int64_t query = q + threadIdx.y + 16 * i;

        factor[i] = row_total[i] > 0 ? 1 / row_total[i] : 0;
        if (threadIdx.x == 0 && query < s.Sq)
            a.lse[(b * s.A + h) * v.lse_stride + query] =
                row_top[i] + logf(row_total[i]);
    }
    store_heads<WIDE>(o, factor, head_at<T>(a.o, b, h), a.o.token_stride, q, s.Sq, D);
}

} // namespace

extern "C" int mdsk_own_attention_fwd(cudaStream_t stream,
                                      const struct mdsk_attention_fwd *a)
{
    const struct mdsk_attention_shape *s = &a->shape;

    return dispatch_tiling(s->dtype, s->D, [&](auto type, auto width) {
        using t = tiling<decltype(width)::value>;
        dim3 blocks(mdsk_cuda_blocks(ceil_div(s->Sq, t::side)), (unsigned)s->A,
                    (unsigned)s->B);

        return launch_with((2 * t::heads + 2 * t::scores) * sizeof(float),
                           attention_kernel<decltype(type), decltype(width)::value>,
                           blocks, dim3(16, 16), stream,
                           attention_view_of(s, a->lse_stride), *a);
    });
}
