/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention by our own kernels for Hopper (compute capability 9.0): 16-bit types, D at
 * most 256 and a multiple of 8, tensors that the copy engine can address.  -ENOTSUP for
 * all else. */
#ifndef MDSK_HOPPER_ATTENTION_H
#define MDSK_HOPPER_ATTENTION_H

#include "config.h"

#include <errno.h>

#include "kernels/cuda/cuda.h"

#ifdef HAVE_HOPPER
int mdsk_hopper_attention_fwd(cudaStream_t stream, const struct mdsk_attention_fwd *a);
#else
static inline int mdsk_hopper_attention_fwd(cudaStream_t stream,
                                            const struct mdsk_attention_fwd *a)
{
    (void)stream;
    (void)a;
    return -ENOTSUP;
}
#endif

#endif
