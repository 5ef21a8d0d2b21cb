/* SPDX-License-Identifier: BSD-3-Clause */
/* Dynamic loss scaling for fp16: gradients are computed of scale * loss, so that small
 * ones do not vanish; a step whose gradients overflowed is left out, and the scale
 * lowered. Source: Micikevicius et al. 2017, arXiv:1710.03740; the rule is Megatron's.
 */
#ifndef MDS_OPTIM_LOSS_SCALE_H
#define MDS_OPTIM_LOSS_SCALE_H

#include "config/config.h"

#include <stdint.h>

struct mds_loss_scale {
    double scale, min;
    int dynamic;
    int64_t window;     /* steps without overflow before the scale doubles */
    int64_t hysteresis; /* overflows before it halves */
    int64_t good, left; /* steps since the last change; overflows left */
};

/* 1 and fixed unless the type is f16; fixed at loss_scale if that is given. */
struct mds_loss_scale mds_loss_scale_start(const struct mds_train_config *c);

/* Is an overflow something to leave to the scale: forgiven, or answered by a lower one?
 * Not if the scale is fixed, or at its minimum: then the run has diverged. */
int mds_loss_scale_yields(const struct mds_loss_scale *s);

/* After each step: did its gradients overflow?  Only where the scale yields. */
void mds_loss_scale_update(struct mds_loss_scale *s, int overflow);

#endif
