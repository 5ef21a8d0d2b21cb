/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention by cuDNN's fused kernels. */
#ifndef MDSK_CUDA_CUDNN_ATTENTION_H
#define MDSK_CUDA_CUDNN_ATTENTION_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -ENOTSUP, and nothing is done, for what cuDNN cannot do or does wrong: f32, dropout,
 * head sizes that are no multiple of 8 or too large, keys that no query sees, GPUs
 * before sm_80, versions with known faults.
 *
 * dq is not bitwise repeatable (differences of about 1e-5) unless
 * mdsk_cuda_set_repeatable; where that takes too much memory it is -ENOTSUP, too.
 *
 * Working memory of the backward pass: 4 (D + 1) bytes for each query of the heads that
 * are computed at once, as many as stay within 1 GiB. */
int mdsk_cudnn_attention_fwd(cudaStream_t stream, const struct mdsk_attention_fwd *a);
int mdsk_cudnn_attention_bwd(cudaStream_t stream, const struct mdsk_attention_bwd *a);

#ifdef __cplusplus
}
#endif

#endif
