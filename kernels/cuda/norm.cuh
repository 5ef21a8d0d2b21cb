/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the norm's forward and backward: how the columns of a row are divided among
 * threads, which keep them in registers. */
#ifndef MDSK_CUDA_NORM_CUH
#define MDSK_CUDA_NORM_CUH

#include "kernels/cuda/launch.cuh"
#include "kernels/norm.h"

namespace mdsk
{

/* A row is divided among P threads, K vectors of N columns each: a thread's k-th vector
 * begins at column column<N, P>(k). */
template <int N, int P> __device__ inline int64_t column(int k)
{
    return ((int64_t)k * P + threadIdx.x) * N;
}

inline bool wide_norm(enum mdsk_dtype dtype, int64_t H,
                      std::initializer_list<const void *> addresses)
{
    return aligned(addresses) && H * (int64_t)mdsk_dtype_size(dtype) % 16 == 0;
}

} // namespace mdsk

#endif
