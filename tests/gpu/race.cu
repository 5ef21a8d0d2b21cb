/* SPDX-License-Identifier: BSD-3-Clause */
/* A race in shared memory that racecheck must find with the filters that are used for
 * our own kernels. */
#include <cuda_runtime.h>

namespace
{

__global__ void race(int *out)
{
    __shared__ int x[64];

    x[threadIdx.x] = (int)threadIdx.x;
    out[threadIdx.x] = x[63 - threadIdx.x]; /* of another warp, and no barrier */
}

} // namespace

int main()
{
    int *out = NULL;

    if (cudaMalloc(&out, 64 * sizeof *out) != cudaSuccess)
        return 1;
    race<<<1, 64>>>(out);
    return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
