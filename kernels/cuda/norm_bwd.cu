/* SPDX-License-Identifier: BSD-3-Clause */
/* dx = rstd (g - mean(g) - xhat mean(g xhat)) with xhat = (x - mean) rstd and g = dy
 * gamma, without mean(g) in RMSNorm.  The sums over rows are made in parts: part p has
 * rows p, p + parts, ..., and parts are added in order. */
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/partial_sums.cuh"

#include <cuda_pipeline_primitives.h>

namespace
{

using namespace mdsk;

/* Bytes of working memory that parts may take. */
constexpr int64_t scratch_bytes = 32 << 20;

struct two {
    float g, gx;

    __device__ two &operator+=(two other)
    {
        g += other.g;
        gx += other.gx;
        return *this;
    }
};

__device__ two warp_sum(two v)
{
    return {mdsk::warp_sum(v.g), mdsk::warp_sum(v.gx)};
}

/* Over the block; two rooms in turn, so that one barrier does. */
template <int P> __device__ two block_sum(two v, int turn)
{
    __shared__ two part[2][P / 32];
    unsigned lane = threadIdx.x % 32;

    v = warp_sum(v);
    if (lane == 0)
        part[turn][threadIdx.x / 32] = v;
    __syncthreads();
    return warp_sum(lane < P / 32 ? part[turn][lane] : two{0, 0});
}

/* Statistics of a row. */
struct stats {
    float mean, rstd;
};

__device__ stats stats_of(const struct mdsk_norm_bwd &a, int64_t row)
{
    return {a.kind == MDSK_LAYERNORM ? a.mean[row] : 0, a.rstd[row]};
}

/* The means over a row that its sums make. */
__device__ two means_of(const struct mdsk_norm_bwd &a, two sum)
{
    return {a.kind == MDSK_LAYERNORM ? sum.g / (float)a.H : 0, sum.gx / (float)a.H};
}

template <class T, int N>
__device__ void add_sums(const pack<T, N> &x, const pack<T, N> &dy,
                         const pack<T, N> &gamma, stats s, two &sum)
{
#pragma unroll
    for (int j = 0; j < N; j++) {
        float g = dy[j] * gamma[j];

        sum += two{g, g * ((x[j] - s.mean) * s.rstd)};
    }
}

template <class T, int N>
__device__ void put_dx(const pack<T, N> &x, const pack<T, N> &dy,
                       const pack<T, N> &gamma, const pack<T, N> &dx, stats s, two mean,
                       T *out)
{
    float v[N];

#pragma unroll
    for (int j = 0; j < N; j++) {
        float xhat = (x[j] - s.mean) * s.rstd;

        v[j] = dx[j] + s.rstd * (dy[j] * gamma[j] - mean.g - xhat * mean.gx);
    }
    store(v, out);
}

template <class T, int N>
__device__ void add_weights(const pack<T, N> &x, const pack<T, N> &dy, stats s,
                            float (&dgamma)[N], float (&dbeta)[N])
{
#pragma unroll
    for (int j = 0; j < N; j++) {
        dgamma[j] += dy[j] * ((x[j] - s.mean) * s.rstd);
        dbeta[j] += dy[j];
    }
}

/* ---- a row by as few threads as can keep the sums of its columns: what a warp does
 * besides them takes longer than memory does otherwise ---- */

/* Threads of a block, of which there is one a processor. */
constexpr int crew = 512;

/* Over the P threads that share threadIdx.y; two rooms in turn, so that one barrier
 * does. */
template <int P> __device__ two team_sums(two v, int turn)
{
    v = warp_sum(v);
    if constexpr (P > 32) {
        constexpr unsigned warps = P / 32;
        __shared__ two part[2][crew / P][warps];

        if (threadIdx.x % 32 == 0)
            part[turn][threadIdx.y][threadIdx.x / 32] = v;
        asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.y + 1), "n"(P) : "memory");
        v = part[turn][threadIdx.y][threadIdx.x % warps];
#pragma unroll
        for (int other = warps / 2; other > 0; other /= 2)
            v += two{__shfl_xor_sync(~0u, v.g, other),
                     __shfl_xor_sync(~0u, v.gx, other)};
    }
    return v;
}

