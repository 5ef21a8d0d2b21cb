/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/cuda/amax.cuh"
#include "kernels/cuda/early.cuh"
#include "kernels/cuda/norm.cuh"

namespace
{

using namespace mdsk;

/* The mean of a row from each thread's sum, and then 1 / sqrt(var + eps) from each
 * thread's sum of squares about that mean: E[x^2] - E[x]^2 would cancel.  Where other
 * ranks have columns, from the totals. */
template <int P>
__device__ float mean_of(const struct mdsk_norm_fwd &a, int64_t row, float sum)
{
    if (a.kind != MDSK_LAYERNORM)
        return 0;
    if (a.part.step == MDSK_NORM_SQUARES)
        return a.part.totals[row] / (float)a.part.W;
    if (a.part.step == MDSK_NORM_REST)
        return a.mean[row];
    return team_sum<P>(sum) / (float)a.H;
}

template <int P>
__device__ float rstd_of(const struct mdsk_norm_fwd &a, int64_t row, float squares)
{
    float mean = a.part.step == MDSK_NORM_REST ? a.part.totals[row] / (float)a.part.W
                                               : team_sum<P>(squares) / (float)a.H;

    return 1 / sqrtf(mean + a.eps);
}

/* Whether this step leaves a sum for the ranks to add, and no more. */
template <int P>
__device__ bool leaves_sum(const struct mdsk_norm_fwd &a, enum mdsk_norm_step step,
                           int64_t row, float mean, float sum)
{
    if (a.part.step != step)
        return false;
    sum = team_sum<P>(sum);
    if (threadIdx.x == 0) {
        a.part.sums[row] = sum;
        if (step == MDSK_NORM_SQUARES && a.kind == MDSK_LAYERNORM)
            a.mean[row] = mean;
    }
    return true;
}

__device__ void store_stats(const struct mdsk_norm_fwd &a, int64_t row, float mean,
                            float rstd)
{
    if (threadIdx.x > 0)
        return;
    if (a.kind == MDSK_LAYERNORM && a.part.step == MDSK_NORM_WHOLE)
        a.mean[row] = mean;
    a.rstd[row] = rstd;
}

/* v += r, rounded to the storage type */
template <class T, int N>
__device__ void add_rounded(const pack<T, N> &r, float (&v)[N])
{
    pack<T, N> sum;
    float more[N];

    unpack(r, more);
#pragma unroll
    for (int j = 0; j < N; j++)
        sum.x[j] = narrow<T>(v[j] + more[j]);
    unpack(sum, v);
}

/* Returns the largest magnitude before rounding, if it is asked for. */
template <class T, int N>
__device__ uint32_t store_normed(const struct mdsk_norm_fwd &a, int64_t row, int64_t c,
                                 float mean, float rstd, float (&v)[N])
{
    float gamma[N];

    if (!a.y)
        return 0;
    load((const T *)a.gamma + c, gamma);
#pragma unroll
    for (int j = 0; j < N; j++)
        v[j] = (v[j] - mean) * rstd * gamma[j];
    if (a.beta) {
        float beta[N];

        load((const T *)a.beta + c, beta);
#pragma unroll
        for (int j = 0; j < N; j++)
            v[j] += beta[j];
    }
    store(v, (T *)a.y + row * a.H + c);
    return a.amax ? amax_of(v) : 0;
}

/* v = x + r, and sum = v.  All loads come before the first store: sum may be x or r, so
 * the compiler could not move loads across stores. */
template <class T, int N, int K, int P>
__device__ void read_row(const struct mdsk_norm_fwd &a, int64_t row, float (&v)[K][N])
{
    const T *x = (const T *)a.x + row * a.H, *r = (const T *)a.r + row * a.H;
    pack<T, N> more[K];

#pragma unroll
    for (int k = 0; k < K; k++) {
        int64_t c = column<N, P>(k);

        if (c < a.H)
            load(x + c, v[k]);
        if (c < a.H && a.r)
            more[k] = fetch<N>(r + c);
    }
#pragma unroll
    for (int k = 0; k < K; k++) {
        int64_t c = column<N, P>(k);

        if (c < a.H && a.r) {
            add_rounded(more[k], v[k]);
            store(v[k], (T *)a.sum + row * a.H + c);
        }
    }
}

/* Rows of at most K * P * N columns, which are kept in registers. */
template <class T, int N, int K, int P>
__global__ __launch_bounds__(P == 32 ? 128 : P) void norm_fwd(struct mdsk_norm_fwd a)
{
    int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    float v[K][N] = {}, sum = 0, squares = 0, mean, rstd;
    uint32_t seen = amax_so_far(a.amax), most = 0;

    if (gridDim.x == 1) {
        let_next_begin();
        wait_for_earlier();
    }
    if (row >= a.R)
        return;
    read_row<T, N, K, P>(a, row, v);
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int j = 0; j < N; j++)
            sum += v[k][j];
    if (leaves_sum<P>(a, MDSK_NORM_SUMS, row, 0, sum))
        return;
    mean = mean_of<P>(a, row, sum);
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int j = 0; j < N; j++)
            squares += column<N, P>(k) < a.H ? (v[k][j] - mean) * (v[k][j] - mean) : 0;
    if (leaves_sum<P>(a, MDSK_NORM_SQUARES, row, mean, squares))
        return;
    rstd = rstd_of<P>(a, row, squares);
    store_stats(a, row, mean, rstd);
