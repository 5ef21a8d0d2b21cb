/* SPDX-License-Identifier: BSD-3-Clause */
/* Which experts a row goes to, and the gradient of that.  All sums have an order that
 * depends on shapes alone. */
#include "kernels/experts.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/partial_sums.cuh"

namespace
{

using namespace mdsk;

/* Rows of a warp, and experts at a time: they share what it reads. */
constexpr int ROWS = 4, AT_ONCE = 8, WARPS = 8;

/* logits [ROWS][E] of a warp's rows, in shared memory; N columns of a lane at a time */
template <class T, int N>
__device__ void warp_logits(const struct mdsk_route &a, int64_t row, float *logits)
{
    const T *x = (const T *)a.x;
    int lane = threadIdx.x;

    for (int64_t first = 0; first < a.E; first += AT_ONCE) {
        float sum[ROWS][AT_ONCE] = {};

        for (int64_t c = lane * N; c < a.H; c += 32 * N) {
            float v[ROWS][N] = {};

#pragma unroll
            for (int r = 0; r < ROWS; r++)
                if (row + r < a.R)
                    load(x + (row + r) * a.H + c, v[r]);
#pragma unroll
            for (int e = 0; e < AT_ONCE; e++) {
                float w[N] = {};

                if (first + e < a.E)
                    load((const T *)a.w + (first + e) * a.H + c, w);
#pragma unroll
                for (int r = 0; r < ROWS; r++)
#pragma unroll
                    for (int i = 0; i < N; i++)
                        sum[r][e] += v[r][i] * w[i];
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int e = 0; e < AT_ONCE; e++) {
                float total = warp_sum(sum[r][e]);

                if (lane == 0 && first + e < a.E)
                    logits[r * a.E + first + e] = total;
            }
    }
    __syncwarp();
}

__device__ float warp_max(float v)
{
    for (int other = 16; other > 0; other /= 2)
        v = fmaxf(v, __shfl_xor_sync(~0u, v, other));
    return v;
}

__device__ float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

/* What experts are chosen by; bias may be NULL. */
struct score {
    const float *logit, *bias;
    bool by_sigmoid;

    __device__ float operator[](int e) const
    {
        float s = by_sigmoid ? sigmoid(logit[e]) : logit[e];

        return bias ? s + bias[e] : s;
    }
};

/* The largest of n scores that is not chosen yet; of equal ones the first. */
__device__ int warp_best(const score &scores, int n, const int32_t *choice, int chosen)
{
    float most = 0;
    int best = -1;

    for (int e = threadIdx.x; e < n; e += 32) {
        bool taken = false;

        for (int j = 0; j < chosen; j++)
            taken |= choice[j] == e;
        if (taken)
            continue;
        float value = scores[e];

        if (best < 0 || value > most) {
            best = e;
            most = value;
        }
    }
    for (int other = 16; other > 0; other /= 2) {
        float value = __shfl_xor_sync(~0u, most, other);
        int at = __shfl_xor_sync(~0u, best, other);
        bool larger = best < 0 || value > most || (!(most > value) && at < best);

        if (at >= 0 && larger) {
            best = at;
            most = value;
        }
    }
    return best;
}

/* choice [k], by a warp */
__device__ void choose(const score &scores, int n, int k, int32_t *choice)
{
    for (int j = 0; j < k; j++) {
        int best = warp_best(scores, n, choice, j);

        __syncwarp(); /* the choice has been read */
        if (threadIdx.x == 0)
            choice[j] = best;
        __syncwarp();
    }
}

/* One row, by a warp; logit in shared memory. */
__device__ void route_row(const struct mdsk_route &a, int64_t r, const float *logit)
{
    int32_t *choice = a.choice + r * a.k;
    float *weight = a.weight + r * a.k;
    int lane = threadIdx.x, E = (int)a.E, k = (int)a.k;
    bool by_sigmoid = a.sigmoid != 0;
    float max = -INFINITY, sum = 0, over = by_sigmoid ? MDSK_ROUTE_LEAST : 0;

    for (int e = lane; e < E; e += 32)
        max = fmaxf(max, logit[e]);
    max = warp_max(max);
    for (int e = lane; e < E; e += 32)
        sum += expf(logit[e] - max);
    sum = warp_sum(sum);
    for (int e = lane; e < E && a.scores; e += 32)
        a.scores[r * (E + 1) + e] = by_sigmoid ? logit[e] : expf(logit[e] - max) / sum;
    if (lane == 0 && a.scores)
        a.scores[r * (E + 1) + E] = max + logf(sum);
    if (a.unbiased)
        choose({logit, NULL, by_sigmoid}, E, k, a.unbiased + r * k);
    choose({logit, a.bias, by_sigmoid}, E, k, choice);
    for (int j = 0; j < k; j++)
        over += by_sigmoid ? sigmoid(logit[choice[j]])
                           : expf(logit[choice[j]] - logit[choice[0]]);
    for (int j = lane; j < k; j += 32) {
        float of = logit[choice[j]], w;

        if (by_sigmoid)
            w = a.of_all ? sigmoid(of) : sigmoid(of) / over;
        else
            w = a.of_all ? expf(of - max) / sum : expf(of - logit[choice[0]]) / over;
        weight[j] = a.scale * w;
    }
}

template <class T, int N> __global__ void route_kernel(struct mdsk_route a)
{
    extern __shared__ float shared[];
    int64_t row = ((int64_t)blockIdx.x * WARPS + threadIdx.y) * ROWS;
    float *logits = shared + threadIdx.y * ROWS * a.E;

    if (row >= a.R)
        return;
    warp_logits<T, N>(a, row, logits);
    for (int r = 0; r < ROWS && row + r < a.R; r++)
        route_row(a, row + r, logits + r * a.E);
}

/* ---- sorting ---- */

/* Copies that a block counts, or puts in order. */
constexpr int CHUNK = 1024;

/* count [chunks][E]: how many of a chunk's copies each expert has.  A thread an expert.
 */
__global__ void count_kernel(struct mdsk_route_sort a, int32_t *count)
{
    __shared__ int32_t choice[CHUNK];
    int64_t first = (int64_t)blockIdx.x * CHUNK, left = a.R * a.k - first;
    int n = left < CHUNK ? (int)left : CHUNK, sum = 0;

    for (int i = threadIdx.x; i < n; i += blockDim.x)
        choice[i] = a.choice[first + i];
    __syncthreads();
    if (threadIdx.x >= a.E)
        return;
    for (int i = 0; i < n; i++)
        sum += choice[i] == (int)threadIdx.x;
    count[blockIdx.x * a.E + threadIdx.x] = sum;
}

/* count: where the chunk's first copy for each expert goes; a thread an expert */
__global__ void offset_kernel(struct mdsk_route_sort a, int64_t chunks, int32_t *count)
{
    __shared__ int32_t total[MDSK_EXPERTS_MOST];
    int e = threadIdx.x;
    int32_t sum = 0;

    for (int64_t c = 0; c < chunks && e < a.E; c++)
        sum += count[c * a.E + e];
    if (e < a.E)
        total[e] = sum;
    __syncthreads();
    if (e >= a.E)
        return;
    sum = 0;
    for (int i = 0; i < e; i++)
        sum += total[i];
    a.first[e] = sum;
    if (e == a.E - 1)
        a.first[a.E] = sum + total[e];
    for (int64_t c = 0; c < chunks; c++) {
        int32_t n = count[c * a.E + e];

        count[c * a.E + e] = sum;
        sum += n;
    }
}

__global__ void place_kernel(struct mdsk_route_sort a, const int32_t *offset)
{
    __shared__ int32_t choice[CHUNK];
    int64_t first = (int64_t)blockIdx.x * CHUNK, left = a.R * a.k - first;
    int n = left < CHUNK ? (int)left : CHUNK;
    int32_t at;

    for (int i = threadIdx.x; i < n; i += blockDim.x)
        choice[i] = a.choice[first + i];
    __syncthreads();
    if (threadIdx.x >= a.E)
        return;
    at = offset[blockIdx.x * a.E + threadIdx.x];
    for (int i = 0; i < n; i++)
        if (choice[i] == (int)threadIdx.x) {
            a.to[first + i] = at;
            a.from[at++] = (int32_t)(first + i);
        }
}

/* A block a group. */
__global__ void load_kernel(struct mdsk_route_load a)
{
    __shared__ int32_t count[MDSK_EXPERTS_MOST];
    int64_t copies = (a.R - blockIdx.x + a.groups - 1) / a.groups * a.k;

    for (int e = threadIdx.x; e < a.E; e += blockDim.x)
        count[e] = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < copies; i += blockDim.x) {
        int64_t row = blockIdx.x + i / a.k * a.groups;

        atomicAdd(&count[a.choice[row * a.k + i % a.k]], 1); /* whole numbers */
    }
    __syncthreads();
    for (int e = threadIdx.x; e < a.E; e += blockDim.x)
        a.load[blockIdx.x * a.E + e] = (float)count[e];
}

/* Blocks and threads of losses_kernel. */
constexpr int LOSS_BLOCKS = 64, LOSS_THREADS = 256;

/* part [blocks][2]: a block's sums.  A thread a row. */
__global__ void losses_kernel(struct mdsk_route_losses a, double *part)
{
    double shares = 0, squares = 0;
    int64_t apart = (int64_t)gridDim.x * LOSS_THREADS;

    for (int64_t r = (int64_t)blockIdx.x * LOSS_THREADS + threadIdx.x; r < a.R;
         r += apart) {
        const float *p = a.scores + r * (a.E + 1), *load = a.load + r % a.groups * a.E;
        double lse = p[a.E], sum = 0, all = a.sigmoid ? MDSK_ROUTE_LEAST : 1;

        for (int64_t e = 0; e < a.E; e++) {
            float s = a.sigmoid ? sigmoid(p[e]) : p[e];

            sum += (double)s * load[e];
            all += a.sigmoid ? s : 0;
        }
        shares += sum / all;
        squares += lse * lse;
    }
    shares = team_sum<LOSS_THREADS>(shares);
    squares = team_sum<LOSS_THREADS>(squares);
    if (threadIdx.x == 0) {
        part[2 * blockIdx.x] = shares;
        part[2 * blockIdx.x + 1] = squares;
    }
}

__global__ void add_losses_kernel(int blocks, const double *part, double *sum)
{
    for (int i = 0; i < blocks; i++)
        sum[threadIdx.x] += part[2 * i + threadIdx.x];
}

/* ---- backward ---- */

/* What balance adds to the gradient of the score of expert e of row r. */
__device__ float balance_at(const struct mdsk_route_bwd &a, int64_t r, int e)
{
    return a.load ? a.balance * a.load[r % a.groups * a.E + e] : 0;
}

/* What expert e of row r adds to the gradient before the softmax over all. */
__device__ float score_grad(const struct mdsk_route_bwd &a, int64_t r, int e)
{
    float d = balance_at(a, r, e);

    for (int j = 0; j < a.k && a.of_all; j++)
        if (a.choice[r * a.k + j] == e)
            d += a.scale * a.dweight[r * a.k + j];
    return d;
}

/* The sum of weights times their gradients, before they were scaled; what it is
 * subtracted from is the gradient of weights that add up to 1. */
__device__ float chosen_mean(const struct mdsk_route_bwd &a, int64_t r)
{
    float sum = 0;

    for (int j = 0; j < a.k && !a.of_all; j++)
        sum += a.weight[r * a.k + j] * a.dweight[r * a.k + j];
    return sum / a.scale;
}

/* By a warp. */
__device__ void softmax_bwd(const struct mdsk_route_bwd &a, int64_t r)
{
    const float *p = a.scores + r * (a.E + 1), *w = a.weight + r * a.k;
    const float *dw = a.dweight + r * a.k;
    float mean = 0, chosen = chosen_mean(a, r);

    for (int e = threadIdx.x; e < a.E; e += 32)
        mean += p[e] * score_grad(a, r, e);
    mean = warp_sum(mean);
    for (int e = threadIdx.x; e < a.E; e += 32) {
        float d = p[e] * (score_grad(a, r, e) - mean + 2 * a.z * p[a.E]);

        for (int j = 0; j < a.k && !a.of_all; j++)
            if (a.choice[r * a.k + j] == e)
                d += w[j] * (dw[j] - chosen);
        a.dlogits[r * a.E + e] = d;
    }
}

/* The same of sigmoids s, whose derivative is s (1 - s). */
__device__ void sigmoid_bwd(const struct mdsk_route_bwd &a, int64_t r)
{
    const float *logit = a.scores + r * (a.E + 1), *w = a.weight + r * a.k;
    const float *dw = a.dweight + r * a.k;
    float sum = 0, mean = 0, chosen = chosen_mean(a, r), lse = logit[a.E];

    for (int e = threadIdx.x; e < a.E; e += 32) {
        sum += sigmoid(logit[e]);
        mean += sigmoid(logit[e]) * balance_at(a, r, e);
    }
    sum = warp_sum(sum) + MDSK_ROUTE_LEAST;
    mean = warp_sum(mean) / sum;
    for (int e = threadIdx.x; e < a.E; e += 32) {
        float rest = sigmoid(-logit[e]);
        float d = sigmoid(logit[e]) / sum * rest * (balance_at(a, r, e) - mean) +
                  2 * a.z * lse * expf(logit[e] - lse);

        for (int j = 0; j < a.k; j++)
            if (a.choice[r * a.k + j] == e)
                d += w[j] * rest * (dw[j] - chosen);
        a.dlogits[r * a.E + e] = d;
    }
}

/* A warp a row. */
__global__ void logits_bwd_kernel(struct mdsk_route_bwd a)
{
    int64_t r = (int64_t)blockIdx.x * WARPS + threadIdx.y;

    if (r >= a.R)
        return;
    if (a.sigmoid)
        sigmoid_bwd(a, r);
    else
        softmax_bwd(a, r);
}

template <class T> struct input_bwd {
    struct mdsk_route_bwd a;

    template <int N> __device__ void run(int64_t r, int64_t c) const
    {
        T *dx = (T *)a.dx + r * a.H + c;
        float sum[N];

        load(dx, sum);
        for (int64_t e = 0; e < a.E; e++) {
            float w[N], d = a.dlogits[r * a.E + e];

            load((const T *)a.w + e * a.H + c, w);
#pragma unroll
            for (int i = 0; i < N; i++)
                sum[i] += d * w[i];
        }
        store(sum, dx);
    }
};

/* Rows whose dlogits a block has in shared memory. */
constexpr int NEAR = 64;

/* parts [gridDim.y][E,H]: a thread N columns and AT_ONCE experts, a block some rows */
template <class T, int N>
__global__ void weight_bwd_kernel(struct mdsk_route_bwd a, int64_t rows, float *parts)
{
    __shared__ __align__(16) float dlogits[NEAR][AT_ONCE];
    int64_t c = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * N;
    int64_t begin = blockIdx.y * rows, end = begin + rows < a.R ? begin + rows : a.R;
    int first = blockIdx.z * AT_ONCE;
    float sum[AT_ONCE][N] = {};

    for (int64_t near = begin; near < end; near += NEAR) {
        int n = end - near < NEAR ? (int)(end - near) : NEAR;

        __syncthreads();
        for (int i = threadIdx.x; i < n * AT_ONCE; i += blockDim.x) {
            int e = first + i % AT_ONCE;

            dlogits[i / AT_ONCE][i % AT_ONCE] =
                e < a.E ? a.dlogits[(near + i / AT_ONCE) * a.E + e] : 0;
        }
        __syncthreads();
        for (int r = 0; r < n && c < a.H; r++) {
            float x[N], d[AT_ONCE];

            load((const T *)a.x + (near + r) * a.H + c, x);
            load(dlogits[r], d);
#pragma unroll
            for (int e = 0; e < AT_ONCE; e++)
#pragma unroll
                for (int i = 0; i < N; i++)
                    sum[e][i] += d[e] * x[i];
        }
    }
#pragma unroll
    for (int e = 0; e < AT_ONCE; e++)
        if (first + e < a.E && c < a.H)
            store(sum[e], parts + (blockIdx.y * a.E + first + e) * a.H + c);
}

template <class T> int weight_bwd(void *stream, const struct mdsk_route_bwd *a)
{
    constexpr int threads = 128;
    bool wide = a->H % 2 == 0 && aligned({a->x});
    int64_t n = ceil_div(a->R, 512) < 64 ? ceil_div(a->R, 512) : 64;
    int64_t rows = ceil_div(a->R, n), cols = a->E * a->H;
    dim3 blocks(mdsk_cuda_blocks(ceil_div(a->H, threads * (wide ? 2 : 1))), (unsigned)n,
                (unsigned)ceil_div(a->E, AT_ONCE));
    float *parts = (float *)mdsk_cuda_scratch((cudaStream_t)stream, MDSK_CUDA_REDUCE,
                                              n * cols * (int64_t)sizeof *parts);
    int err;

    if (!parts)
        return -ENOMEM;
    err = launch(wide ? weight_bwd_kernel<T, 2> : weight_bwd_kernel<T, 1>, blocks,
                 threads, stream, *a, rows, parts);
    return err ? err : add_parts(stream, n, cols, parts, a->dw, cols, NULL);
}

unsigned expert_threads(int64_t E)
{
    return (unsigned)(ceil_div(E, 32) * 32);
}

} // namespace