/* Pieces on their way in shared memory, `depth` rows of each team, each thread's by
 * themselves, so that no thread waits for another's. */
template <class T, int N, int K, int P> struct pieces {
    typedef pack<T, N> piece;
    piece *mine; /* [depth, 3, K, crew] from this thread's on */
    bool have[K];

    static constexpr size_t bytes = (size_t)3 * K * crew * sizeof(piece); /* a depth */

    /* of x, dy, dx: the k-th piece of the row in place d */
    __device__ piece *at(int d, int which, int k) const
    {
        return mine + ((d * 3 + which) * K + k) * crew;
    }

    /* The row whose first piece of this thread is element `first` sets out for place d;
     * if there is one. */
    __device__ void send(const struct mdsk_norm_bwd &a, bool is_row, int64_t first,
                         int d) const
    {
        const T *x = (const T *)a.x + first, *dy = (const T *)a.dy + first;
        const T *dx = (const T *)a.dx + first;

#pragma unroll
        for (int k = 0; k < K; k++)
            if (is_row && have[k]) {
                __pipeline_memcpy_async(at(d, 0, k), x + k * P * N, sizeof(piece));
                __pipeline_memcpy_async(at(d, 1, k), dy + k * P * N, sizeof(piece));
                __pipeline_memcpy_async(at(d, 2, k), dx + k * P * N, sizeof(piece));
            }
        __pipeline_commit();
    }

    /* Until the oldest of `depth` rows is here. */
    static __device__ void wait(int depth)
    {
        if (depth == 1)
            __pipeline_wait_prior(0);
        else if (depth == 2)
            __pipeline_wait_prior(1);
        else if (depth == 3)
            __pipeline_wait_prior(2);
        else
            __pipeline_wait_prior(3);
    }
};

/* The teams' sums, in the order of teams. */
template <int N, int K, int P>
__device__ void put_part(int64_t H, const float (&sum)[K][N], float *scratch,
                         float *part)
{
    constexpr int row = K * P * N;

    __syncthreads(); /* the last sums have been read */
#pragma unroll
    for (int k = 0; k < K; k++)
        store(sum[k], scratch + threadIdx.y * row + column<N, P>(k));
    __syncthreads();
    for (int64_t c = threadIdx.y * P + threadIdx.x; c < H; c += crew) {
        float all = 0;

#pragma unroll
        for (int t = 0; t < crew / P; t++)
            all += scratch[t * row + c];
        part[c] = all;
    }
}

/* Block b makes part b, of rows of at most K * P * N columns.  parts [gridDim.x, 2, H],
 * depth 1 .. 4.  A team that has no row left goes along: racecheck takes teams that
 * meet at their barriers unequally often for a race at those of the block. */
