/* SPDX-License-Identifier: BSD-3-Clause */
/* dx = d + rstd (g - mean(g) - xhat mean(g xhat)) with xhat = (x - mean) rstd and g =
 * dy gamma, without mean(g) in RMSNorm.  The sums over rows, dgamma and dbeta, are made
 * in parts: part p sums rows p, p + parts, ...; then the parts are added in order. */
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/partial_sums.cuh"

#include <cuda_pipeline_primitives.h>

namespace
{

using namespace mdsk;

/* The most working memory for parts, in bytes. */
constexpr int64_t scratch_bytes = 32 << 20;

/* Sums over a row: of g, and of g xhat. */
struct row_sums {
    float g, gx;

    __device__ row_sums &operator+=(row_sums other)
    {
        g += other.g;
        gx += other.gx;
        return *this;
    }
};

__device__ row_sums warp_sum(row_sums v)
{
    return {mdsk::warp_sum(v.g), mdsk::warp_sum(v.gx)};
}

/* Sums over the block; to be called once. */
template <int P> __device__ row_sums block_row_sums(row_sums v)
{
    __shared__ row_sums part[P / 32];
    unsigned lane = threadIdx.x % 32;

    v = warp_sum(v);
    if (lane == 0)
        part[threadIdx.x / 32] = v;
    __syncthreads();
    return warp_sum(lane < P / 32 ? part[lane] : row_sums{0, 0});
}

/* Statistics of a row. */
struct stats {
    float mean, rstd;
};

__device__ stats stats_of(const struct mdsk_norm_bwd &a, int64_t row)
{
    return {a.kind == MDSK_LAYERNORM ? a.mean[row] : 0, a.rstd[row]};
}

/* mean(g), which is 0 in RMSNorm, and mean(g xhat). */
__device__ row_sums means_of(const struct mdsk_norm_bwd &a, row_sums sum)
{
    float W = (float)(a.part.step == MDSK_NORM_WHOLE ? a.H : a.part.W);

    return {a.kind == MDSK_LAYERNORM ? sum.g / W : 0, sum.gx / W};
}

template <class T, int N>
__device__ void add_to_row_sums(const pack<T, N> &x, const pack<T, N> &dy,
                                const pack<T, N> &gamma, stats s, row_sums &sum)
{
#pragma unroll
    for (int j = 0; j < N; j++) {
        float g = dy[j] * gamma[j];

        sum += row_sums{g, g * ((x[j] - s.mean) * s.rstd)};
    }
}

template <class T, int N>
__device__ void store_dx(const pack<T, N> &x, const pack<T, N> &dy,
                         const pack<T, N> &gamma, const pack<T, N> &d, stats s,
                         row_sums mean, T *out)
{
    float v[N];

#pragma unroll
    for (int j = 0; j < N; j++) {
        float xhat = (x[j] - s.mean) * s.rstd;

        v[j] = d[j] + s.rstd * (dy[j] * gamma[j] - mean.g - xhat * mean.gx);
    }
    store(v, out);
}

template <class T, int N>
__device__ void add_to_dgamma_dbeta(const pack<T, N> &x, const pack<T, N> &dy, stats s,
                                    float (&dgamma)[N], float (&dbeta)[N])
{
#pragma unroll
    for (int j = 0; j < N; j++) {
        dgamma[j] += dy[j] * ((x[j] - s.mean) * s.rstd);
        dbeta[j] += dy[j];
    }
}

/* ---- rows of up to a few thousand columns ----
 *
 * A team of P threads handles a row.  Teams are as small as registers for their sums of
 * dgamma and dbeta allow: with larger teams the other work of each warp, not memory,
 * would limit the speed. */

/* Threads of a block; one block per multiprocessor. */
constexpr int block_threads = 512;

/* Sums over the P threads that share threadIdx.y.  Calls alternate between two buffers
 * (turn 0 and 1), so one barrier per call is enough. */
template <int P> __device__ row_sums team_row_sums(row_sums v, int turn)
{
    v = warp_sum(v);
    if constexpr (P > 32) {
        constexpr unsigned warps = P / 32;
        __shared__ row_sums part[2][block_threads / P][warps];

        if (threadIdx.x % 32 == 0)
            part[turn][threadIdx.y][threadIdx.x / 32] = v;
        asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.y + 1), "n"(P) : "memory");
        v = part[turn][threadIdx.y][threadIdx.x % warps];
#pragma unroll
        for (int other = warps / 2; other > 0; other /= 2)
            v += row_sums{__shfl_xor_sync(~0u, v.g, other),
                          __shfl_xor_sync(~0u, v.gx, other)};
    }
    return v;
}

