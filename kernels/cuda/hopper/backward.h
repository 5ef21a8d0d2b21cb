/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention for Hopper, backward: what it computes, and what its kernels are given. */
#ifndef MDSK_HOPPER_BACKWARD_H
#define MDSK_HOPPER_BACKWARD_H

#include "config.h"

#include <errno.h>

#include "kernels/cuda/cuda.h"

#ifdef HAVE_HOPPER
#include "kernels/cuda/hopper/dropout.h"
#include "kernels/cuda/hopper/tensor_map.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Our own kernels for compute capability 9.0: 16-bit types, D at most 256 and a
 * multiple of 8, tensors that the copy engine can address.  -ENOTSUP for all else. */
int mdsk_hopper_attention_bwd(cudaStream_t stream, const struct mdsk_attention_bwd *a);

/* The problem, and the part of it that a launch computes: G groups of heads from number
 * g on, of B sequences from b on. */
struct backward_args {
    CUtensorMap q, k, v, d_o, dk, dv, dq_map;
    struct mdsk_attention_shape shape;
    struct mdsk_heads o, d_o_heads, dq;
    const float *lse;
    int64_t lse_stride;
    int b, g, B, G;
    /* key/value heads that are worked on side by side: over queries, over keys */
    int section, key_section;
    int A, group, Sq, Sk, D, q_offset;
    int query_tiles, key_tiles;
    int repeatable; /* dq is summed in the order of keys */
    int limited;    /* queries may not see the first keys: a window, documents */
    float scale;
    /* Scratch memory, for the part's heads.
     * dq_sum, if D <= 128, [heads, query_tiles, sums]: as the
     * sums lie in the registers of a warp group, four of each thread after four of the
     * thread before.  rows [heads, query_tiles, 3 queries + 4]: log2(e) (lse +
     * ALiBi's slope times the query's number in the tile), or
     * infinity if the query sees no key; row sums of d_o o; the first key (i32); how
     * many thread blocks have added to dq (u32, and padding). */
    float *dq_sum, *rows;
    struct hopper_dropout dropout;
};

typedef int backward_call(cudaStream_t stream, const struct backward_args *a);
backward_call mdsk_backward_bf16_64, mdsk_backward_bf16_96, mdsk_backward_bf16_128,
    mdsk_backward_bf16_256, mdsk_backward_f16_64, mdsk_backward_f16_96,
    mdsk_backward_f16_128, mdsk_backward_f16_256;

#ifdef __cplusplus
}
#endif
#else
static inline int mdsk_hopper_attention_bwd(cudaStream_t stream,
                                            const struct mdsk_attention_bwd *a)
{
    (void)stream;
    (void)a;
    return -ENOTSUP;
}
#endif

#endif
