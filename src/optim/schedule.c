/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/schedule.h"

#include <math.h>

/* n of one unit in another, by what an average step had of both so far. */
static double convert(const struct mds_extent *at, double n, enum mds_unit from,
                      enum mds_unit to)
{
    return from == to ? n : n * (double)at->in[to] / (double)at->in[from];
}

static double lr_between(const struct mds_optim_config *c, double span_share)
{
    return c->min_lr + (c->lr - c->min_lr) * span_share;
}

/* Warmup-stable-decay: flat, then a straight line over the last `tail`. */
static double warmup_stable_decay(const struct mds_optim_config *c,
                                  const struct mds_extent *at, enum mds_unit unit)
{
    double t = (double)at->in[unit], end = (double)c->decay_length.in[unit];
    double tail = c->wsd_decay_iters > 0
                      ? convert(at, (double)c->wsd_decay_iters, MDS_STEPS, unit)
                      : ceil(end / 10);

    return t <= end - tail ? c->lr : lr_between(c, (end - t) / tail);
}

double mds_lr_at(const struct mds_optim_config *c, const struct mds_extent *at)
{
    enum mds_unit unit = mds_extent_unit(&c->decay_length),
                  warm_unit = mds_extent_unit(&c->warmup_length);
    double t = (double)at->in[unit], end = (double)c->decay_length.in[unit];
    double warmup, warmed, x;

    if (warm_unit == MDS_UNITS)
        warm_unit = unit;
    warmup = c->warmup_length.in[warm_unit] > 0 ? (double)c->warmup_length.in[warm_unit]
                                                : c->warmup_fraction * end;
    warmed = (double)at->in[warm_unit];
    if (warmup > 0 && warmed <= warmup)
        return c->lr * warmed / warmup;
    if (c->decay == MDS_LR_CONSTANT)
        return c->lr;
    if (t > end)
        return c->min_lr;
    warmup = convert(at, warmup, warm_unit, unit);
    x = (t - warmup) / (end - warmup);
    switch (c->decay) {
    case MDS_LR_LINEAR:
        return lr_between(c, 1.0 - x);
    case MDS_LR_COSINE:
        return lr_between(c, 0.5 * (1.0 + cos(M_PI * x)));
    case MDS_LR_EXPONENTIAL:
        return c->lr * pow(c->min_lr / c->lr, x);
    default:
        return warmup_stable_decay(c, at, unit);
    }
}
