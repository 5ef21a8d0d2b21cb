/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention of one token over a cache.  The keys of a head are shared by some thread
 * blocks, whose sums the last of them adds up, in order.  A warp takes a key at a time,
 * and some of them are under way. */
#include "kernels/attention.h"

#include "kernels/cuda/launch.cuh"

namespace
{

using namespace mdsk;

constexpr int warps = 8, in_flight = 4; /* keys of a warp */

/* Sums over some keys: the largest score, and relative to it the sum of exponentials
 * and of values. */
template <int N> struct sums {
    float top, total, o[N];
};

/* Sums of a head are [splits, D + 2] f32; blocks count themselves in `counter`. */
struct split {
    int n;
    float *sums;
    unsigned *counter;
};

template <int N> __device__ void clear(sums<N> &s)
{
    s.top = -INFINITY;
    s.total = 0;
#pragma unroll
    for (int j = 0; j < N; j++)
        s.o[j] = 0;
}

/* s = s and those that lie at p: top, total, o[D]; this lane's elements from d on. */
template <int N>
__device__ void merge(sums<N> &s, const volatile float *p, int d, int D)
{
    float top = fmaxf(s.top, p[0]), base = top == -INFINITY ? 0 : top;
    float mine = expf(s.top - base), other = expf(p[0] - base);

    s.top = top;
    s.total = s.total * mine + p[1] * other;
#pragma unroll
    for (int j = 0; j < N; j++)
        if (d < D)
            s.o[j] = s.o[j] * mine + p[2 + d + j] * other;
}

template <int N> __device__ void put(const sums<N> &s, volatile float *p, int d, int D)
{
    if (d == 0) {
        p[0] = s.top;
        p[1] = s.total;
    }
#pragma unroll
    for (int j = 0; j < N; j++)
        if (d < D)
            p[2 + d + j] = s.o[j];
}

template <class T>
__device__ T *head(const struct mdsk_heads &x, int64_t b, int64_t s, int64_t h)
{
    return (T *)x.data + b * x.batch_stride + s * x.token_stride + h * x.head_stride;
}

/* Keys k, k + warps, ... below `end` of this warp, the token's own among them. */
template <class T, int N>
__device__ void add_keys(const struct mdsk_attention_cached &a, int64_t b, int64_t g,
                         int64_t place, int64_t k, int64_t end, float slope,
                         const float (&q)[N], int d, sums<N> &s)
{
    const int D = (int)a.shape.D;

    for (; k < end; k += in_flight * warps) {
        float key[in_flight][N], value[in_flight][N], score[in_flight], top = s.top;
        float base, old;

#pragma unroll
        for (int i = 0; i < in_flight; i++) {
            int64_t at = k + i * warps;

#pragma unroll
            for (int j = 0; j < N; j++)
                key[i][j] = value[i][j] = 0;
            if (at < end && d < D) {
                load(at == place ? head<const T>(a.new_k, b, 0, g) + d
                                 : head<const T>(a.k, b, at, g) + d,
                     key[i]);
                load(at == place ? head<const T>(a.new_v, b, 0, g) + d
                                 : head<const T>(a.v, b, at, g) + d,
                     value[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < in_flight; i++) {
            int64_t at = k + i * warps;
            float sum = 0;

#pragma unroll
            for (int j = 0; j < N; j++)
                sum += q[j] * key[i][j];
            sum = warp_sum(sum);
            score[i] = at < end ? sum * a.shape.scale + slope * (float)(at - place)
                                : -INFINITY;
            top = fmaxf(top, score[i]);
        }
        base = top == -INFINITY ? 0 : top;
        old = expf(s.top - base);
        s.top = top;
        s.total *= old;
#pragma unroll
        for (int j = 0; j < N; j++)
            s.o[j] *= old;
#pragma unroll
        for (int i = 0; i < in_flight; i++) {
            float p = expf(score[i] - base);

            s.total += p;
#pragma unroll
            for (int j = 0; j < N; j++)
                s.o[j] += p * value[i][j];
        }
    }
}

/* The token's own key and value, by one warp of the first head that reads them. */
template <class T, int N>
__device__ void append(const struct mdsk_attention_cached &a, int64_t b, int64_t g,
                       int64_t place, int d)
{
    if (d >= a.shape.D)
        return;
    *reinterpret_cast<pack<T, N> *>(head<T>(a.k, b, place, g) + d) =
        fetch<N>(head<const T>(a.new_k, b, 0, g) + d);
    *reinterpret_cast<pack<T, N> *>(head<T>(a.v, b, place, g) + d) =
        fetch<N>(head<const T>(a.new_v, b, 0, g) + d);
}

/* Whether this is the last of the head's blocks to come here; the counter is 0 again
 * behind it. */
__device__ bool is_last(unsigned *counter, int blocks)
{
    __shared__ bool last;

    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicInc(counter, (unsigned)blocks - 1) == (unsigned)blocks - 1;
    __syncthreads();
    __threadfence();
    return last;
}

/* N: elements of a lane.  Block (split, head, sequence). */
template <class T, int N>
__global__ __launch_bounds__(32 *
                             warps) void cached_kernel(struct mdsk_attention_cached a,
                                                       struct split split)
{
    __shared__ float shared[warps][MDSK_CACHED_D + 2];
    const struct mdsk_attention_shape &s = a.shape;
    int64_t h = blockIdx.y, b = blockIdx.z, group = s.A / s.G, g = h / group;
    int64_t place, first, each, k, end, row = b * s.A + h;
    int warp = threadIdx.x / 32, d = threadIdx.x % 32 * N, D = (int)s.D;
    float q[N] = {};
    sums<N> mine;

    let_next_begin();
    wait_for_earlier();
    place = a.place ? *a.place : s.q_offset;
    first = s.window > 0 && place + 1 > s.window ? place + 1 - s.window : 0;
    each = (place + split.n - first) / split.n;
    k = first + blockIdx.x * each;
    end = k + each < place + 1 ? k + each : place + 1;
    clear(mine);
    if (d < D)
        load(head<const T>(a.q, b, 0, h) + d, q);
    add_keys<T, N>(a, b, g, place, k + warp, end, mdsk_attention_slope(&s, h), q, d,
                   mine);
    if (warp == 0 && h % group == 0 && k <= place && place < end)
        append<T, N>(a, b, g, place, d);
    put(mine, shared[warp], d, D);
    __syncthreads();
    if (warp == 0)
        for (int i = 1; i < warps; i++)
            merge(mine, shared[i], d, D);
    if (split.n > 1) {
        float *all = split.sums + row * split.n * (D + 2);

        if (warp == 0)
            put(mine, all + blockIdx.x * (D + 2), d, D);
        if (!is_last(split.counter + row, split.n) || warp > 0)
            return;
        clear(mine);
        for (int i = 0; i < split.n; i++)
            merge(mine, all + i * (D + 2), d, D);
    }
    if (warp > 0 || d >= D)
        return;
#pragma unroll
    for (int j = 0; j < N; j++)
        mine.o[j] /= mine.total;
    store(mine.o, head<T>(a.o, b, 0, h) + d);
}

/* Enough blocks for all multiprocessors, none of them with few keys when the cache is
 * full. */
int splits_of(const struct mdsk_attention_cached *a)
{
    const int64_t least = 64, most = 64;
    int64_t heads = a->shape.B * a->shape.A;
    int64_t n = ceil_div(2 * mdsk_cuda_processors(), heads);
    int64_t keys = a->shape.window > 0 && a->shape.window < a->tokens ? a->shape.window
                                                                      : a->tokens;

    n = n < most ? n : most;
    n = n < ceil_div(keys, least) ? n : ceil_div(keys, least);
    return (int)n;
}

/* Counters, which every call leaves at 0, and the blocks' sums. */
int alloc_split(cudaStream_t stream, const struct mdsk_attention_cached *a,
                struct split *out)
{
    static const void *cleared;
    static int64_t cleared_rows;
    int64_t rows = a->shape.B * a->shape.A, n = splits_of(a);
    int64_t counters = ceil_div(rows, 64) * 64;
    int64_t sums = rows * n * (a->shape.D + 2);
    void *p = mdsk_cuda_scratch(stream, MDSK_CUDA_CACHED,
                                (counters + sums) * (int64_t)sizeof(float));
    cudaError_t err = cudaSuccess;

    if (!p)
        return -ENOMEM;
    if (p != cleared || counters != cleared_rows)
        err = cudaMemsetAsync(p, 0, (size_t)counters * sizeof(unsigned), stream);
    cleared = p;
    cleared_rows = counters;
    out->n = (int)n;
    out->counter = (unsigned *)p;
    out->sums = (float *)p + counters;
    return mdsk_cuda_rc(err);
}

template <class T, int N>
int launch_cached(cudaStream_t stream, const struct mdsk_attention_cached *a,
                  const struct split &split)
{
    return launch_early(
        cached_kernel<T, N>,
        dim3((unsigned)split.n, (unsigned)a->shape.A, (unsigned)a->shape.B), 32 * warps,
        stream, *a, split);
}

} // namespace

extern "C" int mdsk_attention_cached_cuda(void *stream,
                                          const struct mdsk_attention_cached *a)
{
    struct split split;
    int err = alloc_split((cudaStream_t)stream, a, &split);

    if (err)
        return err;
    return with_storage(a->shape.dtype, false, [&](auto type, auto) {
        typedef decltype(type) T;
        cudaStream_t s = (cudaStream_t)stream;

        if (a->shape.D <= 32)
            return launch_cached<T, 1>(s, a, split);
        if (a->shape.D <= 64)
            return launch_cached<T, 2>(s, a, split);
        if (a->shape.D <= 128)
            return launch_cached<T, 4>(s, a, split);
        return launch_cached<T, 8>(s, a, split);
    });
}