extern "C" int mdsk_route_cuda(void *stream, const struct mdsk_route *a)
{
    return with_storage(a->dtype, aligned({a->x, a->w}), [&](auto type, auto width) {
        typedef decltype(type) T;
        constexpr int N = width();
        size_t shared = (size_t)(WARPS * ROWS * a->E) * sizeof(float);

        return launch_with(shared,
                           a->H % N == 0 ? route_kernel<T, N> : route_kernel<T, 1>,
                           mdsk_cuda_blocks(ceil_div(a->R, WARPS * ROWS)),
                           dim3(32, WARPS), stream, *a);
    });
}

extern "C" int mdsk_route_sort_cuda(void *stream, const struct mdsk_route_sort *a)
{
    int64_t chunks = ceil_div(a->R * a->k, CHUNK);
    unsigned threads = expert_threads(a->E);
    int32_t *count = (int32_t *)mdsk_cuda_scratch(
        (cudaStream_t)stream, MDSK_CUDA_REDUCE, chunks * a->E * (int64_t)sizeof *count);
    int err;

    if (!count)
        return -ENOMEM;
    err = launch(count_kernel, mdsk_cuda_blocks(chunks), threads, stream, *a, count);
    if (!err)
        err = launch(offset_kernel, 1, threads, stream, *a, chunks, count);
    if (!err)
        err = launch(place_kernel, mdsk_cuda_blocks(chunks), threads, stream, *a,
                     (const int32_t *)count);
    return err;
}

