/* SPDX-License-Identifier: BSD-3-Clause */
/* How attention is split on GPUs, and the scratch memory that it takes, by what
 * computes it.  mdsk_attention_fwd_scratch and mdsk_attention_bwd_scratch are the
 * larger of both, as a dry run knows no GPU. */
#ifndef MDSK_ATTENTION_SCRATCH_H
#define MDSK_ATTENTION_SCRATCH_H

#include "kernels/attention.h"

/* How many sequences and query heads a backward pass processes at once: all, if what
 * they need of scratch memory fits in MDSK_ATTENTION_SCRATCH; otherwise equal parts of
 * the heads of one sequence, at least one group of query heads.  copies (cuDNN): o, d_o
 * and dq are copied to scratch memory, because their offsets within the part exceed 32
 * bits. */
#define MDSK_ATTENTION_SCRATCH (INT64_C(1) << 30)
struct mdsk_attention_part {
    int64_t B, A;
    int copies;
};

/* ---- our own kernels for Hopper (cuda/hopper) ---- */

/* Whether they compute this type and head size. */
int mdsk_attention_is_for_hopper(const struct mdsk_attention_shape *s);

/* The same forward pass as they compute it: heads that share keys become queries of one
 * head, if each has a single query, so that keys are read once for all of them. */
struct mdsk_attention_fwd mdsk_attention_fwd_packed(const struct mdsk_attention_fwd *a);

/* Keys in `parts` parts of `tiles` tiles, from the last keys on, if queries alone do
 * not occupy the GPU; else one part.  By shape alone, so the same bits on every GPU.
 * Scratch: o in f32 and lse of each part. */
struct mdsk_attention_split {
    int64_t parts, tiles;
};
struct mdsk_attention_split
mdsk_attention_fwd_split(const struct mdsk_attention_shape *s);
int64_t mdsk_attention_fwd_hopper_scratch(const struct mdsk_attention_fwd *a);

/* Backward: how many queries are in a tile, and the bytes of a head.  Of whole tiles:
 * dq in f32 of 64 or 128 elements, or none if D is more; three numbers a query; four a
 * tile.  0 bytes if they do not compute such heads. */
int mdsk_attention_bwd_hopper_tile(const struct mdsk_attention_shape *s);
int64_t mdsk_attention_bwd_hopper_head(const struct mdsk_attention_shape *s);
struct mdsk_attention_part
mdsk_attention_bwd_hopper_part(const struct mdsk_attention_shape *s);

/* ---- cuDNN (other GPUs) ---- */

/* How the forward pass is split: `queries` at a time.  Keys that all of these see go
 * into one call without a mask, rounded down to a multiple of `keys`; the others go
 * into a second call with the mask.  keys == Sk: everything in one call.
 *
 * If the keys and values of a head fit in the L2 cache, one call is fastest.  If they
 * do not, one call reads them from memory again and again, which costs power; blocks
 * that run concurrently share what they read through L2.  On an H200, head size 128,
 * 2^20 tokens: 464 TFLOP/s in one call, 580 in blocks (docs/adr/0021). */
struct mdsk_attention_blocks {
    int64_t queries, keys;
};
struct mdsk_attention_blocks
mdsk_attention_fwd_blocks(const struct mdsk_attention_shape *s);

/* With a window: how many queries at a time, each time with the keys that they see.
 *
 * The forward pass skips what the mask hides, so its blocks are large.  The backward
 * pass does not: a query costs as many keys as its block and the window have together.
 * Its blocks have as few queries as keep the GPU busy with one block of A heads, and at
 * least as many as the window has keys: so no key is in more than two such calls, and
 * its gradient is a sum of two numbers that were rounded, at most. */
int64_t mdsk_attention_window_block(const struct mdsk_attention_shape *s);
int64_t mdsk_attention_window_bwd_block(const struct mdsk_attention_shape *s);

/* The heads whose gradients are computed at once within a window. */
struct mdsk_attention_part
mdsk_attention_window_part(const struct mdsk_attention_bwd *a);

/* A part of heads that need so many bytes each. */
struct mdsk_attention_part mdsk_attention_bwd_part(const struct mdsk_attention_bwd *a,
                                                   int64_t bytes_per_head);

/* Forward: o and lse of one block, or 0 without blocks.  Backward: dq in f32, lse and
 * delta of a part, and copies of o, d_o and dq if `copies`. */
int64_t mdsk_attention_fwd_cudnn_scratch(const struct mdsk_attention_fwd *a);
int64_t mdsk_attention_bwd_cudnn_scratch(const struct mdsk_attention_bwd *a);

#endif
