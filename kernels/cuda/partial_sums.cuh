/* SPDX-License-Identifier: BSD-3-Clause */
/* Add up the blocks' partial sums over rows, in a fixed order. */
#ifndef MDSK_CUDA_PARTIAL_SUMS_CUH
#define MDSK_CUDA_PARTIAL_SUMS_CUH

#include "kernels/cuda/launch.cuh"

namespace mdsk
{

/* A block sums 32 columns; thread row y sums parts y, y + 32, ... */
static __global__ void add_parts_kernel(int64_t n, int64_t cols, const float *parts,
                                        float *sum, int64_t first, float *rest)
{
    __shared__ float sums[32][32];
    int64_t c = (int64_t)blockIdx.x * 32 + threadIdx.x;
    float all = 0;

    if (c < cols)
#pragma unroll 4
        for (int64_t p = threadIdx.y; p < n; p += 32)
            all += parts[p * cols + c];
    sums[threadIdx.y][threadIdx.x] = all;
    __syncthreads();
    if (threadIdx.y > 0 || c >= cols)
        return;
    for (int i = 1; i < 32; i++)
        all += sums[i][threadIdx.x];
    if (c < first)
        sum[c] += all;
    else if (rest)
        rest[c - first] += all;
}

/* Add the first `first` columns of parts [n, cols], summed over n, to sum [first], and
 * the others to rest [cols - first]; rest NULL: drop them. */
inline int add_parts(void *stream, int64_t n, int64_t cols, const float *parts,
                     float *sum, int64_t first, float *rest)
{
    return launch(add_parts_kernel, mdsk_cuda_blocks(ceil_div(cols, 32)), dim3(32, 32),
                  stream, n, cols, parts, sum, first, rest);
}

} // namespace mdsk

#endif
