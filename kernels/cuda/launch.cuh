/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernel launches, element-wise kernels, and sums within a block. */
#ifndef MDSK_CUDA_LAUNCH_CUH
#define MDSK_CUDA_LAUNCH_CUH

#include "kernels/cuda/early.cuh"
#include "kernels/cuda/grid.h"
#include "kernels/cuda/storage.cuh"

namespace mdsk
{

inline int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Queue a kernel with `shared` bytes of dynamic shared memory per block.  Returns an
 * error if the launch is refused or an earlier kernel failed. */
template <class... P>
int launch_with(size_t shared, void (*kernel)(P...), dim3 blocks, dim3 threads,
                void *stream, typename as_is<P>::type... args)
{
    void *at[] = {(void *)&args...};
    cudaError_t err = cudaSuccess;

    if (shared > 0) /* only needed above 48 KiB */
        err = cudaFuncSetAttribute((const void *)kernel,
                                   cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   (int)shared);
    if (err == cudaSuccess)
        err = cudaLaunchKernel((const void *)kernel, blocks, threads, at, shared,
                               (cudaStream_t)stream);
    if (err != cudaSuccess)
        cudaGetLastError(); /* returned here; clear it for the next launch */
    return mdsk_cuda_rc(err);
}

template <class... P>
int launch(void (*kernel)(P...), dim3 blocks, dim3 threads, void *stream,
           typename as_is<P>::type... args)
{
    return launch_with(0, kernel, blocks, threads, stream, args...);
}

/* ---- element by element ---- */

/* Grids of so few blocks begin early, and let the next kernel. */
constexpr unsigned few_blocks = 32;

__device__ inline void begin_if_few()
{
    if (gridDim.x * gridDim.y * gridDim.z > few_blocks)
        return;
    let_next_begin();
    wait_for_earlier();
}

template <class... P>
int launch_elements(void (*kernel)(P...), dim3 blocks, dim3 threads, void *stream,
                    typename as_is<P>::type... args)
{
    if (blocks.x * blocks.y * blocks.z > few_blocks)
        return launch(kernel, blocks, threads, stream, args...);
    return launch_early(kernel, blocks, threads, stream, args...);
}

template <int N, class F> __global__ void each_kernel(int64_t n, F f)
{
    int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * N;

    begin_if_few();
    if (i + N <= n) {
        f.template run<N>(i);
        return;
    }
    for (; i < n; i++)
        f.template run<1>(i);
}

/* f.run<M>(i) works on elements i .. i+M-1: M is N, and 1 at the end. */
template <int N, class F> int each(void *stream, int64_t n, const F &f)
{
    constexpr int threads = 256;

    if (n < 1)
        return 0;
    return launch_elements(each_kernel<N, F>,
                           mdsk_cuda_blocks(ceil_div(n, threads * N)), threads, stream,
                           n, f);
}

template <int N, class F> __global__ void each_row_kernel(int64_t R, int64_t C, F f)
{
    int64_t r = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    int64_t across = (int64_t)blockIdx.z * gridDim.y + blockIdx.y;
    int64_t c = (across * blockDim.x + threadIdx.x) * N;

    begin_if_few();
    if (r >= R)
        return;
    if (c + N <= C) {
        f.template run<N>(r, c);
        return;
    }
    for (; c < C; c++)
        f.template run<1>(r, c);
}

/* f.run<M>(r, c) works on columns c .. c+M-1 of row r < R: M is N, and 1 at the end. */
template <int N, class F> int each_row(void *stream, int64_t R, int64_t C, const F &f)
{
    constexpr int64_t threads = 256;
    int64_t vectors = ceil_div(C, N), across = vectors < threads ? vectors : threads,
            rows;
    unsigned y, z;

    if (R < 1 || C < 1)
        return 0;
    rows = threads / across;
    rows = rows > 8 ? rows / 8 * 8 : rows; /* align blocks with cache lines */
    mdsk_cuda_fold(ceil_div(vectors, across), &y, &z);
    return launch_elements(each_row_kernel<N, F>,
                           dim3(mdsk_cuda_blocks(ceil_div(R, rows)), y, z),
                           dim3((unsigned)across, (unsigned)rows), stream, R, C, f);
}

/* ---- sums in a fixed order ---- */

/* Every lane gets the sum over the warp. */
template <class V> __device__ inline V warp_sum(V v)
{
#pragma unroll
    for (int other = 16; other > 0; other /= 2)
        v += __shfl_xor_sync(~0u, v, other);
    return v;
}

/* Every thread gets the sum over the P threads that share threadIdx.y: a warp, or the
 * whole block. */
template <int P, class V> __device__ inline V team_sum(V v)
{
    __shared__ V scratch[P / 32];
    unsigned lane = threadIdx.x % 32;

    v = warp_sum(v);
    if constexpr (P == 32)
        return v;
    __syncthreads(); /* the last sum has been read */
    if (lane == 0)
        scratch[threadIdx.x / 32] = v;
    __syncthreads();
    return warp_sum(lane < P / 32 ? scratch[lane] : (V)0);
}

} // namespace mdsk

#endif
