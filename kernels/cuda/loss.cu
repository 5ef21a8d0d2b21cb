#include "kernels/loss.h"

#include "kernels/cuda/launch.cuh"

namespace
{

using namespace mdsk;

/* A maximum and the sum of exponentials about it, of some of a row. */
struct partial {
    float max, sum;
};

/* What x is taken less of in exponents.  Where there is no maximum so far (-inf) any
 * number does, but -inf, which would make NaN of sums that are 0. */
__device__ float base(float max)
{
    return max == -INFINITY ? 0 : max;
}

/* The larger maximum wins; NaN in a sum stays. */
template <class T> __device__ partial join(partial p, partial q)
{
    float top = fmaxf(p.max, q.max), at = base(top);

    return {top, p.sum * exp_for<T>(p.max - at) + q.sum * exp_for<T>(q.max - at)};
}

template <class T, int N> __device__ partial add_piece(partial p, const float (&v)[N])
{
    float top = p.max, sum = 0;

#pragma unroll
    for (int j = 0; j < N; j++)
        top = fmaxf(top, v[j]);
#pragma unroll
    for (int j = 0; j < N; j++)
        sum += exp_for<T>(v[j] - base(top));
    if (top > p.max)
        p.sum *= exp_for<T>(p.max - base(top));
    return {top, p.sum + sum};
}

template <class T> __device__ partial warp_join(partial p)
{
#pragma unroll
    for (int other = 16; other > 0; other /= 2)
        p = join<T>(p, {__shfl_xor_sync(~0u, p.max, other),
                        __shfl_xor_sync(~0u, p.sum, other)});
    return p;
}

/* Of the P threads of a row, as team_sum. */
template <class T, int P> __device__ partial team_join(partial p)
{
    __shared__ partial room[P / 32];
    unsigned lane = threadIdx.x % 32;

    p = warp_join<T>(p);
    if constexpr (P == 32)
        return p;
    if (lane == 0)
        room[threadIdx.x / 32] = p;
    __syncthreads();
    return warp_join<T>(lane < P / 32 ? room[lane] : partial{-INFINITY, 0});
}

/* Gradients of columns c .. c+N-1 of a row. */
template <class T, int N>
__device__ void put_gradient(T *x, int64_t c, int64_t live, int64_t hit, float lse,
                             float scale)
{
    float v[N] = {};

    if (c < live) {
        load(x + c, v);
#pragma unroll
        for (int j = 0; j < N; j++) {
            float p = scale * exp_for<T>(v[j] - lse);

            p -= c + j == hit ? scale : 0;
            v[j] = c + j < live ? p : 0;
        }
    }
    store(v, x + c);
}

/* P threads take a row.  Rows go from the last to the first: the product has just made
 * those.  A gradient's row is read again while it is in the cache. */
template <class T, int N, int P>
__global__ __launch_bounds__(P == 32 ? 256 : P) void stats(struct mdsk_xent_stats a)
{
    int64_t r = a.R - 1 - ((int64_t)blockIdx.x * blockDim.y + threadIdx.y), i;
    T *x = (T *)a.logits + r * a.ld;
    partial p = {-INFINITY, 0};
    int64_t hit;
    float lse, target_logit = 0;

    if (r < 0)
        return;
#pragma unroll 4
    for (i = threadIdx.x * N; i + N <= a.valid; i += P * N) {
        float v[N];

        load(x + i, v);
        p = add_piece<T>(p, v);
    }
    for (int64_t end = i + N < a.valid ? i + N : a.valid; i < end; i++) {
        float v[1] = {widen(x[i])};

        p = add_piece<T>(p, v);
    }
    hit = a.target[r] < 0 ? -1 : a.target[r] - a.first_word;
    if (threadIdx.x == 0 && hit >= 0 && hit < a.valid)
        target_logit = widen(x[hit]);
    p = team_join<T, P>(p); /* nobody writes before all have read */
    if (threadIdx.x == 0) {
        a.max[r] = p.max;
        a.sum[r] = p.sum;
        a.target_logit[r] = target_logit;
    }
    if (!a.gradient)
        return;
    lse = (float)((double)p.max + log((double)p.sum));
    for (i = threadIdx.x * N; i + N <= a.words; i += P * N)
        put_gradient<T, N>(x, i, a.target[r] < 0 ? 0 : a.valid, hit, lse, a.scale);
    for (int64_t end = i + N < a.words ? i + N : a.words; i < end; i++)
        put_gradient<T, 1>(x, i, a.target[r] < 0 ? 0 : a.valid, hit, lse, a.scale);
}

/* Few words: a warp a row, eight rows a block.  Gradients: as few rows at a time as
 * keep a processor busy, so that the cache holds them. */
template <class T, int N>
int launch_stats(void *stream, const struct mdsk_xent_stats *a)
{
    constexpr int P = 512, Q = 1024;

    if (a->valid <= 2048)
        return launch(stats<T, N, 32>, mdsk_cuda_blocks(ceil_div(a->R, 8)), dim3(32, 8),
                      stream, *a);
    if (a->gradient)
        return launch(stats<T, N, Q>, mdsk_cuda_blocks(a->R), Q, stream, *a);
    return launch(stats<T, N, P>, mdsk_cuda_blocks(a->R), P, stream, *a);
}

constexpr int loss_threads = 256;

/* The log of the sum of all parts of row r, about the largest maximum. */
__device__ double combine(const struct mdsk_xent_loss &a, int64_t r)
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

/* A row a thread; part[2i], part[2i+1] are block i's sum of losses and targets. */
__global__ void loss(struct mdsk_xent_loss a, double *part)
{
    int64_t r = (int64_t)blockIdx.x * loss_threads + threadIdx.x;
    double value = 0, count = 0;

    if (r < a.R) {
        double lse = combine(a, r);

        a.lse[r] = (float)lse;
        if (a.target[r] >= 0) {
            value = lse;
            count = 1;
            for (int64_t p = 0; p < a.parts; p++)
                value -= (double)a.target_logit[p * a.part_stride + r];
        }
    }
    value = team_sum<loss_threads>(value);
    count = team_sum<loss_threads>(count);
    if (threadIdx.x == 0) {
        part[2 * blockIdx.x] = value;
        part[2 * blockIdx.x + 1] = count;
    }
}

__global__ void add_losses(int64_t blocks, const double *part, double *loss_sum,
                           double *count)
{
    double values = 0, counts = 0;

    for (int64_t i = threadIdx.x; i < blocks; i += loss_threads) {
        values += part[2 * i];
        counts += part[2 * i + 1];
    }
    values = team_sum<loss_threads>(values);
    counts = team_sum<loss_threads>(counts);
    if (threadIdx.x == 0) {
        *loss_sum += values;
        *count += counts;
    }
}

template <class T> struct gradient {
    struct mdsk_xent_bwd a;

    template <int N> __device__ void run(int64_t r, int64_t c) const
    {
        put_gradient<T, N>((T *)a.logits + r * a.ld, c, a.target[r] < 0 ? 0 : a.valid,
                           (int64_t)a.target[r] - a.first_word, a.lse[r], a.scale);
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
    double *part;
    int err;

    if (a->R < 1)
        return 0;
    part = (double *)mdsk_cuda_scratch((cudaStream_t)stream, MDSK_CUDA_REDUCE,
                                       2 * blocks * (int64_t)sizeof *part);
    if (!part)
        return -ENOMEM;
    err = launch(loss, mdsk_cuda_blocks(blocks), loss_threads, stream, *a, part);
    return err ? err
               : launch(add_losses, 1, loss_threads, stream, blocks, part, a->loss_sum,
                        a->count);
}

extern "C" int mdsk_xent_bwd_cuda(void *stream, const struct mdsk_xent_bwd *a)
{
    int64_t size = (int64_t)mdsk_dtype_size(a->dtype);
    bool wide = aligned({a->logits}) && a->ld * size % 16 == 0;

    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        return each_row<width()>(stream, a->R, a->words, gradient<decltype(type)>{*a});
    });
}
