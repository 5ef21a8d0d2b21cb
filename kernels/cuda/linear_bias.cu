/* Sums down the columns, for the gradient of a bias. */
#include "kernels/cuda/linear.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/parts.cuh"

namespace
{

using namespace mdsk;

constexpr int lanes = 32, teams = 8;

/* Block (i, j) sums columns i * lanes * N .. of rows j * depth .. into parts[j, cols].
 * Thread (lane, team) takes every teams-th row; teams are added in order. */
template <class T, int N>
__global__ void sum_parts(int64_t rows, int64_t cols, int64_t depth, const T *x,
                          float *parts)
{
    __shared__ float room[teams][lanes * N];
    int64_t col = ((int64_t)blockIdx.x * lanes + threadIdx.x) * N;
    int64_t first = blockIdx.y * depth, last = min(first + depth, rows);
    float sum[N] = {};

#pragma unroll 4
    for (int64_t r = first + threadIdx.y; col < cols && r < last; r += teams) {
        float v[N];

        load(x + r * cols + col, v);
#pragma unroll
        for (int i = 0; i < N; i++)
            sum[i] += v[i];
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        room[threadIdx.y][threadIdx.x * N + i] = sum[i];
    __syncthreads();
    if (threadIdx.y > 0 || col >= cols)
        return;
    for (int i = 0; i < N; i++) {
        float all = 0;

        for (int t = 0; t < teams; t++)
            all += room[t][threadIdx.x * N + i];
        parts[blockIdx.y * cols + col + i] = all;
    }
}

struct add_sums {
    const float *x;
    float *sum;

    template <int N> __device__ void run(int64_t i) const
    {
        float v[N];

        load(x + i, v);
        add_to(sum + i, v);
    }
};

template <class T> struct spread {
    const T *x;
    T *y;
    int64_t cols;

    template <int N> __device__ void run(int64_t r, int64_t c) const
    {
        float v[N];

        load(x + c, v);
        store(v, y + r * cols + c);
    }
};

} // namespace

/* Whole 16-byte words where rows consist of them. */
extern "C" int mdsk_cuda_column_sums(cudaStream_t stream, int64_t rows, int64_t cols,
                                     enum mdsk_dtype dtype, const void *x, float *sum)
{
    bool wide = aligned({x}) && cols * (int64_t)mdsk_dtype_size(dtype) % 16 == 0;

    return with_storage(dtype, wide, [&](auto type, auto width) {
        typedef decltype(type) T;
        constexpr int N = width();
        const int64_t wanted = 1024; /* blocks: some for each processor */
        int64_t across = ceil_div(cols, lanes * N);
        int64_t depth = max(ceil_div(rows * across, wanted), (int64_t)16 * teams);
        int64_t down = ceil_div(rows, depth);
        float *parts = (float *)mdsk_cuda_scratch(stream, MDSK_CUDA_REDUCE,
                                                  down * cols * (int64_t)sizeof *parts);
        int err = parts ? 0 : -ENOMEM;

        if (!err)
            err = launch(
                sum_parts<T, N>, dim3(mdsk_cuda_blocks(across), mdsk_cuda_blocks(down)),
                dim3(lanes, teams), stream, rows, cols, depth, (const T *)x, parts);
        return err ? err : add_parts(stream, down, cols, parts, sum, cols, NULL);
    });
}

extern "C" int mdsk_cuda_add_sums(cudaStream_t stream, int64_t n, const float *x,
                                  float *sum)
{
    return aligned({x, sum}) ? each<4>(stream, n, add_sums{x, sum})
                             : each<1>(stream, n, add_sums{x, sum});
}

extern "C" int mdsk_cuda_spread_rows(cudaStream_t stream, int64_t rows, int64_t cols,
                                     enum mdsk_dtype dtype, const void *x, void *y)
{
    bool wide = aligned({x, y}) && cols * (int64_t)mdsk_dtype_size(dtype) % 16 == 0;

    return with_storage(dtype, wide, [&](auto type, auto width) {
        typedef decltype(type) T;

        return each_row<width()>(stream, rows, cols,
                                 spread<T>{(const T *)x, (T *)y, cols});
    });
}
