/* SPDX-License-Identifier: BSD-3-Clause */
/* The learning rate of each step. */
#ifndef MDS_OPTIM_SCHEDULE_H
#define MDS_OPTIM_SCHEDULE_H

#include "config/config.h"

/* Learning rate of the step with which a run comes to `at`.  With t = `at` in the unit
 * of the decay's length, and end = that length:
 *
 *   warm-up   lr * t / warmup, while t <= warmup
 *   then, with x = (t - warmup) / (end - warmup) in 0 .. 1:
 *   constant  lr
 *   linear    min_lr + (lr - min_lr) * (1 - x)
 *   cosine    min_lr + (lr - min_lr) * (1 + cos(pi x)) / 2
 *   WSD       lr until wsd_decay_iters before the end, then straight down to min_lr
 *   exponential  lr * (min_lr / lr)^x; rises if min_lr is above lr
 * and min_lr after the end (constant: lr).
 *
 * The same as Megatron, whose scheduler has counted t when it makes step t.  The
 * warm-up ends where it was said to, in its own unit; if that is another one, and for
 * WSD's steps, what an average step so far had of both says how long that is in the
 * decay's.
 * No batch of today goes in, so a rate does not jump where a job has another one.
 * warmup_length 0 means warmup_fraction * end, wsd_decay_iters 0 means a tenth of end,
 * rounded up.  Sources: Loshchilov, Hutter 2016, arXiv:1608.03983; Hu et al. 2024,
 * arXiv:2404.06395. */
double mds_lr_at(const struct mds_optim_config *c, const struct mds_extent *at);

#endif
