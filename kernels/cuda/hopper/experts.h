/* SPDX-License-Identifier: BSD-3-Clause */
/* Linear layers of all experts in one kernel, for Hopper: 16-bit types, widths that are
 * multiples of 8, addresses of 16 bytes.  -ENOTSUP for all else. */
#ifndef MDSK_HOPPER_EXPERTS_H
#define MDSK_HOPPER_EXPERTS_H

#include "config.h"

#include <errno.h>

#include "kernels/cuda/cuda.h"
#include "kernels/experts.h"

#ifdef HAVE_HOPPER
extern "C" {

int mdsk_hopper_experts_fwd(cudaStream_t stream, const struct mdsk_experts_fwd *a);
int mdsk_hopper_experts_bwd_input(cudaStream_t stream,
                                  const struct mdsk_experts_bwd_input *a);
int mdsk_hopper_experts_bwd_weight(cudaStream_t stream,
                                   const struct mdsk_experts_bwd_weight *a);
}
#else
static inline int mdsk_hopper_experts_fwd(cudaStream_t, const struct mdsk_experts_fwd *)
{
    return -ENOTSUP;
}

static inline int mdsk_hopper_experts_bwd_input(cudaStream_t,
                                                const struct mdsk_experts_bwd_input *)
{
    return -ENOTSUP;
}

static inline int mdsk_hopper_experts_bwd_weight(cudaStream_t,
                                                 const struct mdsk_experts_bwd_weight *)
{
    return -ENOTSUP;
}
#endif

#endif
