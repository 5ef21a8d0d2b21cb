/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/schedule.h"

#include <math.h>

static double lr_between(const struct mds_optim_config *c, double span_share)
{
    return c->min_lr + (c->lr - c->min_lr) * span_share;
}

/* Warmup-stable-decay: flat, then a straight line over the last `tail` iterations. */
static double warmup_stable_decay(const struct mds_optim_config *c, int64_t end,
                                  int64_t t)
{
    int64_t tail = c->wsd_decay_iters > 0 ? c->wsd_decay_iters : (end + 9) / 10;

    if (t <= end - tail)
        return c->lr;
    return lr_between(c, (double)(end - t) / (double)tail);
}

double mds_lr_at(const struct mds_optim_config *c, int64_t iters, int64_t t)
{
    int64_t end = c->decay_iters > 0 ? c->decay_iters : iters;
    double warmup = c->warmup_iters > 0 ? (double)c->warmup_iters
                                        : c->warmup_fraction * (double)end;
    double x;

    if (warmup > 0 && (double)t <= warmup)
        return c->lr * (double)t / warmup;
    if (c->decay == MDS_LR_CONSTANT)
        return c->lr;
    if (t > end)
        return c->min_lr;
    x = ((double)t - warmup) / ((double)end - warmup);
    switch (c->decay) {
    case MDS_LR_LINEAR:
        return lr_between(c, 1.0 - x);
    case MDS_LR_COSINE:
        return lr_between(c, 0.5 * (1.0 + cos(M_PI * x)));
    default:
        return warmup_stable_decay(c, end, t);
    }
}
