/* SPDX-License-Identifier: BSD-3-Clause */
/* The project's own attention kernels: everything the contract asks for, on any GPU. */
#ifndef MDSK_CUDA_ATTENTION_H
#define MDSK_CUDA_ATTENTION_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -ENOTSUP where D is above 256. */
int mdsk_own_attention_fwd(cudaStream_t stream, const struct mdsk_attention_fwd *a);
int mdsk_own_attention_bwd(cudaStream_t stream, const struct mdsk_attention_bwd *a);

/* attention_merge, but acc is of a->dtype as well: each result is rounded once more. */
int mdsk_cuda_attention_join(cudaStream_t stream, const struct mdsk_attention_merge *a);

#ifdef __cplusplus
}
#endif

#endif
