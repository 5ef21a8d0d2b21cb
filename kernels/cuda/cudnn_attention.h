/* SPDX-License-Identifier: BSD-3-Clause */
/* Fused attention by cuDNN. */
#ifndef MDSK_CUDA_CUDNN_ATTENTION_H
#define MDSK_CUDA_CUDNN_ATTENTION_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Return -ENOTSUP without doing anything for what cuDNN cannot do or does wrong: f32,
 * dropout, head sizes that are too large or not a multiple of 8, keys that no query
 * sees, GPUs before sm_80, cuDNN versions with known bugs.
 *
 * dq is not bitwise repeatable (differences of about 1e-5) unless
 * mdsk_cuda_set_repeatable; if that needs too much memory, -ENOTSUP.
 *
 * Scratch memory of the backward pass: 4 (D + 1) bytes for each query of the heads that
 * are computed at once, as many as stay within 1 GiB. */
int mdsk_cudnn_attention_fwd(cudaStream_t stream, const struct mdsk_attention_fwd *a);
int mdsk_cudnn_attention_bwd(cudaStream_t stream, const struct mdsk_attention_bwd *a);

/* The same for shapes with a window, whatever keys its queries see, in calls of
 * mdsk_attention_window_block queries forward, and mdsk_attention_window_bwd_block
 * backward.  More scratch: mdsk_attention_bwd_scratch. */
int mdsk_cudnn_window_fwd(cudaStream_t stream, const struct mdsk_attention_fwd *a);
int mdsk_cudnn_window_bwd(cudaStream_t stream, const struct mdsk_attention_bwd *a);

/* The same for shapes with documents (host_start; without it -ENOTSUP), each of which
 * is a call.  Short ones, and what cuDNN cannot do, go to the project's own kernels. */
int mdsk_cudnn_documents_fwd(cudaStream_t stream, const struct mdsk_attention_fwd *a);
int mdsk_cudnn_documents_bwd(cudaStream_t stream, const struct mdsk_attention_bwd *a);

#ifdef __cplusplus
}
#endif

#endif
