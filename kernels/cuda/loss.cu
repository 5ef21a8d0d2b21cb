/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/loss.h"

#include "kernels/cuda/launch.cuh"

#include <cuda_pipeline_primitives.h>

namespace
{

using namespace mdsk;

/* Of part of a row: the maximum, and the sum of exp(x - max). */
struct partial_softmax {
    float max, sum;
};

/* The maximum to subtract in exponents: 0 instead of -inf, the maximum of no elements,
 * because exp(-inf - -inf) is NaN. */
__device__ float finite_max(float max)
{
    return max == -INFINITY ? 0 : max;
}

/* Two parts become one, about the larger maximum.  NaN in a sum stays NaN. */
template <class T>
__device__ partial_softmax merge(partial_softmax p, partial_softmax q)
{
    float top = fmaxf(p.max, q.max), at = finite_max(top);

    return {top, p.sum * exp_for<T>(p.max - at) + q.sum * exp_for<T>(q.max - at)};
}

template <class T, int N>
__device__ partial_softmax add_logits(partial_softmax p, const float (&v)[N])
{
    float top = p.max, sum = 0;

#pragma unroll
    for (int j = 0; j < N; j++)
        top = fmaxf(top, v[j]);
#pragma unroll
    for (int j = 0; j < N; j++)
        sum += exp_for<T>(v[j] - finite_max(top));
    if (top > p.max)
        p.sum *= exp_for<T>(p.max - finite_max(top));
    return {top, p.sum + sum};
}

template <class T> __device__ partial_softmax warp_merge(partial_softmax p)
{
#pragma unroll
    for (int other = 16; other > 0; other /= 2)
        p = merge<T>(p, {__shfl_xor_sync(~0u, p.max, other),
                         __shfl_xor_sync(~0u, p.sum, other)});
    return p;
}

/* Every thread gets the merged result of the P threads of its row; like team_sum. */
template <class T, int P> __device__ partial_softmax team_merge(partial_softmax p)
{
    __shared__ partial_softmax scratch[P / 32];
    unsigned lane = threadIdx.x % 32;

    p = warp_merge<T>(p);
    if constexpr (P == 32)
        return p;
    if (lane == 0)
        scratch[threadIdx.x / 32] = p;
    __syncthreads();
    return warp_merge<T>(lane < P / 32 ? scratch[lane] : partial_softmax{-INFINITY, 0});
}

/* a: mdsk_xent_stats or mdsk_xent_bwd */
template <class A> __device__ float row_scale(const A &a, int64_t r)
{
    return a.kinds.of ? a.scale * a.kinds.weight[a.kinds.of[r]] : a.scale;
}

/* How much of a row's softmax is in its gradient. */
template <class A> __device__ float soft_scale(const A &a, float scale, float lse)
{
    return a.z > 0 ? scale * (1 + 2 * a.z * lse) : scale;
}

/* Replace the logits v of columns c .. c+N-1 by their gradients.  Columns from `live`
 * on get 0; hit is the column of the target. */
template <class T, int N>
__device__ void logits_to_gradient(float (&v)[N], int64_t c, int64_t live, int64_t hit,
                                   float lse, float soft, float scale)
{
    int left = (int)(live - c < N ? live - c : N);
    int at = (int)(hit >= c && hit < c + N ? hit - c : -1);

#pragma unroll
    for (int j = 0; j < N; j++) {
        v[j] = soft * exp_for<T>(v[j] - lse) - (j == at ? scale : 0);
        v[j] = j < left ? v[j] : 0;
    }
}

template <class T, int N>
__device__ void store_gradient(T *x, int64_t c, int64_t live, int64_t hit, float lse,
                               float soft, float scale)
{
    float v[N] = {};

    if (c < live) {
        load(x + c, v);
        logits_to_gradient<T>(v, c, live, hit, lse, soft, scale);
    }
    store(v, x + c);
}

/* Statistics and gradient in one kernel: a block handles one row and keeps it in shared
 * memory.  Each thread reads only the elements that it loaded itself. */
template <class T, int N, int P>
__global__ __launch_bounds__(P) void stats_row_in_shared(struct mdsk_xent_stats a)
{
    extern __shared__ __align__(16) char shared[];
    int64_t r = a.R - 1 - (int64_t)blockIdx.x;
    T *x = (T *)a.logits + r * a.ld, *row = (T *)shared;
    int words = (int)a.words, valid = (int)a.valid, i;
    partial_softmax p = {-INFINITY, 0};
    float lse, scale, soft, target_logit = 0;
    int64_t hit = a.target[r] < 0 ? -1 : a.target[r] - a.first_word, live;

    for (i = threadIdx.x * N; i + N <= words; i += P * N)
        __pipeline_memcpy_async(row + i, x + i, sizeof(pack<T, N>));
    for (int end = min(i + N, words); i < end; i++)
        row[i] = x[i];
    __pipeline_commit();
    if (threadIdx.x == 0 && hit >= 0 && hit < valid)
        target_logit = widen(x[hit]);
    __pipeline_wait_prior(0);
#pragma unroll 2
    for (i = threadIdx.x * N; i + N <= valid; i += P * N) {
        float v[N];

        load(row + i, v);
        p = add_logits<T>(p, v);
    }
    for (int end = min(i + N, valid); i < end; i++) {
        float v[1] = {widen(row[i])};

        p = add_logits<T>(p, v);
    }
    p = team_merge<T, P>(p); /* all threads have read before any writes */
    if (threadIdx.x == 0) {
        a.max[r] = p.max;
        a.sum[r] = p.sum;
        a.target_logit[r] = target_logit;
    }
    lse = (float)((double)p.max + log((double)p.sum));
    live = a.target[r] < 0 ? 0 : valid;
    scale = row_scale(a, r);
    soft = soft_scale(a, scale, lse);
#pragma unroll 2
    for (i = threadIdx.x * N; i + N <= words; i += P * N) {
        float v[N];

        load(row + i, v);
        logits_to_gradient<T>(v, i, live, hit, lse, soft, scale);
        store(v, x + i);
    }
    for (int end = min(i + N, words); i < end; i++) {
        float v[1] = {widen(row[i])};

        logits_to_gradient<T>(v, i, live, hit, lse, soft, scale);
        store(v, x + i);
    }
}

/* P threads handle a row, which is read from global memory; for the gradient it is read
 * again, from the cache.  The last rows come first: the GEMM has just written them. */
template <class T, int N, int P>
__global__
__launch_bounds__(P == 32 ? 256 : P) void stats_row_in_global(struct mdsk_xent_stats a)
{
    int64_t r = a.R - 1 - ((int64_t)blockIdx.x * blockDim.y + threadIdx.y), i;
    T *x = (T *)a.logits + r * a.ld;
    partial_softmax p = {-INFINITY, 0};
    int64_t hit;
    float lse, scale, soft, target_logit = 0;

    if (r < 0)
        return;
#pragma unroll 4
    for (i = threadIdx.x * N; i + N <= a.valid; i += P * N) {
        float v[N];

        load(x + i, v);
        p = add_logits<T>(p, v);
    }
    for (int64_t end = i + N < a.valid ? i + N : a.valid; i < end; i++) {
        float v[1] = {widen(x[i])};

        p = add_logits<T>(p, v);
    }
    hit = a.target[r] < 0 ? -1 : a.target[r] - a.first_word;
    if (threadIdx.x == 0 && hit >= 0 && hit < a.valid)
        target_logit = widen(x[hit]);
    p = team_merge<T, P>(p); /* all threads have read before any writes */
    if (threadIdx.x == 0) {
        a.max[r] = p.max;
        a.sum[r] = p.sum;
        a.target_logit[r] = target_logit;
    }
    if (!a.gradient)
        return;
    lse = (float)((double)p.max + log((double)p.sum));
    scale = row_scale(a, r);
    soft = soft_scale(a, scale, lse);
    for (i = threadIdx.x * N; i + N <= a.words; i += P * N)
        store_gradient<T, N>(x, i, a.target[r] < 0 ? 0 : a.valid, hit, lse, soft,
                             scale);
    for (int64_t end = i + N < a.words ? i + N : a.words; i < end; i++)
        store_gradient<T, 1>(x, i, a.target[r] < 0 ? 0 : a.valid, hit, lse, soft,
                             scale);
}

constexpr int short_row_threads = 128;

/* v[left ..] = to */
template <int N> __device__ void fill_from(float (&v)[N], int left, float to)
{
    if (left < N) {
#pragma unroll
        for (int j = 0; j < N; j++)
            v[j] = j < left ? v[j] : to;
    }
}

template <class T, int N>
__device__ void unpack_logits(const pack<T, N> &p, int left, float (&v)[N])
{
    unpack(p, v);
    fill_from(v, left, -INFINITY);
}

/* Short rows (a small vocabulary): a block copies as many rows as it has threads to
 * shared memory, and each thread then handles one row.  Rows are an odd number of packs
 * apart there, so that neighbouring threads read different banks.  blockDim.x is the
 * number of packs of a row. */
template <class T, int N> __global__ void stats_row_per_thread(struct mdsk_xent_stats a)
{
    extern __shared__ __align__(16) char shared[];
    int apart = (int)(blockDim.x | 1), rows = (int)(blockDim.x * blockDim.y);
    int t = (int)(threadIdx.y * blockDim.x + threadIdx.x), valid = (int)a.valid;
    int64_t first = a.R - ((int64_t)blockIdx.x + 1) * rows, r = first + t;
    int64_t step = blockDim.y * a.ld;
    pack<T, N> *at = (pack<T, N> *)shared + threadIdx.y * apart + threadIdx.x;
    pack<T, N> *mine = (pack<T, N> *)shared + t * apart;
    T *x = (T *)a.logits + (first + threadIdx.y) * a.ld + threadIdx.x * N;
    int32_t target = r >= 0 ? a.target[r] : -1;
    int64_t hit = target < 0 ? -1 : target - a.first_word;

    for (int i = (int)threadIdx.y, k = 0; i < rows; i += (int)blockDim.y, k++)
        if (first + i >= 0)
            __pipeline_memcpy_async(at + k * (int)blockDim.y * apart, x + k * step,
                                    sizeof *at);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    if (r >= 0) {
        bool is_hit = hit >= 0 && hit < valid;
        float target_logit = is_hit ? widen(((const T *)mine)[hit]) : 0;
        float max = -INFINITY, sum = 0, v[N];

        for (int k = 0; k * N < valid; k++) {
            unpack_logits(mine[k], valid - k * N, v);
#pragma unroll
            for (int j = 0; j < N; j++)
                max = fmaxf(max, v[j]);
        }
        for (int k = 0; k * N < valid; k++) {
            unpack_logits(mine[k], valid - k * N, v);
#pragma unroll
            for (int j = 0; j < N; j++)
                sum += exp_for<T>(v[j] - finite_max(max));
        }
        a.max[r] = max;
        a.sum[r] = sum;
        a.target_logit[r] = target_logit;
        if (a.gradient) {
            float scale = row_scale(a, r), lse = max + logf(sum);
            float factor = soft_scale(a, scale, lse) / sum;
            int live = target < 0 ? 0 : valid;

            for (int k = 0; k < (int)blockDim.x; k++) {
                unpack(mine[k], v);
#pragma unroll
                for (int j = 0; j < N; j++)
                    v[j] = factor * exp_for<T>(v[j] - finite_max(max));
                fill_from(v, live - k * N, 0);
                store(v, (T *)(mine + k));
            }
            if (is_hit)
                ((T *)mine)[hit] = narrow<T>(
                    factor * exp_for<T>(target_logit - finite_max(max)) - scale);
        }
    }
    if (!a.gradient)
        return;
    __syncthreads();
    for (int i = (int)threadIdx.y, k = 0; i < rows; i += (int)blockDim.y, k++)
        if (first + i >= 0)
            *(pack<T, N> *)(x + k * step) = at[k * (int)blockDim.y * apart];
}

template <class T, int N>
int launch_row_per_thread(void *stream, const struct mdsk_xent_stats *a)
{
    unsigned across = (unsigned)(a->words / N), down = short_row_threads / across;
    unsigned rows = across * down;

    return launch_with(
        rows * (across | 1) * sizeof(pack<T, N>), stats_row_per_thread<T, N>,
        mdsk_cuda_blocks(ceil_div(a->R, rows)), dim3(across, down), stream, *a);
}

/* Longer rows: L lanes of a warp handle a row, each with K packs of it in registers. */
template <class T, int N, int L, int K>
__global__ __launch_bounds__(256) void stats_row_in_registers(struct mdsk_xent_stats a)
{
    int64_t r = a.R - 1 - ((int64_t)blockIdx.x * blockDim.y + threadIdx.y), hit;
    int words = (int)a.words, valid = (int)a.valid, live, c[K];
    T *x = (T *)a.logits + r * a.ld;
    float v[K][N], max = -INFINITY, sum = 0, target_logit = 0, scale, factor;
    pack<T, N> x_pack[K];
    bool is_hit, mine;

    if (r < 0)
        return;
#pragma unroll
    for (int k = 0; k < K; k++) {
        c[k] = (k * L + (int)threadIdx.x) * N;
        if (c[k] < words)
            x_pack[k] = fetch<N>(x + c[k]);
    }
    hit = a.target[r] < 0 ? -1 : a.target[r] - a.first_word;
    is_hit = hit >= 0 && hit < valid;
    mine = (int)threadIdx.x == (is_hit ? (int)hit / N % L : 0); /* has the target */
    if (mine && is_hit)
        target_logit = widen(x[hit]);
#pragma unroll
    for (int k = 0; k < K; k++) {
        unpack_logits(x_pack[k], valid - c[k], v[k]);
#pragma unroll
        for (int j = 0; j < N; j++)
            max = fmaxf(max, v[k][j]);
    }
#pragma unroll
    for (int other = L / 2; other > 0; other /= 2)
        max = fmaxf(max, __shfl_xor_sync(~0u, max, other));
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int j = 0; j < N; j++) {
            v[k][j] = exp_for<T>(v[k][j] - finite_max(max));
            sum += v[k][j];
        }
#pragma unroll
    for (int other = L / 2; other > 0; other /= 2)
        sum += __shfl_xor_sync(~0u, sum, other);
    if (mine) {
        a.max[r] = max;
        a.sum[r] = sum;
        a.target_logit[r] = target_logit;
    }
    if (!a.gradient)
        return;
    scale = row_scale(a, r);
    factor = soft_scale(a, scale, max + logf(sum)) / sum;
    live = a.target[r] < 0 ? 0 : valid;
#pragma unroll
    for (int k = 0; k < K; k++) {
#pragma unroll
        for (int j = 0; j < N; j++)
            v[k][j] *= factor;
        fill_from(v[k], live - c[k], 0);
        if (c[k] < words)
            store(v[k], x + c[k]);
    }
    if (mine && is_hit)
        x[hit] = narrow<T>(factor * exp_for<T>(target_logit - finite_max(max)) - scale);
}

