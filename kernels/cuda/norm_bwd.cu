/* dx = rstd (g - mean(g) - xhat mean(g xhat)) with xhat = (x - mean) rstd and g = dy
 * gamma, without mean(g) in RMSNorm.  The sums over rows are made in parts: part p has
 * rows p, p + parts, ..., and parts are added in order. */
#include "kernels/cuda/norm.cuh"

#include <cuda_pipeline_primitives.h>

namespace
{

using namespace mdsk;

/* Bytes of working memory that parts may take. */
constexpr int64_t room = 32 << 20;

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

/* Rows on their way: D of them in shared memory, each thread's pieces by themselves, so
 * that no thread waits for another's. */
template <class T, int N, int K, int P, int D> struct queue {
    typedef pack<T, N> piece;
    piece *room;

    static constexpr size_t bytes = (size_t)D * 3 * K * P * sizeof(piece);

    /* of x, dy, dx: the k-th piece of the row in place d */
    __device__ piece *at(int d, int which, int k) const
    {
        return room + ((d * 3 + which) * K + k) * P + threadIdx.x;
    }

    static __device__ void copy(piece *to, const void *row, int64_t c)
    {
        const T *from = (const T *)row + c;

        if constexpr (sizeof(piece) >= 4)
            __pipeline_memcpy_async(to, from, sizeof(piece));
        else
            *to = fetch<N>(from);
    }

    /* Row r sets out for place d; a row behind the last is none. */
    __device__ void send(const struct mdsk_norm_bwd &a, int64_t r, int d) const
    {
#pragma unroll
        for (int k = 0; k < K; k++) {
            int64_t c = column<N, P>(k), first = r * a.H + c;

            if (c < a.H && r < a.R) {
                copy(at(d, 0, k), a.x, first);
                copy(at(d, 1, k), a.dy, first);
                copy(at(d, 2, k), a.dx, first);
            }
        }
        __pipeline_commit();
    }
};

/* Block p does part p, rows of at most K * P * N columns; B blocks share a processor,
 * and D rows are on their way to each.  parts [gridDim.x, 2, H]. */
template <class T, int N, int K, int P, int B, int D>
__global__ __launch_bounds__(P, B) void norm_bwd(struct mdsk_norm_bwd a, float *parts)
{
    extern __shared__ __align__(16) char shared[];
    const queue<T, N, K, P, D> q = {(pack<T, N> *)shared};
    float dgamma[K][N] = {}, dbeta[K][N] = {}, *part = parts + 2 * a.H * blockIdx.x;
    const T *gamma = (const T *)a.gamma;
    int turn = 0, place = 0;

    for (int d = 0; d < D; d++)
        q.send(a, blockIdx.x + (int64_t)d * gridDim.x, d);
    for (int64_t r = blockIdx.x; r < a.R; r += gridDim.x, turn ^= 1) {
        pack<T, N> x[K], dy[K], dx[K];
        stats s = stats_of(a, r);
        two sum = {0, 0}, mean;

        __pipeline_wait_prior(D - 1);
#pragma unroll
        for (int k = 0; k < K; k++) {
            if (column<N, P>(k) >= a.H)
                continue;
            x[k] = *q.at(place, 0, k);
            dy[k] = *q.at(place, 1, k);
            dx[k] = *q.at(place, 2, k);
            add_sums(x[k], dy[k], fetch<N>(gamma + column<N, P>(k)), s, sum);
        }
        q.send(a, r + (int64_t)D * gridDim.x, place);
        place = place + 1 < D ? place + 1 : 0;
        mean = means_of(a, block_sum<P>(sum, turn));
#pragma unroll
        for (int k = 0; k < K; k++) {
            int64_t c = column<N, P>(k);

            if (c < a.H) {
                put_dx(x[k], dy[k], fetch<N>(gamma + c), dx[k], s, mean,
                       (T *)a.dx + r * a.H + c);
                add_weights(x[k], dy[k], s, dgamma[k], dbeta[k]);
            }
        }
    }
#pragma unroll
    for (int k = 0; k < K; k++) {
        int64_t c = column<N, P>(k);

        if (c < a.H) {
            store(dgamma[k], part + c);
            store(dbeta[k], part + a.H + c);
        }
    }
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

/* Columns of dgamma and dbeta, 32 of a block; its threads take parts in turn. */
__global__ void add_parts(int64_t n, int64_t H, const float *parts, float *dgamma,
                          float *dbeta)
{
    __shared__ float sums[32][32];
    int64_t c = (int64_t)blockIdx.x * 32 + threadIdx.x;
    float sum = 0;

    if (c < 2 * H)
#pragma unroll 4
        for (int64_t p = threadIdx.y; p < n; p += 32)
            sum += parts[p * 2 * H + c];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || c >= 2 * H)
        return;
    for (int i = 1; i < 32; i++)
        sum += sums[i][threadIdx.x];
    if (c < H)
        dgamma[c] += sum;
    else if (dbeta)
        dbeta[c - H] += sum;
}

/* Some blocks for each processor, but parts that are worth their sums, and fit. */
int64_t parts_of(const struct mdsk_norm_bwd *a, int64_t wanted)
{
    int64_t worth = ceil_div(a->R, 8), fit = room / (2 * a->H * (int64_t)sizeof(float));
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
    return launch(add_parts, blocks_of(ceil_div(2 * a->H, 32)), dim3(32, 32), stream, n,
                  a->H, parts, a->dgamma, a->dbeta);
}

template <class T, int N, int K, int P, int B, int D>
int launch_rows(void *stream, const struct mdsk_norm_bwd *a)
{
    constexpr size_t shared = queue<T, N, K, P, D>::bytes;
    int64_t n = parts_of(a, (int64_t)mdsk_cuda_processors() * B);
    float *parts = parts_room(stream, a, n);
    int err = parts ? 0 : -ENOMEM;

    if (!err)
        err = launch_with(shared, norm_bwd<T, N, K, P, B, D>, (unsigned)n, P, stream,
                          *a, parts);
    return err ? err : finish(stream, a, n, parts);
}

template <class T, int N> int launch_long(void *stream, const struct mdsk_norm_bwd *a)
{
    constexpr int P = 512, across = 128;
    int64_t n = parts_of(a, 64);
    float *parts = parts_room(stream, a, n);
    int err = parts ? 0 : -ENOMEM;

    if (!err)
        err = launch(norm_bwd_dx<T, N, P>, blocks_of(a->R), P, stream, *a);
    if (!err)
        err = launch(norm_bwd_weights<T, N>,
                     dim3(blocks_of(ceil_div(a->H, across * N)), (unsigned)n), across,
                     stream, *a, parts);
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

        if (pieces <= 128)
            return launch_rows<T, N, 1, 128, 8, 3>(stream, a);
        if (pieces <= 256)
            return launch_rows<T, N, 1, 256, 4, 3>(stream, a);
        if (pieces <= 512)
            return launch_rows<T, N, 1, 512, 2, 3>(stream, a);
        if (pieces <= 1024)
            return launch_rows<T, N, 2, 512, 1, 2>(stream, a);
        if (pieces <= 2048)
            return launch_rows<T, N, 4, 512, 1, 1>(stream, a);
        return launch_long<T, N>(stream, a);
    });
}