/* x, dy and d of each team's next `depth` rows, copied asynchronously to shared
 * memory.  Each thread copies what it will read itself, so no thread waits for another.
 */
template <class T, int N, int K, int P> struct prefetched_rows {
    pack<T, N> *mine; /* [depth, 3, K, block_threads], from this thread's element */
    bool is_inside[K];

    static constexpr size_t bytes =
        (size_t)3 * K * block_threads * sizeof(pack<T, N>); /* of a slot */

    /* The k-th pack of x, dy or d (which: 0, 1, 2) of the row in slot d. */
    __device__ pack<T, N> *at(int d, int which, int k) const
    {
        return mine + ((d * 3 + which) * K + k) * block_threads;
    }

    /* Start copying a row to slot d if is_row is set; `first` is the offset of this
     * thread's first pack. */
    __device__ void prefetch(const struct mdsk_norm_bwd &a, bool is_row, int64_t first,
                             int d) const
    {
        const T *x = (const T *)a.x + first, *dy = (const T *)a.dy + first;
        const T *d_before = (const T *)a.d + first;

#pragma unroll
        for (int k = 0; k < K; k++)
            if (is_row && is_inside[k]) {
                __pipeline_memcpy_async(at(d, 0, k), x + k * P * N, sizeof(pack<T, N>));
                __pipeline_memcpy_async(at(d, 1, k), dy + k * P * N,
                                        sizeof(pack<T, N>));
                if (a.d)
                    __pipeline_memcpy_async(at(d, 2, k), d_before + k * P * N,
                                            sizeof(pack<T, N>));
            }
        __pipeline_commit();
    }

    /* Wait for the oldest of `depth` rows. */
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

/* part = the teams' sums, added in the order of teams. */
template <int N, int K, int P>
__device__ void store_part(int64_t H, const float (&sum)[K][N], float *scratch,
                           float *part)
{
    constexpr int row = K * P * N;

    __syncthreads(); /* the previous sums have been read */
#pragma unroll
    for (int k = 0; k < K; k++)
        store(sum[k], scratch + threadIdx.y * row + column<N, P>(k));
    __syncthreads();
    for (int64_t c = threadIdx.y * P + threadIdx.x; c < H; c += block_threads) {
        float all = 0;

#pragma unroll
        for (int t = 0; t < block_threads / P; t++)
            all += scratch[t * row + c];
        part[c] = all;
    }
}

/* For rows of at most K * P * N columns.  Block b writes part b of parts [gridDim.x, 2,
 * H]; depth is 1 .. 4.  A team without a row left still takes part in the loop: if
 * teams passed their barriers unequally often, racecheck would report a race. */
template <class T, int N, int K, int P>
__global__ __launch_bounds__(block_threads,
                             1) void norm_bwd_teams(struct mdsk_norm_bwd a, int depth,
                                                    float *parts)
{
    extern __shared__ __align__(16) char shared[];
    const int64_t step = (int64_t)gridDim.x * (block_threads / P);
    int64_t r = (int64_t)blockIdx.x * (block_threads / P) + threadIdx.y;
    int64_t at = r * a.H + column<N, P>(0);
    const float inverse = 1 / (float)a.H;
    prefetched_rows<T, N, K, P> q = {(pack<T, N> *)shared + threadIdx.y * P +
                                     threadIdx.x};
    float dgamma[K][N] = {}, dbeta[K][N] = {}, *part = parts + 2 * a.H * blockIdx.x;
    pack<T, N> gamma[K] = {};
    stats s = {0, 0};
    int turn = 0, slot = 0;

#pragma unroll
    for (int k = 0; k < K; k++) {
        q.is_inside[k] = column<N, P>(k) < a.H;
        if (q.is_inside[k])
            gamma[k] = fetch<N>((const T *)a.gamma + column<N, P>(k));
    }
    for (int d = 0; d < depth; d++)
        q.prefetch(a, r + d * step < a.R, at + d * step * a.H, d);
    if (r < a.R)
        s = stats_of(a, r);
    for (int64_t first = r - threadIdx.y; first < a.R;
         first += step, r += step, at += step * a.H, turn ^= 1) {
        const bool is_row = r < a.R;
        stats next = r + step < a.R ? stats_of(a, r + step) : s;
        float shift = -s.mean * s.rstd, across, along;
        row_sums sum = {0, 0};

        q.wait(depth);
#pragma unroll
        for (int k = 0; k < K; k++) {
            float x[N], dy[N], g[N];

            if (!q.is_inside[k] || !is_row)
                continue;
            unpack(*q.at(slot, 0, k), x);
            unpack(*q.at(slot, 1, k), dy);
            unpack(gamma[k], g);
#pragma unroll
            for (int j = 0; j < N; j++) {
                g[j] *= dy[j];
                sum += row_sums{g[j], g[j] * (x[j] * s.rstd + shift)};
            }
        }
        sum = team_row_sums<P>(sum, turn);
        across = a.kind == MDSK_LAYERNORM ? -s.rstd * inverse * sum.g : 0;
        along = -s.rstd * inverse * sum.gx;
        /* Reload x and dy below: keeping them in registers would be slower. */
        asm volatile("" ::: "memory");
#pragma unroll
        for (int k = 0; k < K; k++) {
            float x[N], dy[N], g[N], dx[N] = {};

            if (!q.is_inside[k] || !is_row)
                continue;
            unpack(*q.at(slot, 0, k), x);
            unpack(*q.at(slot, 1, k), dy);
            if (a.d)
                unpack(*q.at(slot, 2, k), dx);
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
        q.prefetch(a, r + depth * step < a.R, at + depth * step * a.H, slot);
        slot = slot + 1 < depth ? slot + 1 : 0;
        s = next;
    }
    store_part<N, K, P>(a.H, dgamma, (float *)shared, part);
    store_part<N, K, P>(a.H, dbeta, (float *)shared, part + a.H);
}

/* ---- longer rows ---- */

/* dx: a block per row, which reads the row twice.  Where other ranks have columns it
 * first leaves the sums for them to add, and is then given the totals. */
template <class T, int N, int P>
__global__ __launch_bounds__(P) void norm_bwd_dx(struct mdsk_norm_bwd a)
{
    int64_t r = blockIdx.x, first = column<N, P>(0), step = P * N;
    const T *x = (const T *)a.x + r * a.H, *dy = (const T *)a.dy + r * a.H;
    const T *gamma = (const T *)a.gamma;
    const T *d = (const T *)a.d + r * a.H;
    T *dx = (T *)a.dx + r * a.H;
    stats s = stats_of(a, r);
    row_sums sum = {0, 0}, mean;

    for (int64_t c = first; c < a.H; c += step)
        add_to_row_sums(fetch<N>(x + c), fetch<N>(dy + c), fetch<N>(gamma + c), s, sum);
    sum = block_row_sums<P>(sum);
    if (a.part.step == MDSK_NORM_SUMS) {
        if (threadIdx.x == 0) {
            a.part.sums[2 * r] = sum.g;
            a.part.sums[2 * r + 1] = sum.gx;
        }
        return;
    }
    if (a.part.step == MDSK_NORM_REST)
        sum = {a.part.totals[2 * r], a.part.totals[2 * r + 1]};
    mean = means_of(a, sum);
    for (int64_t c = first; c < a.H; c += step)
        store_dx(fetch<N>(x + c), fetch<N>(dy + c), fetch<N>(gamma + c),
                 a.d ? fetch<N>(d + c) : pack<T, N>{}, s, mean, dx + c);
}

/* dgamma and dbeta: a thread sums N columns of part blockIdx.y. */
template <class T, int N>
__global__ void norm_bwd_params(struct mdsk_norm_bwd a, float *parts)
{
    int64_t c = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * N;
    float dgamma[N] = {}, dbeta[N] = {}, *part = parts + 2 * a.H * blockIdx.y;

    if (c >= a.H)
        return;
#pragma unroll 4
    for (int64_t r = blockIdx.y; r < a.R; r += gridDim.y)
        add_to_dgamma_dbeta(fetch<N>((const T *)a.x + r * a.H + c),
                            fetch<N>((const T *)a.dy + r * a.H + c), stats_of(a, r),
                            dgamma, dbeta);
    store(dgamma, part + c);
    store(dbeta, part + a.H + c);
}

/* At most `wanted` parts: each of at least 8 rows, and all within scratch_bytes. */
int64_t count_parts(const struct mdsk_norm_bwd *a, int64_t wanted)
{
    int64_t useful = ceil_div(a->R, 8),
            fit = scratch_bytes / (2 * a->H * (int64_t)sizeof(float));
    int64_t n = wanted < useful ? wanted : useful;

    n = n < fit ? n : fit;
    return n > 1 ? n : 1;
}

float *alloc_parts(void *stream, const struct mdsk_norm_bwd *a, int64_t n)
{
    return (float *)mdsk_cuda_scratch((cudaStream_t)stream, MDSK_CUDA_REDUCE,
                                      n * 2 * a->H * (int64_t)sizeof(float));
}

int add_parts_to_gradients(void *stream, const struct mdsk_norm_bwd *a, int64_t n,
                           const float *parts)
{
    return add_parts(stream, n, 2 * a->H, parts, a->dgamma, a->H, a->dbeta);
}

template <class T, int N> int launch_long(void *stream, const struct mdsk_norm_bwd *a)
{
    constexpr int P = 512, across = 128;
    int64_t n = count_parts(a, 64);
    float *parts = alloc_parts(stream, a, n);
    int err = parts ? 0 : -ENOMEM;

    if (a->part.step == MDSK_NORM_SUMS)
        return launch(norm_bwd_dx<T, N, P>, mdsk_cuda_blocks(a->R), P, stream, *a);
    if (!err)
        err = launch(norm_bwd_dx<T, N, P>, mdsk_cuda_blocks(a->R), P, stream, *a);
    if (!err)
        err = launch(norm_bwd_params<T, N>,
                     dim3(mdsk_cuda_blocks(ceil_div(a->H, across * N)), (unsigned)n),
                     across, stream, *a, parts);
    return err ? err : add_parts_to_gradients(stream, a, n, parts);
}

/* Prefetch as many rows as shared memory holds, at most 4. */
template <class T, int N, int K, int P>
int launch_teams(void *stream, const struct mdsk_norm_bwd *a)
{
    constexpr size_t each = prefetched_rows<T, N, K, P>::bytes,
                     sums = block_threads * K * N * 4;
    /* less the static shared memory of team_row_sums */
    size_t fit = (size_t)mdsk_cuda_shared_bytes() - 2 * block_threads;
    int depth = (int)(fit / each < 4 ? fit / each : 4);
    size_t shared = depth * each > sums ? depth * each : sums;
    int64_t useful = ceil_div(a->R, 2 * block_threads / P),
            most = mdsk_cuda_processors();
    int64_t n = count_parts(a, useful < most ? useful : most);
    float *parts = alloc_parts(stream, a, n);
    int err = parts ? 0 : -ENOMEM;

    if (depth < 1)
        return launch_long<T, N>(stream, a);
    if (!err)
        err = launch_with(shared, norm_bwd_teams<T, N, K, P>, (unsigned)n,
                          dim3(P, block_threads / P), stream, *a, depth, parts);
    return err ? err : add_parts_to_gradients(stream, a, n, parts);
}

} // namespace

extern "C" int mdsk_norm_bwd_cuda(void *stream, const struct mdsk_norm_bwd *a)
{
    bool wide = wide_norm(a->dtype, a->H, {a->x, a->gamma, a->dy, a->d, a->dx});

    if (a->R < 1)
        return 0;
    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        typedef decltype(type) T;
        constexpr int N = width();
        int64_t packs = a->H / N;

        if constexpr (N == 1) /* rows that are not aligned */
            return launch_long<T, N>(stream, a);
        else if (a->part.step != MDSK_NORM_WHOLE)
            return launch_long<T, N>(stream, a);
        else if (packs <= 1 * 32)
            return launch_teams<T, N, 1, 32>(stream, a);
        else if (packs <= 3 * 32)
            return launch_teams<T, N, 3, 32>(stream, a);
        else if (packs <= 4 * 32)
            return launch_teams<T, N, 4, 32>(stream, a);
        else if (packs <= 2 * 128)
            return launch_teams<T, N, 2, 128>(stream, a);
        else if (packs <= 2 * 256)
            return launch_teams<T, N, 2, 256>(stream, a);
        else if (packs <= 3 * 256)
            return launch_teams<T, N, 3, 256>(stream, a);
        else if (packs <= 4 * 256)
            return launch_teams<T, N, 4, 256>(stream, a);
        else if (packs <= 4 * 512)
            return launch_teams<T, N, 4, 512>(stream, a);
        else
            return launch_long<T, N>(stream, a);
    });
}
