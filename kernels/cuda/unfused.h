/* SPDX-License-Identifier: BSD-3-Clause */
/* Unfused attention on GPUs: GEMMs of cuBLASLt (unfused.c) and kernels of our own
 * (unfused_rows.cu). */
#ifndef MDSK_CUDA_UNFUSED_H
#define MDSK_CUDA_UNFUSED_H

#include "kernels/cuda/cuda.h"
#include "kernels/unfused/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct mdsk_unfused_steps mdsk_unfused_steps_cuda;

int mdsk_cuda_unfused_pack(void *stream, const struct mdsk_unfused_tokens *t,
                           void *packed);
int mdsk_cuda_unfused_unpack(void *stream, const struct mdsk_unfused_tokens *t,
                             const float *packed);
int mdsk_cuda_unfused_softmax_fwd(void *stream, const struct mdsk_unfused_block *x,
                                  const struct mdsk_unfused_softmax_fwd *a);
int mdsk_cuda_unfused_softmax_bwd(void *stream, const struct mdsk_unfused_block *x,
                                  const struct mdsk_unfused_softmax_bwd *a);

#ifdef __cplusplus
}
#endif

#endif