extern "C" int mdsk_route_load_cuda(void *stream, const struct mdsk_route_load *a)
{
    return launch(load_kernel, mdsk_cuda_blocks(a->groups), 1024, stream, *a);
}

extern "C" int mdsk_route_losses_cuda(void *stream, const struct mdsk_route_losses *a)
{
    int64_t most = ceil_div(a->R, LOSS_THREADS);
    unsigned blocks = (unsigned)(most < LOSS_BLOCKS ? most : LOSS_BLOCKS);
    double *part = (double *)mdsk_cuda_scratch((cudaStream_t)stream, MDSK_CUDA_REDUCE,
                                               2 * blocks * (int64_t)sizeof *part);
    int err;

    if (!part)
        return -ENOMEM;
    err = launch(losses_kernel, blocks, LOSS_THREADS, stream, *a, part);
    return err ? err
               : launch(add_losses_kernel, 1u, 2u, stream, (int)blocks, part, a->sum);
}

extern "C" int mdsk_route_bwd_cuda(void *stream, const struct mdsk_route_bwd *a)
{
    bool wide = aligned({a->w, a->dx});
    int err = launch(logits_bwd_kernel, mdsk_cuda_blocks(ceil_div(a->R, WARPS)),
                     dim3(32, WARPS), stream, *a);

    if (err)
        return err;
    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        typedef decltype(type) T;
        constexpr int N = width();
        int err = N > 1 && a->H % N == 0
                      ? each_row<N>(stream, a->R, a->H, input_bwd<T>{*a})
                      : each_row<1>(stream, a->R, a->H, input_bwd<T>{*a});

        return err ? err : weight_bwd<T>(stream, a);
    });
}
