/* SPDX-License-Identifier: BSD-3-Clause */
/* Scratch memory of attention's backward pass on GPUs, by what computes it. */
#ifndef MDSK_ATTENTION_SCRATCH_H
#define MDSK_ATTENTION_SCRATCH_H

#include "kernels/attention.h"

/* Our own kernels for Hopper (cuda/hopper): how many queries are in a tile, and the
 * bytes of a head.  Of whole tiles: dq in f32 of 64 or 128 elements, or none if D is
 * more; three numbers a query; four a tile.  0 bytes if they do not compute such
 * heads. */
int mdsk_attention_bwd_hopper_tile(const struct mdsk_attention_shape *s);
int64_t mdsk_attention_bwd_hopper_head(const struct mdsk_attention_shape *s);

/* cuDNN: dq in f32, lse and delta of a part, and copies of o, d_o and dq if `copies`.
 * mdsk_attention_bwd_scratch is the larger of both. */
int64_t mdsk_attention_bwd_cudnn_scratch(const struct mdsk_attention_bwd *a);

#endif