template <class T, int N, int L, int K>
int launch_row_in_registers(void *stream, const struct mdsk_xent_stats *a)
{
    constexpr int rows = 256 / L;

    return launch(stats_row_in_registers<T, N, L, K>,
                  mdsk_cuda_blocks(ceil_div(a->R, rows)), dim3(L, rows), stream, *a);
}

/* For rows of whole packs that fit the registers of a warp.  Eight packs per lane pay
 * only with the gradient, which then need not read the row again. */
template <class T, int N>
int launch_short_rows(void *stream, const struct mdsk_xent_stats *a)
{
    int64_t packs = a->words / N;

    if (packs <= 16)
        return launch_row_per_thread<T, N>(stream, a);
    if (packs <= 8 * 4)
        return launch_row_in_registers<T, N, 8, 4>(stream, a);
    if (packs <= 16 * 4)
        return launch_row_in_registers<T, N, 16, 4>(stream, a);
    if (packs <= 32 * 4)
        return launch_row_in_registers<T, N, 32, 4>(stream, a);
    return launch_row_in_registers<T, N, 32, 8>(stream, a);
}

/* Short rows: see above.  Up to 2048 columns: a warp per row, eight rows per block.
 * Longer rows with a gradient: a row in shared memory if two of them fit on a
 * multiprocessor; otherwise blocks of Q threads, so that few rows are in use at a time
 * and the cache holds them. */
