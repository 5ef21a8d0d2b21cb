/* SPDX-License-Identifier: BSD-3-Clause */
/* Flash attention, backward: probabilities are computed again from lse.  One kernel has
 * a thread block per tile of keys and sums dk and dv over the queries; the other has
 * one per tile of queries and sums dq over the keys.  Scores are computed twice, but
 * there are no atomics, so the order of each sum is fixed.
 *
 *   p = exp(scale q k^T - lse)      dv = (f p)^T d_o       f: dropout's factors
 *   ds = p (f d_o v^T - delta)      dq = scale ds k        dk = scale ds^T q */
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_tile.cuh"

namespace
{

using namespace mdsk;

/* delta = row sums of d_o * o, a warp for each. */
template <class T>
__global__ void __launch_bounds__(256)
    delta_kernel(struct mdsk_attention_shape s, struct mdsk_heads o,
                 struct mdsk_heads d_o, float *delta)
{
    int64_t query = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    int64_t h = blockIdx.y, b = blockIdx.z;
    const T *x = head_at<T>(o, b, h) + query * o.token_stride;
    const T *y = head_at<T>(d_o, b, h) + query * d_o.token_stride;
    float sum = 0;

    if (query >= s.Sq)
        return;
    for (int64_t d = threadIdx.x; d < s.D; d += 32)
        sum += widen(x[d]) * widen(y[d]);
    sum = warp_sum(sum);
    if (threadIdx.x == 0)
        delta[(b * s.A + h) * s.Sq + query] = sum;
}

/* The tiles of a thread block in shared memory. */
template <int WIDE> struct shared_tiles {
    float *q, *d_o, *k, *v, *scores;

    __device__ shared_tiles(float *at)
    {
        using t = tiling<WIDE>;

        q = at;
        d_o = q + t::heads;
        k = d_o + t::heads;
        v = k + t::heads;
        scores = v + t::heads;
    }

    static constexpr int floats = 4 * tiling<WIDE>::heads + tiling<WIDE>::scores;
};

template <int WIDE>
using score_tile = float[tiling<WIDE>::per_thread][tiling<WIDE>::per_thread];

/* Store p, transposed or not, as the tile of scores in shared memory. */
template <int WIDE>
__device__ void store_scores(const score_tile<WIDE> &p, bool transposed, float *to)
{
    using t = tiling<WIDE>;

#pragma unroll
    for (int i = 0; i < t::per_thread; i++)
#pragma unroll
        for (int j = 0; j < t::per_thread; j++) {
            int r = threadIdx.y + 16 * i, c = threadIdx.x + 16 * j;

            to[transposed ? c * t::score_row + r : r * t::score_row + c] = p[i][j];
        }
}

/* Compute p (after dropout) and ds of queries q .. and keys k .. of head h. */
template <class T, int WIDE>
__device__ void
compute_p_and_ds(const struct attention_view &v, const struct mdsk_attention_bwd &a,
                 const shared_tiles<WIDE> &w, int64_t b, int64_t h, int64_t q,
                 int64_t k, score_tile<WIDE> &p, score_tile<WIDE> &ds)
{
    using t = tiling<WIDE>;
    const float *lse = a.lse + (b * v.s.A + h) * v.lse_stride;
    const float *delta = a.delta + (b * v.s.A + h) * v.s.Sq;
    float slope = mdsk_attention_slope(&v.s, h);
    bool has_dropout = v.s.dropout.p > 0;

    if (has_dropout) {
        dropout_factors<WIDE>(v, b, h, q, k, w.scores);
        __syncthreads();
    }
    dot_rows<WIDE>(w.q, w.k, (int)v.s.D, p);
    dot_rows<WIDE>(w.d_o, w.v, (int)v.s.D, ds);
#pragma unroll
    for (int i = 0; i < t::per_thread; i++) {
        int r = threadIdx.y + 16 * i;
        seen_keys seen(v.s, b, q + r);
        float l = q + r < v.s.Sq ? lse[q + r] : 0,
              d = q + r < v.s.Sq ? delta[q + r] : 0;
        float distance = mdsk_attention_distance(&v.s, q + r, k + threadIdx.x);

#pragma unroll
        for (int j = 0; j < t::per_thread; j++) {
            int c = threadIdx.x + 16 * j;
            float f = has_dropout ? w.scores[r * t::score_row + c] : 1.0f;

            p[i][j] = p[i][j] * v.s.scale - l + slope * (distance + 16 * j);
            p[i][j] = seen.has(k + c) ? exp_for<T>(p[i][j]) : 0;
            ds[i][j] = p[i][j] * (f * ds[i][j] - d);
            p[i][j] *= f;
        }
    }
    __syncthreads(); /* the factors have been read */
}

template <int WIDE>
__device__ void fill(float (&factor)[tiling<WIDE>::per_thread], float value)
{
#pragma unroll
    for (int i = 0; i < tiling<WIDE>::per_thread; i++)
        factor[i] = value;
}

/* dk and dv of a tile of keys: sums over the query heads that share the key head, in
 * order, and over their queries that see any of these keys. */
template <class T, int WIDE>
__global__ void __launch_bounds__(256)
    dk_dv_kernel(struct attention_view v, struct mdsk_attention_bwd a)
{
    using t = tiling<WIDE>;
    extern __shared__ float4 shared[];
    shared_tiles<WIDE> w((float *)shared);
    const struct mdsk_attention_shape &s = v.s;
    int64_t g = blockIdx.y, b = blockIdx.z, group = s.A / s.G;
    int64_t k = (int64_t)blockIdx.x * t::side, first = max(k - s.q_offset, (int64_t)0);
    int D = (int)s.D;
    float factor[t::per_thread];
    score_tile<WIDE> p, ds;
    sums<WIDE> dk, dv;

    zero_sums<WIDE>(dk);
    zero_sums<WIDE>(dv);
    load_heads<WIDE>(w.k, head_at<T>(a.k, b, g), a.k.token_stride, k, s.Sk, D);
    load_heads<WIDE>(w.v, head_at<T>(a.v, b, g), a.v.token_stride, k, s.Sk, D);
    for (int64_t h = g * group; h < (g + 1) * group; h++)
        for (int64_t q = first / t::side * t::side;
             q < s.Sq && mdsk_attention_first_key(&s, b, q) < k + t::side;
             q += t::side) {
            __syncthreads();
            load_heads<WIDE>(w.q, head_at<T>(a.q, b, h), a.q.token_stride, q, s.Sq, D);
            load_heads<WIDE>(w.d_o, head_at<T>(a.d_o, b, h), a.d_o.token_stride, q,
                             s.Sq, D);
            __syncthreads();
            compute_p_and_ds<T, WIDE>(v, a, w, b, h, q, k, p, ds);
            store_scores<WIDE>(p, true, w.scores);
            __syncthreads();
            add_matmul<WIDE>(w.scores, w.d_o, dv);
            __syncthreads();
            store_scores<WIDE>(ds, true, w.scores);
            __syncthreads();
            add_matmul<WIDE>(w.scores, w.q, dk);
        }
    fill<WIDE>(factor, s.scale);
    store_heads<WIDE>(dk, factor, head_at<T>(a.dk, b, g), a.dk.token_stride, k, s.Sk,
                      D);
    fill<WIDE>(factor, 1);
    store_heads<WIDE>(dv, factor, head_at<T>(a.dv, b, g), a.dv.token_stride, k, s.Sk,
                      D);
}

/* dq of a tile of queries: a sum over the keys that they see. */
template <class T, int WIDE>
__global__ void __launch_bounds__(256)
    dq_kernel(struct attention_view v, struct mdsk_attention_bwd a)
{
    using t = tiling<WIDE>;
    extern __shared__ float4 shared[];
    shared_tiles<WIDE> w((float *)shared);
    const struct mdsk_attention_shape &s = v.s;
    int64_t h = blockIdx.y, b = blockIdx.z, g = h / (s.A / s.G);
    int64_t q = (gridDim.x - 1 - (int64_t)blockIdx.x) * t::side; /* long rows first */
    int64_t keys = mdsk_attention_end_key(&s, q + t::side - 1);
    int D = (int)s.D;
    float factor[t::per_thread];
    score_tile<WIDE> p, ds;
    sums<WIDE> dq;

    zero_sums<WIDE>(dq);
    load_heads<WIDE>(w.q, head_at<T>(a.q, b, h), a.q.token_stride, q, s.Sq, D);
    load_heads<WIDE>(w.d_o, head_at<T>(a.d_o, b, h), a.d_o.token_stride, q, s.Sq, D);
    for (int64_t k = first_tile_start<WIDE>(s, b, q); k < keys; k += t::side) {
        __syncthreads();
        load_heads<WIDE>(w.k, head_at<T>(a.k, b, g), a.k.token_stride, k, s.Sk, D);
        load_heads<WIDE>(w.v, head_at<T>(a.v, b, g), a.v.token_stride, k, s.Sk, D);
        __syncthreads();
        compute_p_and_ds<T, WIDE>(v, a, w, b, h, q, k, p, ds);
        store_scores<WIDE>(ds, false, w.scores);
        __syncthreads();
        add_matmul<WIDE>(w.scores, w.k, dq);
    }
    fill<WIDE>(factor, s.scale);
    store_heads<WIDE>(dq, factor, head_at<T>(a.dq, b, h), a.dq.token_stride, q, s.Sq,
                      D);
}

template <class T, int WIDE>
int launch_backward(cudaStream_t stream, const struct mdsk_attention_bwd *a)
{
    using t = tiling<WIDE>;
    constexpr size_t shared = shared_tiles<WIDE>::floats * sizeof(float);
    const struct mdsk_attention_shape *s = &a->shape;
    struct attention_view v = attention_view_of(s, a->lse_stride);
    unsigned A = (unsigned)s->A, G = (unsigned)s->G, B = (unsigned)s->B;
    int err = launch(delta_kernel<T>, dim3(mdsk_cuda_blocks(ceil_div(s->Sq, 8)), A, B),
                     dim3(32, 8), stream, *s, a->o, a->d_o, a->delta);

    if (!err)
        err = launch_with(shared, dk_dv_kernel<T, WIDE>,
                          dim3(mdsk_cuda_blocks(ceil_div(s->Sk, t::side)), G, B),
                          dim3(16, 16), stream, v, *a);
    if (!err)
        err = launch_with(shared, dq_kernel<T, WIDE>,
                          dim3(mdsk_cuda_blocks(ceil_div(s->Sq, t::side)), A, B),
                          dim3(16, 16), stream, v, *a);
    return err;
}

} // namespace

extern "C" int mdsk_own_attention_bwd(cudaStream_t stream,
                                      const struct mdsk_attention_bwd *a)
{
    return dispatch_tiling(a->shape.dtype, a->shape.D, [&](auto type, auto width) {
        return launch_backward<decltype(type), decltype(width)::value>(stream, a);
    });
}
