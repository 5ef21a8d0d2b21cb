/* SPDX-License-Identifier: BSD-3-Clause */
/* Tiles in shared memory, in f32, for this project's own attention kernels.
 *
 * A block has 16 x 16 threads.  Of a tile of scores [SIDE, SIDE], thread (x, y) has the
 * elements (y + 16 i, x + 16 j); of a tile of sums [SIDE, WIDE], rows y + 16 i and
 * columns 4 x + 64 j .. + 3.  Rows are padded by 4 floats, so that eight threads
 * that read 16 bytes of neighbouring rows have no bank conflicts. */
#ifndef MDSK_CUDA_ATTENTION_TILE_CUH
#define MDSK_CUDA_ATTENTION_TILE_CUH

#include "kernels/cuda/launch.cuh"
#include "kernels/philox.h"

namespace mdsk
{

/* WIDE: the largest D.  Four tiles [SIDE, WIDE] fit the shared memory of any GPU. */
template <int WIDE> struct tiling {
    static constexpr int side = WIDE <= 64 ? 64 : WIDE <= 128 ? 32 : 16;
    static constexpr int per_thread = side / 16; /* rows of a tile that a thread has */
    static constexpr int column_groups = WIDE / 64; /* of 4 columns, per thread */
    static constexpr int row = WIDE + 4;            /* floats of a row of heads, */
    static constexpr int score_row = side + 4;      /* and of a row of scores */
    static constexpr int heads = side * row;
    static constexpr int scores = side * score_row;
};

/* A shape, with what the kernels would otherwise compute again in each thread. */
struct attention_view {
    struct mdsk_attention_shape s;
    int64_t lse_stride;
    uint32_t threshold; /* of dropout */
    float keep_scale;   /* 1 / (1 - p), by which the elements kept are multiplied */
};

inline struct attention_view attention_view_of(const struct mdsk_attention_shape *s,
                                               int64_t lse_stride)
{
    float p = s->dropout.p;

    return {*s, lse_stride ? lse_stride : s->Sq, mdsk_dropout_threshold(p),
            1 / (1 - p)};
}

/* Head h of sequence b. */
template <class T>
__device__ inline T *head_at(const struct mdsk_heads &x, int64_t b, int64_t h)
{
    return (T *)x.data + b * x.batch_stride + h * x.head_stride;
}

/* to [SIDE, row] = tokens first .. of a head, zero beyond its last token and beyond D.
 */
template <int WIDE, class T>
__device__ inline void load_heads(float *to, const T *head, int64_t stride,
                                  int64_t first, int64_t tokens, int D)
{
    using t = tiling<WIDE>;
    int thread = threadIdx.y * 16 + threadIdx.x;

    for (int i = thread; i < t::side * WIDE; i += 256) {
        int r = i / WIDE, d = i % WIDE;
        bool inside = first + r < tokens && d < D;

        to[r * t::row + d] = inside ? widen(head[(first + r) * stride + d]) : 0.0f;
    }
}

/* score[i][j] = x[y + 16 i] . z[x + 16 j] */
template <int WIDE>
__device__ inline void
dot_rows(const float *x, const float *z, int D,
         float (&score)[tiling<WIDE>::per_thread][tiling<WIDE>::per_thread])
{
    using t = tiling<WIDE>;

#pragma unroll
    for (int i = 0; i < t::per_thread; i++)
#pragma unroll
        for (int j = 0; j < t::per_thread; j++)
            score[i][j] = 0;
#pragma unroll 4
    for (int d = 0; d < D; d += 4) {
        float4 a[t::per_thread], b[t::per_thread];

#pragma unroll
        for (int i = 0; i < t::per_thread; i++) {
            a[i] = *(const float4 *)(x + (threadIdx.y + 16 * i) * t::row + d);
            b[i] = *(const float4 *)(z + (threadIdx.x + 16 * i) * t::row + d);
        }
#pragma unroll
        for (int i = 0; i < t::per_thread; i++)
#pragma unroll
            for (int j = 0; j < t::per_thread; j++)
                score[i][j] += a[i].x * b[j].x + a[i].y * b[j].y + a[i].z * b[j].z +
                               a[i].w * b[j].w;
    }
}

template <int WIDE>
using sums = float[tiling<WIDE>::per_thread][tiling<WIDE>::column_groups][4];

template <int WIDE> __device__ inline void zero_sums(sums<WIDE> &sum)
{
#pragma unroll
    for (int i = 0; i < tiling<WIDE>::per_thread; i++)
#pragma unroll
        for (int j = 0; j < tiling<WIDE>::column_groups; j++)
#pragma unroll
            for (int c = 0; c < 4; c++)
                sum[i][j][c] = 0;
}

/* sum += p x, for p [SIDE, SIDE] of scores and x [SIDE, WIDE] of heads. */
template <int WIDE>
__device__ inline void add_matmul(const float *p, const float *x, sums<WIDE> &sum)
{
    using t = tiling<WIDE>;

#pragma unroll 4
    for (int k = 0; k < t::side; k++) {
        float a[t::per_thread];

#pragma unroll
        for (int i = 0; i < t::per_thread; i++)
            a[i] = p[(threadIdx.y + 16 * i) * t::score_row + k];
#pragma unroll
        for (int j = 0; j < t::column_groups; j++) {
            float4 b = *(const float4 *)(x + k * t::row + 4 * threadIdx.x + 64 * j);

#pragma unroll
            for (int i = 0; i < t::per_thread; i++) {
                sum[i][j][0] += a[i] * b.x;
                sum[i][j][1] += a[i] * b.y;
                sum[i][j][2] += a[i] * b.z;
                sum[i][j][3] += a[i] * b.w;
            }
        }
    }
}

/* Tokens first .. of a head = factor[i] sum[i], up to its last token. */
template <int WIDE, class T>
__device__ inline void
store_heads(const sums<WIDE> &sum, const float (&factor)[tiling<WIDE>::per_thread],
            T *head, int64_t stride, int64_t first, int64_t tokens, int D)
{
    using t = tiling<WIDE>;

#pragma unroll
    for (int i = 0; i < t::per_thread; i++) {
        int64_t r = first + threadIdx.y + 16 * i;

#pragma unroll
        for (int j = 0; j < t::column_groups; j++)
#pragma unroll
            for (int c = 0; c < 4; c++) {
                int d = 4 * threadIdx.x + 64 * j + c;

                if (r < tokens && d < D)
                    head[r * stride + d] = narrow<T>(sum[i][j][c] * factor[i]);
            }
    }
}

/* The first key of the first tile that a query sees any key of. */
template <int WIDE>
__device__ inline int64_t first_tile_start(const struct mdsk_attention_shape &s,
                                           int64_t b, int64_t query)
{
    return mdsk_attention_first_key(&s, b, query) / tiling<WIDE>::side *
           tiling<WIDE>::side;
}

/* The keys that a query of sequence b sees; none if there is no such query. */
struct seen_keys {
    int64_t first, end;