#pragma unroll
    for (int k = 0; k < K; k++)
        if (column<N, P>(k) < a.H)
            most = max(most,
                       store_normed<T, N>(a, row, column<N, P>(k), mean, rstd, v[k]));
    if (a.amax)
        raise_amax<P>(a.amax, seen, amax_stored<T>(most));
}

/* Longer rows are read three times.  A thread reads back only what it wrote itself. */
template <class T, int N, int P>
__global__ __launch_bounds__(P) void norm_fwd_long(struct mdsk_norm_fwd a)
{
    int64_t row = blockIdx.x, at = row * a.H, first = column<N, P>(0), step = P * N;
    const T *x = (const T *)(a.r ? a.sum : a.x) + at;
    float sum = 0, squares = 0, mean, rstd, v[N];
    uint32_t seen = amax_so_far(a.amax), most = 0;

    for (int64_t c = first; c < a.H; c += step) {
        load((const T *)a.x + at + c, v);
        if (a.r) {
            add_rounded(fetch<N>((const T *)a.r + at + c), v);
            store(v, (T *)a.sum + at + c);
        }
        for (int j = 0; j < N; j++)
            sum += v[j];
    }
    if (leaves_sum<P>(a, MDSK_NORM_SUMS, row, 0, sum))
        return;
    mean = mean_of<P>(a, row, sum);
    for (int64_t c = first; c < a.H; c += step) {
        load(x + c, v);
        for (int j = 0; j < N; j++)
            squares += (v[j] - mean) * (v[j] - mean);
    }
    if (leaves_sum<P>(a, MDSK_NORM_SQUARES, row, mean, squares))
        return;
    rstd = rstd_of<P>(a, row, squares);
    store_stats(a, row, mean, rstd);
    for (int64_t c = first; c < a.H; c += step) {
        load(x + c, v);
        most = max(most, store_normed<T, N>(a, row, c, mean, rstd, v));
    }
    if (a.amax)
        raise_amax<P>(a.amax, seen, amax_stored<T>(most));
}

template <class T, int N, int K, int P>
int launch_rows(void *stream, const struct mdsk_norm_fwd *a)
{
    constexpr int rows = P == 32 ? 4 : 1;

    if (a->R <= rows) /* one block */
        return launch_early(norm_fwd<T, N, K, P>, 1, dim3(P, rows), stream, *a);
    return launch(norm_fwd<T, N, K, P>, mdsk_cuda_blocks(ceil_div(a->R, rows)),
                  dim3(P, rows), stream, *a);
}

} // namespace

extern "C" int mdsk_norm_fwd_cuda(void *stream, const struct mdsk_norm_fwd *a)
{
    bool wide =
        wide_norm(a->dtype, a->H, {a->x, a->r, a->sum, a->gamma, a->beta, a->y});

    int err = a->amax ? zero_amax(stream, a->amax) : 0;

    if (err || a->R < 1)
        return err;
    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        typedef decltype(type) T;
        constexpr int N = width();
        int64_t packs = a->H / N;

        if (packs <= 4 * 32)
            return launch_rows<T, N, 4, 32>(stream, a);
        if (packs <= 2 * 128)
            return launch_rows<T, N, 2, 128>(stream, a);
        if (packs <= 4 * 256)
            return launch_rows<T, N, 4, 256>(stream, a);
        if (packs <= 4 * 512)
            return launch_rows<T, N, 4, 512>(stream, a);
        if (packs <= 8 * 512)
            return launch_rows<T, N, 8, 512>(stream, a);
        return launch(norm_fwd_long<T, N, 512>, mdsk_cuda_blocks(a->R), 512, stream,
                      *a);
    });
}
