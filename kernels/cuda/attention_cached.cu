/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention of one token over a cache.  The keys of a head are shared by some thread
 * blocks, whose sums the last of them adds up, in order.  A warp takes a key at a time,
 * and some of them are under way. */
#include "kernels/attention.h"

#include "kernels/cuda/launch.cuh"

namespace
{

using namespace mdsk;

constexpr int warps = 8;

/* Keys of a warp that are under way; N: elements of a lane. */
template <int N> constexpr int in_flight = N > 4 ? 4 : 8;

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

/* n such sums, `stride` apart from p on, added up: this thread's element d of o. */
__device__ void combine(const float *p, int n, int stride, int d, sums<1> &s)
{
    float base;

    clear(s);
    for (int i = 0; i < n; i++)
        s.top = fmaxf(s.top, p[i * stride]);
    base = s.top == -INFINITY ? 0 : s.top;
#pragma unroll 4
    for (int i = 0; i < n; i++) {
        float w = expf(p[i * stride] - base);

        s.total += w * p[i * stride + 1];
        s.o[0] += w * p[i * stride + 2 + d];
    }
}

template <int N> __device__ void put(const sums<N> &s, float *p, int d, int D)
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

/* The rotation of queries and keys, by angle: half as many as elements that turn. */
struct turn {
    int half;
    float scale;
    double frequency[MDSK_CACHED_D / 2];
};

__device__ void find_angles(const struct turn &t, int64_t place, float2 *cos_sin)
{
    for (int i = threadIdx.x; i < t.half; i += 32 * warps) {
        double c, z;

        sincospi((double)place * t.frequency[i] * 0.31830988618379067154, &z, &c);
        cos_sin[i] = make_float2((float)c * t.scale, (float)z * t.scale);
    }
}

/* v = elements d .. d + N - 1 of a head, rotated as rope.cu does, and rounded. */
template <class T, int N>
__device__ void load_turned(const T *p, int d, int half, const float2 *cos_sin,
                            float (&v)[N])
{
    load(p + d, v);
#pragma unroll
    for (int j = 0; j < N; j++) {
        int i = d + j, pair = i < half ? i : i - half;

        if (i < 2 * half) {
            float other = widen(p[i < half ? i + half : pair]);
            float2 t = cos_sin[pair];

            v[j] = widen(narrow<T>(v[j] * t.x + (i < half ? -other : other) * t.y));
        }
    }
}

/* Keys and values of a warp: k, k + warps, ... */
template <class T, int N> struct pairs {
    pack<T, N> key[in_flight<N>], value[in_flight<N>];
};

/* From the cache: before the token's own, and where there are no more any one. */
template <class T, int N>
__device__ void load_pairs(const struct mdsk_attention_cached &a, int64_t b, int64_t g,
                           int64_t place, int64_t k, int d, pairs<T, N> &p)
{
#pragma unroll
    for (int i = 0; i < in_flight<N>; i++) {
        int64_t at = k + i * warps < place ? k + i * warps : place > 0 ? place - 1 : 0;

        p.key[i] = fetch<N>(head<const T>(a.k, b, at, g) + d);
        p.value[i] = fetch<N>(head<const T>(a.v, b, at, g) + d);
    }
}

/* The token's own, which the first head that reads them puts into the cache. */
template <class T, int N>
__device__ void load_own(const struct mdsk_attention_cached &a, int64_t b, int64_t g,
                         int64_t place, int d, int half, const float2 *cos_sin,
                         bool puts, pack<T, N> &key, pack<T, N> &value)
{
    float turned[N];

    load_turned<T, N>(head<const T>(a.new_k, b, 0, g), d, half, cos_sin, turned);
#pragma unroll
    for (int j = 0; j < N; j++)
        key.x[j] = narrow<T>(turned[j]);
    value = fetch<N>(head<const T>(a.new_v, b, 0, g) + d);
    if (!puts)
        return;
    *(pack<T, N> *)(head<T>(a.k, b, place, g) + d) = key;
    *(pack<T, N> *)(head<T>(a.v, b, place, g) + d) = value;
}

template <class T, int N>
__device__ void add_pairs(const pairs<T, N> &p, const float (&score)[in_flight<N>],
                          sums<N> &s)
{
    float top = s.top, base, old;

#pragma unroll
    for (int i = 0; i < in_flight<N>; i++)
        top = fmaxf(top, score[i]);
    base = top == -INFINITY ? 0 : top;
    old = expf(s.top - base);
    s.top = top;
    s.total *= old;
#pragma unroll
    for (int j = 0; j < N; j++)
        s.o[j] *= old;
#pragma unroll
    for (int i = 0; i < in_flight<N>; i++) {
        float w = expf(score[i] - base), v[N];

        unpack(p.value[i], v);
        s.total += w;
#pragma unroll
        for (int j = 0; j < N; j++)
            s.o[j] += w > 0 ? w * v[j] : 0;
    }
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

/* N: elements of a lane.  Block (split, head, sequence).  The place, and the keys and
 * values before it, are there before the kernel before this one is done. */
template <class T, int N>
__global__ __launch_bounds__(32 * warps) void cached_kernel(
    struct mdsk_attention_cached a, struct split split, struct turn turn)
{
    constexpr int stride = MDSK_CACHED_D + 2;
    __shared__ float shared[warps * stride];
    __shared__ float2 cos_sin[MDSK_CACHED_D / 2];
    const struct mdsk_attention_shape &s = a.shape;
    int64_t h = blockIdx.y, b = blockIdx.z, group = s.A / s.G, g = h / group;
    int64_t place, first, each, k, end, row = b * s.A + h;
    int warp = threadIdx.x / 32, d = threadIdx.x % 32 * N, D = (int)s.D;
    int thread = threadIdx.x;
    int column = d < D ? d : 0;
    float q[N] = {}, slope = mdsk_attention_slope(&s, h);
    pairs<T, N> p;
    sums<N> mine;
    sums<1> all;

    let_next_begin();
    place = a.place ? *a.place : s.q_offset;
    first = s.window > 0 && place + 1 > s.window ? place + 1 - s.window : 0;
    each = (place + split.n - first) / split.n;
    k = first + blockIdx.x * each;
    end = k + each < place + 1 ? k + each : place + 1;
    k += warp;
    load_pairs<T, N>(a, b, g, place, k, column, p);
    find_angles(turn, place, cos_sin);
    __syncthreads();
    wait_for_earlier();
    clear(mine);
    if (d < D)
        load_turned<T, N>(head<const T>(a.q, b, 0, h), d, turn.half, cos_sin, q);
    while (k < end) {
        float score[in_flight<N>];

#pragma unroll
        for (int i = 0; i < in_flight<N>; i++) {
            int64_t at = k + i * warps;
            float sum = 0, key[N];

            if (at == place && d < D)
                load_own<T, N>(a, b, g, place, d, turn.half, cos_sin, h % group == 0,
                               p.key[i], p.value[i]);
            unpack(p.key[i], key);
#pragma unroll
            for (int j = 0; j < N; j++)
                sum += q[j] * key[j];
            sum = warp_sum(sum);
            score[i] =
                at < end ? sum * s.scale + slope * (float)(at - place) : -INFINITY;
        }
        add_pairs(p, score, mine);
        k += in_flight<N> * warps;
        if (k < end)
            load_pairs<T, N>(a, b, g, place, k, column, p);
    }
    put(mine, shared + warp * stride, d, D);
    __syncthreads();
    combine(shared, warps, stride, thread < D ? thread : 0, all);
    if (split.n > 1) {
        float *sums = split.sums + row * split.n * (D + 2);

        put(all, sums + blockIdx.x * (D + 2), thread, D);
        if (!is_last(split.counter + row, split.n))
            return;
        combine(sums, split.n, D + 2, thread < D ? thread : 0, all);
    }
    if (thread < D)
        head<T>(a.o, b, 0, h)[thread] = narrow<T>(all.o[0] / all.total);
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
    struct turn turn = {(int)a->rot / 2, a->rope_scale, {}};

    if (a->rot > 0)
        memcpy(turn.frequency, a->frequency,
               (size_t)turn.half * sizeof *turn.frequency);
    return launch_early(
        cached_kernel<T, N>,
        dim3((unsigned)split.n, (unsigned)a->shape.A, (unsigned)a->shape.B), 32 * warps,
        stream, *a, split, turn);
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
