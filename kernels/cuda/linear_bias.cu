/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums down the columns, for the gradient of a bias. */
#include "kernels/cuda/linear.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/partial_sums.cuh"

namespace
{

using namespace mdsk;

constexpr int threads = 256, rows_at_once = 4;
constexpr int64_t max_parts = 512; /* more parts take longer to add up */

/* Block (i, j) sums rows j * depth .. of columns i * blockDim.x * N .. into parts[j,
 * cols].  A thread sums N adjacent columns and loads several rows before it adds them.
 */
template <class T, int N>
__global__ __launch_bounds__(threads) void sum_parts(int64_t rows, int64_t cols,
                                                     int64_t depth, const T *x,
                                                     float *parts)
{
    int64_t col = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * N;
    int64_t first = blockIdx.y * depth, last = min(first + depth, rows);
    float sum[N] = {};

    if (col >= cols)
        return;
    for (int64_t r = first; r < last; r += rows_at_once) {
        pack<T, N> x_pack[rows_at_once] = {};

#pragma unroll
        for (int i = 0; i < rows_at_once; i++)
            if (r + i < last)
                x_pack[i] = fetch<N>(x + (r + i) * cols + col);
#pragma unroll
        for (int i = 0; i < rows_at_once; i++) {
            float v[N];

            unpack(x_pack[i], v);
#pragma unroll
            for (int j = 0; j < N; j++)
                sum[j] += v[j];
        }
    }
    store(sum, parts + blockIdx.y * cols + col);
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

template <class T> struct broadcast {
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

/* With 16-byte loads if rows consist of whole 16-byte words. */
extern "C" int mdsk_cuda_column_sums(cudaStream_t stream, int64_t rows, int64_t cols,
                                     enum mdsk_dtype dtype, const void *x, float *sum)
{
    bool wide = aligned({x}) && cols * (int64_t)mdsk_dtype_size(dtype) % 16 == 0;

    return with_storage(dtype, wide, [&](auto type, auto width) {
        typedef decltype(type) T;
        constexpr int N = width();
        int64_t packs = ceil_div(cols, N);
        int64_t lanes = min(ceil_div(packs, 32) * 32, (int64_t)threads);
        int64_t across = ceil_div(packs, lanes);
        int64_t blocks = 4 * threads / lanes * mdsk_cuda_processors();
        int64_t depth = ceil_div(rows, min(ceil_div(blocks, across), max_parts));
        int64_t down = ceil_div(rows, depth);
        float *parts = (float *)mdsk_cuda_scratch(stream, MDSK_CUDA_REDUCE,
                                                  down * cols * (int64_t)sizeof *parts);
        int err = parts ? 0 : -ENOMEM;

        if (!err)
            err = launch(
                sum_parts<T, N>, dim3(mdsk_cuda_blocks(across), mdsk_cuda_blocks(down)),
                (unsigned)lanes, stream, rows, cols, depth, (const T *)x, parts);
        return err ? err : add_parts(stream, down, cols, parts, sum, cols, NULL);
    });
}

extern "C" int mdsk_cuda_add_sums(cudaStream_t stream, int64_t n, const float *x,
                                  float *sum)
{
    return aligned({x, sum}) ? each<4>(stream, n, add_sums{x, sum})
                             : each<1>(stream, n, add_sums{x, sum});
}

extern "C" int mdsk_cuda_broadcast_row(cudaStream_t stream, int64_t rows, int64_t cols,
                                       enum mdsk_dtype dtype, const void *x, void *y)
{
    bool wide = aligned({x, y}) && cols * (int64_t)mdsk_dtype_size(dtype) % 16 == 0;

    return with_storage(dtype, wide, [&](auto type, auto width) {
        typedef decltype(type) T;

        return each_row<width()>(stream, rows, cols,
                                 broadcast<T>{(const T *)x, (T *)y, cols});
    });
}
