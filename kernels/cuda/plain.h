/* SPDX-License-Identifier: BSD-3-Clause */
/* Plain attention on the GPU: cuBLASLt's products (plain.c) and kernels of its own
 * (plain_rows.cu). */
#ifndef MDSK_CUDA_PLAIN_H
#define MDSK_CUDA_PLAIN_H

#include "kernels/cuda/cuda.h"
#include "kernels/plain/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct mdsk_plain_steps mdsk_plain_steps_cuda;

int mdsk_cuda_plain_pack(void *stream, const struct mdsk_plain_tokens *t, void *packed);
int mdsk_cuda_plain_unpack(void *stream, const struct mdsk_plain_tokens *t,
                           const float *packed);
int mdsk_cuda_plain_softmax(void *stream, const struct mdsk_plain_block *x,
                            const struct mdsk_plain_softmax *a);
int mdsk_cuda_plain_slopes(void *stream, const struct mdsk_plain_block *x,
                           const struct mdsk_plain_slopes *a);

#ifdef __cplusplus
}
#endif

#endif