template <class T, int N>
int launch_stats(void *stream, const struct mdsk_xent_stats *a)
{
    constexpr int P = 512, Q = 1024;
    size_t row = (size_t)a->words * sizeof(T);

    if constexpr (N > 1)
        if (a->words % N == 0 && a->words <= 32 * (a->gradient ? 8 : 4) * N)
            return launch_short_rows<T, N>(stream, a);
    if (a->valid <= 2048)
        return launch(stats_row_in_global<T, N, 32>,
                      mdsk_cuda_blocks(ceil_div(a->R, 8)), dim3(32, 8), stream, *a);
    if constexpr (N > 1)
        if (a->gradient && row <= ((size_t)mdsk_cuda_shared_bytes() - 4096) / 2)
            return launch_with(row, stats_row_in_shared<T, N, P>,
                               mdsk_cuda_blocks(a->R), P, stream, *a);
    if (a->gradient)
        return launch(stats_row_in_global<T, N, Q>, mdsk_cuda_blocks(a->R), Q, stream,
                      *a);
    return launch(stats_row_in_global<T, N, P>, mdsk_cuda_blocks(a->R), P, stream, *a);
}

constexpr int loss_threads = 256;

/* log(sum(exp(x))) of row r from the statistics of its parts. */
__device__ double log_sum_exp(const struct mdsk_xent_loss &a, int64_t r)
{
    float top = a.max[r];
    double sum = 0;

    for (int64_t p = 1; p < a.parts; p++)
        top = fmaxf(top, a.max[p * a.part_stride + r]);
    for (int64_t p = 0; p < a.parts; p++) {
        int64_t at = p * a.part_stride + r;

        sum += (double)a.sum[at] * exp((double)a.max[at] - (double)top);
    }
    return (double)top + log(sum);
}

