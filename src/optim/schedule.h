/* SPDX-License-Identifier: BSD-3-Clause */
/* The learning rate of each iteration. */
#ifndef MDS_OPTIM_SCHEDULE_H
#define MDS_OPTIM_SCHEDULE_H

#include "config/config.h"

/* Learning rate of iteration t (from 1) of `iters` iterations:
 *
 *   warm-up   lr * t / warmup, while t <= warmup
 *   then, with x = (t - warmup) / (decay_iters - warmup) in 0 .. 1:
 *   constant  lr
 *   linear    min_lr + (lr - min_lr) * (1 - x)
 *   cosine    min_lr + (lr - min_lr) * (1 + cos(pi x)) / 2
 *   WSD       lr until wsd_decay_iters before the end of decay_iters, then straight
 *             down to min_lr
 * and min_lr after decay_iters (constant: lr).
 *
 * The same as Megatron, whose scheduler has counted t when it makes step t.
 * decay_iters 0 means iters, warmup_iters 0 means warmup_fraction * decay_iters,
 * wsd_decay_iters 0 means a tenth of decay_iters.  Sources: Loshchilov, Hutter 2016,
 * arXiv:1608.03983; Hu et al. 2024, arXiv:2404.06395. */
double mds_lr_at(const struct mds_optim_config *c, int64_t iters, int64_t t);

#endif
