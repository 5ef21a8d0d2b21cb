/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for the bias of a linear layer (linear_bias.cu). */
#ifndef MDSK_CUDA_LINEAR_H
#define MDSK_CUDA_LINEAR_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* linear_fwd of one row: -ENOTSUP for what is better left to cuBLASLt. */
int mdsk_cuda_one_row(cudaStream_t stream, const struct mdsk_linear_fwd *a);

/* sum[cols] += column sums of x [rows, cols], in a fixed order. */
int mdsk_cuda_column_sums(cudaStream_t stream, int64_t rows, int64_t cols,
                          enum mdsk_dtype dtype, const void *x, float *sum);

/* Every row of y [rows, cols] = x [cols]. */
int mdsk_cuda_broadcast_row(cudaStream_t stream, int64_t rows, int64_t cols,
                            enum mdsk_dtype dtype, const void *x, void *y);

/* sum[n] += x[n] */
int mdsk_cuda_add_sums(cudaStream_t stream, int64_t n, const float *x, float *sum);

#ifdef __cplusplus
}
#endif

#endif
