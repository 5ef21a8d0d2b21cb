/* Sums down the columns, for the gradient of a bias. */
#include "kernels/cuda/linear.h"

#include <errno.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace
{

constexpr int lanes = 32, teams = 8;

__device__ float widen(float x)
{
    return x;
}

__device__ float widen(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

__device__ float widen(__half x)
{
    return __half2float(x);
}

/* N neighbours that are loaded at once. */
template <typename T, int N> struct alignas(sizeof(T) * N) pack {
    T x[N];
};

/* Block (i, j) sums columns i * lanes * N .. of rows j * depth .. into parts[j, cols].
 * Thread (lane, team) takes every teams-th row; teams are added in order. */
template <typename T, int N>
__global__ void sum_parts(int64_t rows, int64_t cols, int64_t depth, const T *x,
                          float *parts)
{
    __shared__ float room[teams][lanes * N];
    int64_t col = (blockIdx.x * (int64_t)lanes + threadIdx.x) * N;
    int64_t first = blockIdx.y * depth, last = min(first + depth, rows);
    float sum[N] = {};

    for (int64_t r = first + threadIdx.y; col < cols && r < last; r += teams) {
        pack<T, N> p = *reinterpret_cast<const pack<T, N> *>(x + r * cols + col);

        for (int i = 0; i < N; i++)
            sum[i] += widen(p.x[i]);
    }
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

__global__ void add_parts(int64_t n, int64_t cols, const float *parts, float *sum)
{
    int64_t c = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    float all = 0;

    if (c >= cols)
        return;
    for (int64_t i = 0; i < n; i++)
        all += parts[i * cols + c];
    sum[c] += all;
}

template <typename T>
__global__ void spread(int64_t rows, int64_t cols, const T *x, T *y)
{
    int64_t n = rows * cols, step = gridDim.x * (int64_t)blockDim.x;

    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += step)
        y[i] = x[i % cols];
}

int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

template <typename T, int N>
int launch_sums(cudaStream_t stream, int64_t rows, int64_t cols, const T *x, float *sum)
{
    const int64_t wanted = 1024; /* blocks: some for each processor */
    int64_t across = ceil_div(cols, lanes * N);
    int64_t depth = max(ceil_div(rows * across, wanted), (int64_t)16 * teams);
    int64_t down = ceil_div(rows, depth);
    float *parts = (float *)mdsk_cuda_scratch(stream, MDSK_CUDA_REDUCE,
                                              down * cols * (int64_t)sizeof *parts);

    if (!parts)
        return -ENOMEM;
    sum_parts<T, N>
        <<<dim3((unsigned)across, (unsigned)down), dim3(lanes, teams), 0, stream>>>(
            rows, cols, depth, x, parts);
    add_parts<<<(unsigned)ceil_div(cols, 256), 256, 0, stream>>>(down, cols, parts,
                                                                 sum);
    return mdsk_cuda_rc(cudaGetLastError());
}

/* Whole 16-byte words where rows consist of them. */
template <typename T>
int column_sums(cudaStream_t stream, int64_t rows, int64_t cols, const void *x,
                float *sum)
{
    constexpr int wide = 16 / sizeof(T);

    if (cols % wide == 0 && (uintptr_t)x % 16 == 0)
        return launch_sums<T, wide>(stream, rows, cols, (const T *)x, sum);
    return launch_sums<T, 1>(stream, rows, cols, (const T *)x, sum);
}

} // namespace

extern "C" int mdsk_cuda_column_sums(cudaStream_t stream, int64_t rows, int64_t cols,
                                     enum mdsk_dtype dtype, const void *x, float *sum)
{
    if (dtype == MDSK_F32)
        return column_sums<float>(stream, rows, cols, x, sum);
    if (dtype == MDSK_BF16)
        return column_sums<__nv_bfloat16>(stream, rows, cols, x, sum);
    return column_sums<__half>(stream, rows, cols, x, sum);
}

extern "C" int mdsk_cuda_add_sums(cudaStream_t stream, int64_t n, const float *x,
                                  float *sum)
{
    add_parts<<<(unsigned)ceil_div(n, 256), 256, 0, stream>>>(1, n, x, sum);
    return mdsk_cuda_rc(cudaGetLastError());
}

extern "C" int mdsk_cuda_spread_rows(cudaStream_t stream, int64_t rows, int64_t cols,
                                     enum mdsk_dtype dtype, const void *x, void *y)
{
    unsigned blocks = (unsigned)min(ceil_div(rows * cols, 256), (int64_t)4096);

    if (dtype == MDSK_F32)
        spread<<<blocks, 256, 0, stream>>>(rows, cols, (const float *)x, (float *)y);
    else
        spread<<<blocks, 256, 0, stream>>>(rows, cols, (const uint16_t *)x,
                                           (uint16_t *)y);
    return mdsk_cuda_rc(cudaGetLastError());
}