/* A thread per row; part[block][2 kinds]: of each kind the block's sum of losses and
 * its number of targets. */
__global__ void row_losses(struct mdsk_xent_loss a, int kinds, double *part)
{
    int64_t r = (int64_t)blockIdx.x * loss_threads + threadIdx.x;
    double value = 0;
    int kind = -1;

    if (r < a.R) {
        double lse = log_sum_exp(a, r);

        a.lse[r] = (float)lse;
        if (a.target[r] >= 0) {
            value = lse;
            kind = a.kinds.of ? a.kinds.of[r] : 0;
            for (int64_t p = 0; p < a.parts; p++)
                value -= (double)a.target_logit[p * a.part_stride + r];
        }
        if (a.loss)
            a.loss[r] = value;
    }
    part += 2 * kinds * (int64_t)blockIdx.x;
    for (int k = 0; k < kinds; k++) {
        double values = team_sum<loss_threads>(kind == k ? value : 0);
        double counts = team_sum<loss_threads>(kind == k ? 1.0 : 0.0);

        if (threadIdx.x == 0) {
            part[2 * k] = values;
            part[2 * k + 1] = counts;
        }
    }
}

/* A block per kind. */
__global__ void sum_losses(int64_t blocks, const double *part, double *loss_sum,
                           double *count)
{
    int64_t kind = blockIdx.x, apart = 2 * (int64_t)gridDim.x;
    double values = 0, counts = 0;

    for (int64_t i = threadIdx.x; i < blocks; i += loss_threads) {
        values += part[i * apart + 2 * kind];
        counts += part[i * apart + 2 * kind + 1];
    }
    values = team_sum<loss_threads>(values);
    counts = team_sum<loss_threads>(counts);
    if (threadIdx.x == 0) {
        loss_sum[kind] += values;
        count[kind] += counts;
    }
}

