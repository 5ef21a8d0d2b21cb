/* SPDX-License-Identifier: BSD-3-Clause */
/* Unfused attention between its GEMMs: packing and unpacking heads; softmax and its
 * gradient, with a block of threads per query. */
#include "kernels/cuda/unfused.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/philox.h"

namespace
{

using namespace mdsk;

constexpr int threads = 256;

/* ---- heads ---- */

/* The offset of token i in its tensor. */
__host__ __device__ inline int64_t token_offset(const struct mdsk_unfused_tokens &t,
                                                int64_t i)
{
    return t.b * t.heads.batch_stride + (t.first + i) * t.heads.token_stride +
           t.h * t.heads.head_stride;
}

template <class T> struct pack_heads {
    struct mdsk_unfused_tokens t;
    T *packed;

    template <int N> __device__ void run(int64_t row, int64_t d) const
    {
        const T *x = (const T *)t.heads.data;
        bool inside = row < t.n && d < t.D;

        packed[row * t.width + d] =
            inside ? x[token_offset(t, row) + d] : narrow<T>(0.0f);
    }
};

template <class T> struct unpack_heads {
    struct mdsk_unfused_tokens t;
    const float *packed;

    template <int N> __device__ void run(int64_t row, int64_t d) const
    {
        T *x = (T *)t.heads.data;

        x[token_offset(t, row) + d] = narrow<T>(packed[row * t.width + d]);
    }
};

/* ---- rows of scores ---- */

/* A block of queries, with the constants of dropout. */
struct query_block {
    struct mdsk_unfused_block x;
    uint32_t threshold; /* of dropout */
    float keep_scale;   /* 1 / (1 - p), by which the elements kept are multiplied */
};

struct query_block query_block_of(const struct mdsk_unfused_block *x)
{
    float p = x->shape.dropout.p;

    return {*x, mdsk_dropout_threshold(p), 1 / (1 - p)};
}

/* The factor of dropout for query i and key j: 0, keep_scale, or 1 without dropout. */
__device__ inline float dropout_factor(const struct query_block &r, int64_t i,
                                       int64_t j)
{
    const struct mdsk_attention_shape &s = r.x.shape;
    int64_t key = s.first_key + r.x.key + j;
    int64_t token = mdsk_attention_token(&s, r.x.h, r.x.first + i);
    uint32_t word[4];

    if (!(s.dropout.p > 0))
        return 1;
    mdsk_dropout_block(s.dropout.seed, s.dropout.site, s.dropout.step,
                       s.first_sample + r.x.b, token, key / 4, word);
    return word[key % 4] >= r.threshold ? r.keep_scale : 0;
}

/* A query's scores as softmax takes them. */
struct row_scores {
    const float *raw;
    float scale, slope, distance; /* ALiBi's, of key 0 */

    __device__ row_scores(const struct mdsk_unfused_block &x, const float *scores,
                          int64_t i)
        : raw(scores + i * x.n), scale(x.shape.scale),
          slope(mdsk_attention_slope(&x.shape, x.h)),
          distance(mdsk_attention_distance(&x.shape, x.first + i, x.key))
    {
    }

