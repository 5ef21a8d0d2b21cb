/* SPDX-License-Identifier: BSD-3-Clause */
/* The largest magnitude of a tensor, for its cast to FP8, from the kernel that writes
 * it.  The bits of magnitudes order as the numbers do, and NaN above all. */
#ifndef MDSK_CUDA_AMAX_CUH
#define MDSK_CUDA_AMAX_CUH

#include "kernels/cuda/launch.cuh"

namespace mdsk
{

template <int N> __device__ inline uint32_t amax_of(const float (&v)[N])
{
    uint32_t most = 0;

#pragma unroll
    for (int j = 0; j < N; j++)
        most = max(most, __float_as_uint(v[j]) & 0x7fffffffu);
    return most;
}

/* That of the numbers as they are stored: rounding keeps their order. */
template <class T> __device__ inline uint32_t amax_stored(uint32_t most)
{
    return __float_as_uint(widen(narrow<T>(__uint_as_float(most))));
}

/* What other teams have found so far; 0 if amax is NULL.  Read it early, so that
 * nothing waits for it. */
__device__ inline uint32_t amax_so_far(const uint32_t *amax)
{
    return amax ? __ldcg(amax) : 0;
}

/* *amax = the largest `most` of a launch.  A team is as in team_sum; only those that
 * exceed `seen`, from amax_so_far, write. */
template <int P>
__device__ inline void raise_amax(uint32_t *amax, uint32_t seen, uint32_t most)
{
    __shared__ uint32_t warps[P / 32];

#pragma unroll
    for (int other = 16; other > 0; other /= 2)
        most = max(most, __shfl_xor_sync(~0u, most, other));
    if constexpr (P > 32) {
        if (threadIdx.x % 32 == 0)
            warps[threadIdx.x / 32] = most;
        __syncthreads();
        for (int i = 0; threadIdx.x == 0 && i < P / 32; i++)
            most = max(most, warps[i]);
    }
    if (threadIdx.x == 0 && most > seen)
        atomicMax(amax, most);
}

/* Call it before the launch. */
inline int zero_amax(void *stream, uint32_t *amax)
{
    return mdsk_cuda_rc(cudaMemsetAsync(amax, 0, sizeof *amax, (cudaStream_t)stream));
}

constexpr int amax_threads = 256;

template <int N, class F>
__global__ __launch_bounds__(amax_threads) void each_row_amax_kernel(int64_t C, F f,
                                                                     uint32_t *amax)
{
    int64_t across = (int64_t)blockIdx.z * gridDim.y + blockIdx.y;
    int64_t r = blockIdx.x, c = (across * amax_threads + threadIdx.x) * N;
    uint32_t seen = amax_so_far(amax), most = 0;

    if (c + N <= C)
        most = f.template run<N>(r, c);
    else
        for (; c < C; c++)
            most = max(most, f.template run<1>(r, c));
    raise_amax<amax_threads>(amax, seen, most);
}

/* each_row, and *amax = the largest that f.run returns. */
template <int N, class F>
int each_row_amax(void *stream, int64_t R, int64_t C, const F &f, uint32_t *amax)
{
    int err = zero_amax(stream, amax);
    unsigned y, z;

    if (err || R < 1 || C < 1)
        return err;
    mdsk_cuda_fold(ceil_div(C, amax_threads * N), &y, &z);
    return launch(each_row_amax_kernel<N, F>, dim3(mdsk_cuda_blocks(R), y, z),
                  amax_threads, stream, C, f, amax);
}

} // namespace mdsk

#endif