template <class T> struct gradient {
    struct mdsk_xent_bwd a;

    template <int N> __device__ void run(int64_t r, int64_t c) const
    {
        float scale = row_scale(a, r);

        store_gradient<T, N>((T *)a.logits + r * a.ld, c, a.target[r] < 0 ? 0 : a.valid,
                             (int64_t)a.target[r] - a.first_word, a.lse[r],
                             soft_scale(a, scale, a.lse[r]), scale);
    }
};

} // namespace

extern "C" int mdsk_xent_stats_cuda(void *stream, const struct mdsk_xent_stats *a)
{
    int64_t size = (int64_t)mdsk_dtype_size(a->dtype);
    bool wide = aligned({a->logits}) && a->ld * size % 16 == 0;

    if (a->R < 1)
        return 0;
    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        return launch_stats<decltype(type), width()>(stream, a);
    });
}

extern "C" int mdsk_xent_loss_cuda(void *stream, const struct mdsk_xent_loss *a)
{
    int64_t blocks = ceil_div(a->R, loss_threads);
    int kinds = a->kinds.n > 1 ? a->kinds.n : 1;
    double *part;
    int err;

    if (a->R < 1)
        return 0;
    part = (double *)mdsk_cuda_scratch((cudaStream_t)stream, MDSK_CUDA_REDUCE,
                                       2 * kinds * blocks * (int64_t)sizeof *part);
    if (!part)
        return -ENOMEM;
    err = launch(row_losses, mdsk_cuda_blocks(blocks), loss_threads, stream, *a, kinds,
                 part);
    return err ? err
               : launch(sum_losses, (unsigned)kinds, loss_threads, stream, blocks, part,
                        a->loss_sum, a->count);
}

extern "C" int mdsk_xent_bwd_cuda(void *stream, const struct mdsk_xent_bwd *a)
{
    int64_t size = (int64_t)mdsk_dtype_size(a->dtype);
    bool wide = aligned({a->logits}) && a->ld * size % 16 == 0;

    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        return each_row<width()>(stream, a->R, a->words, gradient<decltype(type)>{*a});
    });
}