    __device__ float less(float top, int64_t j) const
    {
        return raw[j] * scale - top + slope * (distance + (float)j);
    }
};

/* Every thread gets the maximum over the thread block. */
__device__ float block_max(float v)
{
    __shared__ float scratch[threads / 32];

#pragma unroll
    for (int other = 16; other > 0; other /= 2)
        v = fmaxf(v, __shfl_xor_sync(~0u, v, other));
    if (threadIdx.x % 32 == 0)
        scratch[threadIdx.x / 32] = v;
    __syncthreads();
    for (int i = 0; i < threads / 32; i++)
        v = fmaxf(v, scratch[i]);
    return v;
}

template <class T>
__global__ void __launch_bounds__(threads)
    softmax_kernel(struct query_block r, struct mdsk_unfused_softmax_fwd a)
{
    const int64_t i = blockIdx.x, n = r.x.n;
    const int64_t begin = mdsk_unfused_begin(&r.x, i), end = mdsk_unfused_end(&r.x, i);
    const row_scores scores(r.x, a.scores, i);
    T *p = (T *)a.p + i * n;
    float max_score = -INFINITY, sum = 0;

    for (int64_t j = begin + threadIdx.x; j < end; j += threads)
        max_score = fmaxf(max_score, scores.less(0, j));
    max_score = block_max(max_score);
    for (int64_t j = begin + threadIdx.x; j < end; j += threads)
        sum += expf(scores.less(max_score, j));
    sum = team_sum<threads>(sum);
    for (int64_t j = threadIdx.x; j < n; j += threads) {
        bool sees = begin <= j && j < end;
        float prob = sees ? expf(scores.less(max_score, j)) / sum : 0;

        p[j] = narrow<T>(sees ? prob * dropout_factor(r, i, j) : 0);
    }
    if (threadIdx.x == 0)
        a.lse[i] = max_score + logf(sum);
}

template <class T>
__global__ void __launch_bounds__(threads)
    softmax_bwd_kernel(struct query_block r, struct mdsk_unfused_softmax_bwd a)
{
    const int64_t i = blockIdx.x, n = r.x.n;
    const int64_t begin = mdsk_unfused_begin(&r.x, i), end = mdsk_unfused_end(&r.x, i);
    const row_scores scores(r.x, a.scores, i);
    const float *d_p = a.d_p + i * n, lse = a.lse[i];
    const T *o = (const T *)a.o + i * a.width, *d_o = (const T *)a.d_o + i * a.width;
    T *p = (T *)a.p + i * n, *ds = (T *)a.ds + i * n;
    float delta = 0;

    for (int64_t d = threadIdx.x; d < a.width; d += threads)
        delta += widen(o[d]) * widen(d_o[d]);
    delta = team_sum<threads>(delta);
    for (int64_t j = threadIdx.x; j < n; j += threads) {
        float prob = 0, d_score = 0;

        if (begin <= j && j < end) {
            float f = dropout_factor(r, i, j);

            prob = expf(scores.less(lse, j));
            d_score = prob * (f * d_p[j] - delta) * scores.scale;
            prob *= f;
        }
        p[j] = narrow<T>(prob);
        ds[j] = narrow<T>(d_score);
    }
    if (threadIdx.x == 0)
        a.delta[i] = delta;
}

} // namespace

extern "C" int mdsk_cuda_unfused_pack(void *stream, const struct mdsk_unfused_tokens *t,
                                      void *packed)
{
    return with_storage(t->dtype, false, [&](auto type, auto width) {
        using T = decltype(type);

        return each_row<width()>(stream, t->rows, t->width,
                                 pack_heads<T>{*t, (T *)packed});
    });
}

extern "C" int mdsk_cuda_unfused_unpack(void *stream,
                                        const struct mdsk_unfused_tokens *t,
                                        const float *packed)
{
    return with_storage(t->dtype, false, [&](auto type, auto width) {
        return each_row<width()>(stream, t->n, t->D,
                                 unpack_heads<decltype(type)>{*t, packed});
    });
}

extern "C" int mdsk_cuda_unfused_softmax_fwd(void *stream,
                                             const struct mdsk_unfused_block *x,
                                             const struct mdsk_unfused_softmax_fwd *a)
{
    return with_storage(x->shape.dtype, false, [&](auto type, auto) {
        return launch(softmax_kernel<decltype(type)>, mdsk_cuda_blocks(x->m), threads,
                      stream, query_block_of(x), *a);
    });
}

extern "C" int mdsk_cuda_unfused_softmax_bwd(void *stream,
                                             const struct mdsk_unfused_block *x,
                                             const struct mdsk_unfused_softmax_bwd *a)
{
    return with_storage(x->shape.dtype, false, [&](auto type, auto) {
        return launch(softmax_bwd_kernel<decltype(type)>, mdsk_cuda_blocks(x->m),
                      threads, stream, query_block_of(x), *a);
    });
}