template <class T, int N, int K, int P>
__global__ __launch_bounds__(crew, 1) void norm_bwd_teams(struct mdsk_norm_bwd a,
                                                          int depth, float *parts)
{
    extern __shared__ __align__(16) char shared[];
    const int64_t step = (int64_t)gridDim.x * (crew / P);
    int64_t r = (int64_t)blockIdx.x * (crew / P) + threadIdx.y;
    int64_t at = r * a.H + column<N, P>(0);
    const float inverse = 1 / (float)a.H;
    pieces<T, N, K, P> q = {(pack<T, N> *)shared + threadIdx.y * P + threadIdx.x};
    float dgamma[K][N] = {}, dbeta[K][N] = {}, *part = parts + 2 * a.H * blockIdx.x;
    pack<T, N> gamma[K] = {};
    stats s = {0, 0};
    int turn = 0, place = 0;

#pragma unroll
    for (int k = 0; k < K; k++) {
        q.have[k] = column<N, P>(k) < a.H;
        if (q.have[k])
            gamma[k] = fetch<N>((const T *)a.gamma + column<N, P>(k));
    }
    for (int d = 0; d < depth; d++)
        q.send(a, r + d * step < a.R, at + d * step * a.H, d);
    if (r < a.R)
        s = stats_of(a, r);
    for (int64_t first = r - threadIdx.y; first < a.R;
         first += step, r += step, at += step * a.H, turn ^= 1) {
        const bool is_row = r < a.R;
        stats next = r + step < a.R ? stats_of(a, r + step) : s;
        float shift = -s.mean * s.rstd, across, along;
        two sum = {0, 0};

        q.wait(depth);
#pragma unroll
        for (int k = 0; k < K; k++) {
            float x[N], dy[N], g[N];

            if (!q.have[k] || !is_row)
                continue;
            unpack(*q.at(place, 0, k), x);
            unpack(*q.at(place, 1, k), dy);
            unpack(gamma[k], g);
#pragma unroll
            for (int j = 0; j < N; j++) {
                g[j] *= dy[j];
                sum += two{g[j], g[j] * (x[j] * s.rstd + shift)};
            }
        }
        sum = team_sums<P>(sum, turn);
        across = a.kind == MDSK_LAYERNORM ? -s.rstd * inverse * sum.g : 0;
        along = -s.rstd * inverse * sum.gx;
        asm volatile("" ::: "memory"); /* to read again takes less than to keep */
#pragma unroll
        for (int k = 0; k < K; k++) {
            float x[N], dy[N], g[N], dx[N];

            if (!q.have[k] || !is_row)
                continue;
            unpack(*q.at(place, 0, k), x);
            unpack(*q.at(place, 1, k), dy);
            unpack(*q.at(place, 2, k), dx);
            unpack(gamma[k], g);
#pragma unroll
            for (int j = 0; j < N; j++) {
                float xhat = x[j] * s.rstd + shift;

                dgamma[k][j] += dy[j] * xhat;
                dbeta[k][j] += dy[j];
                dx[j] += xhat * along + (dy[j] * g[j] * s.rstd + across);
            }
            store(dx, (T *)a.dx + at + k * P * N);
        }
        q.send(a, r + depth * step < a.R, at + depth * step * a.H, place);
        place = place + 1 < depth ? place + 1 : 0;
        s = next;
    }
    put_part<N, K, P>(a.H, dgamma, (float *)shared, part);
    put_part<N, K, P>(a.H, dbeta, (float *)shared, part + a.H);
}

/* Longer rows: dx by a block a row, which reads it twice, ... */
template <class T, int N, int P>
__global__ __launch_bounds__(P) void norm_bwd_dx(struct mdsk_norm_bwd a)
{
    int64_t r = blockIdx.x, first = column<N, P>(0), step = P * N;
    const T *x = (const T *)a.x + r * a.H, *dy = (const T *)a.dy + r * a.H;
    const T *gamma = (const T *)a.gamma;
    T *dx = (T *)a.dx + r * a.H;
    stats s = stats_of(a, r);
    two sum = {0, 0}, mean;

    for (int64_t c = first; c < a.H; c += step)
        add_sums(fetch<N>(x + c), fetch<N>(dy + c), fetch<N>(gamma + c), s, sum);
    mean = means_of(a, block_sum<P>(sum, 0));
    for (int64_t c = first; c < a.H; c += step)
        put_dx(fetch<N>(x + c), fetch<N>(dy + c), fetch<N>(gamma + c),
               fetch<N>((const T *)dx + c), s, mean, dx + c);
}

/* ... and the sums over rows by a thread for N columns of part blockIdx.y. */
template <class T, int N>
__global__ void norm_bwd_weights(struct mdsk_norm_bwd a, float *parts)
{
    int64_t c = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * N;
    float dgamma[N] = {}, dbeta[N] = {}, *part = parts + 2 * a.H * blockIdx.y;

    if (c >= a.H)
        return;
#pragma unroll 4
    for (int64_t r = blockIdx.y; r < a.R; r += gridDim.y)
        add_weights(fetch<N>((const T *)a.x + r * a.H + c),
                    fetch<N>((const T *)a.dy + r * a.H + c), stats_of(a, r), dgamma,
                    dbeta);
    store(dgamma, part + c);
    store(dbeta, part + a.H + c);
}