    __device__ seen_keys(const struct mdsk_attention_shape &s, int64_t b, int64_t query)
        : first(0), end(0)
    {
        if (query < s.Sq) {
            first = mdsk_attention_first_key(&s, b, query);
            end = mdsk_attention_end_key(&s, query);
        }
    }

    __device__ bool has(int64_t key) const
    {
        return first <= key && key < end;
    }
};

/* factor[SIDE, score_row]: the dropout factors for the probabilities of queries q ..
 * and keys k .. of head h.  A thread handles four keys at a time, because the generator
 * returns four numbers. */
template <int WIDE>
__device__ inline void dropout_factors(const struct attention_view &v, int64_t b,
                                       int64_t h, int64_t q, int64_t k, float *factor)
{
    using t = tiling<WIDE>;
    constexpr int groups = t::side / 4 + 1;
    int64_t first = v.s.first_key + k, block = first / 4;
    int skip = (int)(first % 4), thread = threadIdx.y * 16 + threadIdx.x;

    for (int i = thread; i < t::side * groups; i += 256) {
        int r = i / groups, g = i % groups;
        int64_t token = mdsk_attention_token(&v.s, h, q + r);
        uint32_t word[4];

        mdsk_dropout_block(v.s.dropout.seed, v.s.dropout.site, v.s.dropout.step,
                           v.s.first_sample + b, token, block + g, word);
        for (int w = 0; w < 4; w++) {
            int col = 4 * g + w - skip;

            if (col >= 0 && col < t::side)
                factor[r * t::score_row + col] =
                    word[w] >= v.threshold ? v.keep_scale : 0;
        }
    }
}

/* Call f(T(), WIDE) for the storage type and the smallest WIDE that is at least D. */
template <class F> int dispatch_tiling(enum mdsk_dtype dtype, int64_t D, F f)
{
    auto dispatch_width = [&](auto type) {
        if (D <= 64)
            return f(type, std::integral_constant<int, 64>());
        if (D <= 128)
            return f(type, std::integral_constant<int, 128>());
        if (D <= 256)
            return f(type, std::integral_constant<int, 256>());
        mdsk_cuda_fail("attention",
                       "heads of more than 256 elements need --no-use-flash-attn");
        return -ENOTSUP;
    };

    if (dtype == MDSK_F32)
        return dispatch_width(float());
    return dtype == MDSK_BF16 ? dispatch_width(bf16()) : dispatch_width(f16());
}

} // namespace mdsk

#endif
