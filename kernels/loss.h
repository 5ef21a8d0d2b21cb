/* SPDX-License-Identifier: BSD-3-Clause */
/* Softmax cross-entropy over a vocabulary that may be sharded over ranks. */
#ifndef MDSK_LOSS_H
#define MDSK_LOSS_H

#include "kernels/types.h"

/* Kinds of targets: each has a weight in the gradient, and a sum of losses of its own.
 * Without `of` all are of kind 0, and its weight is 1.
 *
 *   of      [R]  u8, below n; NULL: 0
 *   weight  [n]  f32 */
struct mdsk_kinds {
    int n; /* 0 is 1 */
    const unsigned char *of;
    const float *weight;
};

/* Per row of logits: its maximum, the sum of exp(logit - max), and the target's logit.
 * Ranks combine the three; one rank has lse = max + log(sum) and loss = lse - target.
 *
 *   logits        [R, words]  dtype, row stride ld >= words; the first `valid` columns
 *                             are words, the rest is padding and is ignored
 *   target        [R]  i32, -1: no loss for this row
 *   max, sum      [R]  f32, out
 *   target_logit  [R]  f32, out; 0 where the target is outside first_word ..
 *                      first_word+valid-1
 *
 * gradient: also replace the logits by their gradient as in mdsk_xent_bwd, with
 * `scale`, `z` and `kinds`, and with lse over these words alone: for a rank that has
 * the whole vocabulary. */
struct mdsk_xent_stats {
    int64_t R, words, valid, ld, first_word;
    enum mdsk_dtype dtype;
    int gradient;
    float scale, z;
    struct mdsk_kinds kinds;
    void *logits;
    const int32_t *target;
    float *max, *sum, *target_logit;
};

/* Combine the statistics of all shards of the vocabulary, in order, into the loss:
 * lse[r] = log of the sum over parts p of sum[p][r] exp(max[p][r]);
 * loss[r] = lse[r] - sum over p of target_logit[p][r], or 0 where target is -1
 *
 *   max, sum, target_logit [parts, R] f32, parts >= 1, part_stride >= R elements apart
 *                          (unused with one part)
 *   lse       [R] f32, out; may be max with one part
 *   loss_sum  [kinds] f64, added to: the sum of loss over the rows, in row order
 *   count     [kinds] f64, added to: number of rows with a target
 *   loss      [R] f64, out; NULL: not wanted
 *
 * Weights are not used. */
struct mdsk_xent_loss {
    int64_t R, parts, part_stride;
    const int32_t *target;
    const float *max, *sum, *target_logit;
    float *lse;
    double *loss_sum, *count;
    struct mdsk_kinds kinds;
    double *loss;
};

/* logits = scale * weight * ((1 + 2 z lse) softmax(logits) - onehot(target)), in place:
 * the gradient of scale * sum of weighted (loss + z lse^2).  Rows without target, and
 * padding columns, become 0.
 *
 *   logits, target as above;  lse [R] f32
 *
 * z > 0 keeps logits from drifting.  Source: Chowdhery et al. 2022, arXiv:2204.02311,
 * section 5. */
struct mdsk_xent_bwd {
    int64_t R, words, valid, ld, first_word;
    enum mdsk_dtype dtype;
    void *logits;
    const int32_t *target;
    const float *lse;
    float scale, z;
    struct mdsk_kinds kinds;
};

#endif
