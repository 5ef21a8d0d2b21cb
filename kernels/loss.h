/* SPDX-License-Identifier: BSD-3-Clause */
/* Softmax cross-entropy over a vocabulary that may be sharded over ranks. */
#ifndef MDSK_LOSS_H
#define MDSK_LOSS_H

#include "kernels/types.h"

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
 * gradient: also replace the logits by their gradient as in mdsk_xent_bwd, with `scale`
 * and with lse over these words alone: for a rank that has the whole vocabulary. */
struct mdsk_xent_stats {
    int64_t R, words, valid, ld, first_word;
    enum mdsk_dtype dtype;
    int gradient;
    float scale;
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
 *   loss_sum  one f64, added to: the sum of loss over the rows, in row order
 *   count     one f64, added to: number of rows with a target */
struct mdsk_xent_loss {
    int64_t R, parts, part_stride;
    const int32_t *target;
    const float *max, *sum, *target_logit;
    float *lse;
    double *loss_sum, *count;
};

/* logits = scale * (softmax(logits) - onehot(target)), in place: the gradient of
 * scale * sum of losses.  Rows without target, and padding columns, become 0.
 *
 *   logits, target as above;  lse [R] f32 */
struct mdsk_xent_bwd {
    int64_t R, words, valid, ld, first_word;
    enum mdsk_dtype dtype;
    void *logits;
    const int32_t *target;
    const float *lse;
    float scale;
};

#endif
