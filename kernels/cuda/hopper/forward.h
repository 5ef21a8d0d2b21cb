/* SPDX-License-Identifier: BSD-3-Clause */
/* What the forward kernels of attention for Hopper are given. */
#ifndef MDSK_HOPPER_FORWARD_H
#define MDSK_HOPPER_FORWARD_H

#include <errno.h>

#include "kernels/cuda/hopper/dropout.h"
#include "kernels/cuda/hopper/tensor_map.h"

#ifdef __cplusplus
extern "C" {
#endif

struct forward_args {
    CUtensorMap q, k, v, o;
    float *lse;
    const int32_t *start; /* as in struct mdsk_attention_shape */
    unsigned *counter;    /* two, zero before and after: tiles taken; blocks done */
    int64_t lse_stride, start_stride, q_offset, window, first_query, first_key;
    int B, A, G, Sq, Sk;
    int64_t alibi_heads, first_head;
    int section; /* heads of keys that are worked on side by side */
    int q_tiles; /* of a head */
    unsigned tiles;
    float scale, scale_log2; /* of scores, for e^x and for 2^x */
    float tolerance;         /* how far scores may exceed top (forward.cuh) */
    int has_dropout;
    struct hopper_dropout dropout;
    /* If keys are split: into so many parts of so many tiles, from the last keys on;
     * o of each part, in f32, [parts, B, A, Sq, D], and lse [parts, B, A, Sq]. */
    int parts, part_tiles, D;
    float *part_o, *part_lse;
};

/* For heads of at most `width` elements; -ENOTSUP if there are too many tiles. */
typedef int forward_call(cudaStream_t stream, struct forward_args *a,
                         const struct mdsk_attention_fwd *f);
forward_call mdsk_forward_bf16_64, mdsk_forward_bf16_96, mdsk_forward_bf16_128,
    mdsk_forward_bf16_256, mdsk_forward_f16_64, mdsk_forward_f16_96,
    mdsk_forward_f16_128, mdsk_forward_f16_256;

#ifdef __cplusplus
}
#endif

#endif