/* Some blocks for each processor, but parts that are worth their sums, and fit. */
int64_t parts_of(const struct mdsk_norm_bwd *a, int64_t wanted)
{
    int64_t worth = ceil_div(a->R, 8),
            fit = scratch_bytes / (2 * a->H * (int64_t)sizeof(float));
    int64_t n = wanted < worth ? wanted : worth;

    n = n < fit ? n : fit;
    return n > 1 ? n : 1;
}

float *parts_room(void *stream, const struct mdsk_norm_bwd *a, int64_t n)
{
    return (float *)mdsk_cuda_scratch((cudaStream_t)stream, MDSK_CUDA_REDUCE,
                                      n * 2 * a->H * (int64_t)sizeof(float));
}

int finish(void *stream, const struct mdsk_norm_bwd *a, int64_t n, const float *parts)
{
    return add_parts(stream, n, 2 * a->H, parts, a->dgamma, a->H, a->dbeta);
}

template <class T, int N> int launch_long(void *stream, const struct mdsk_norm_bwd *a)
{
    constexpr int P = 512, across = 128;
    int64_t n = parts_of(a, 64);
    float *parts = parts_room(stream, a, n);
    int err = parts ? 0 : -ENOMEM;

    if (!err)
        err = launch(norm_bwd_dx<T, N, P>, mdsk_cuda_blocks(a->R), P, stream, *a);
    if (!err)
        err = launch(norm_bwd_weights<T, N>,
                     dim3(mdsk_cuda_blocks(ceil_div(a->H, across * N)), (unsigned)n),
                     across, stream, *a, parts);
    return err ? err : finish(stream, a, n, parts);
}

/* As many rows on their way as fit. */
template <class T, int N, int K, int P>
int launch_teams(void *stream, const struct mdsk_norm_bwd *a)
{
    constexpr size_t each = pieces<T, N, K, P>::bytes, sums = crew * K * N * 4;
    size_t fit =
        (size_t)mdsk_cuda_shared_bytes() - 2 * crew; /* beside what is static */
    int depth = (int)(fit / each < 4 ? fit / each : 4);
    size_t shared = depth * each > sums ? depth * each : sums;
    int64_t worth = ceil_div(a->R, 2 * crew / P), most = mdsk_cuda_processors();
    int64_t n = parts_of(a, worth < most ? worth : most);
    float *parts = parts_room(stream, a, n);
    int err = parts ? 0 : -ENOMEM;

    if (depth < 1)
        return launch_long<T, N>(stream, a);
    if (!err)
        err = launch_with(shared, norm_bwd_teams<T, N, K, P>, (unsigned)n,
                          dim3(P, crew / P), stream, *a, depth, parts);
    return err ? err : finish(stream, a, n, parts);
}

} // namespace

extern "C" int mdsk_norm_bwd_cuda(void *stream, const struct mdsk_norm_bwd *a)
{
    bool wide = wide_norm(a->dtype, a->H, {a->x, a->gamma, a->dy, a->dx});

    if (a->R < 1)
        return 0;
    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        typedef decltype(type) T;
        constexpr int N = width();
        int64_t pieces = a->H / N;

        if constexpr (N == 1) /* rows that are not aligned */
            return launch_long<T, N>(stream, a);
        else if (pieces <= 1 * 32)
            return launch_teams<T, N, 1, 32>(stream, a);
        else if (pieces <= 3 * 32)
            return launch_teams<T, N, 3, 32>(stream, a);
        else if (pieces <= 4 * 32)
            return launch_teams<T, N, 4, 32>(stream, a);
        else if (pieces <= 2 * 128)
            return launch_teams<T, N, 2, 128>(stream, a);
        else if (pieces <= 2 * 256)
            return launch_teams<T, N, 2, 256>(stream, a);
        else if (pieces <= 3 * 256)
            return launch_teams<T, N, 3, 256>(stream, a);
        else if (pieces <= 4 * 256)
            return launch_teams<T, N, 4, 256>(stream, a);
        else if (pieces <= 4 * 512)
            return launch_teams<T, N, 4, 512>(stream, a);
        else
            return launch_long<T, N>(stream, a);
    });
}
