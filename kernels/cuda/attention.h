/* SPDX-License-Identifier: BSD-3-Clause */
/* The project's own fused attention kernels: the whole contract, on any GPU. */
#ifndef MDSK_CUDA_ATTENTION_H
#define MDSK_CUDA_ATTENTION_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -ENOTSUP if D > 256. */
int mdsk_own_attention_fwd(cudaStream_t stream, const struct mdsk_attention_fwd *a);
int mdsk_own_attention_bwd(cudaStream_t stream, const struct mdsk_attention_bwd *a);

/* Like mdsk_attention_merge, but acc is of a->dtype too, so results are rounded
 * again. */
int mdsk_cuda_attention_merge_16(cudaStream_t stream,
                                 const struct mdsk_attention_merge *a);

/* o and lse of f, from those of `parts` parts of its keys (hopper/forward.h).  D is a
 * multiple of 8. */
int mdsk_cuda_attention_merge_parts(cudaStream_t stream,
                                    const struct mdsk_attention_fwd *f, int parts,
                                    const float *o, const float *lse);

/* y += x for s->Sk tokens of s->A heads of s->B sequences, or y = 0 if x->data is NULL.
 */
int mdsk_cuda_heads_add(cudaStream_t stream, const struct mdsk_attention_shape *s,
                        const struct mdsk_heads *x, const struct mdsk_heads *y);

#ifdef __cplusplus
}
#endif

#endif
