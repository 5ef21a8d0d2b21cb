/* SPDX-License-Identifier: BSD-3-Clause */
/* Dynamic loss scaling for fp16: gradients are computed from scale * loss, so that
 * small ones do not underflow.  A step whose gradients overflow is skipped, and the
 * scale is lowered.  Source: Micikevicius et al. 2017, arXiv:1710.03740; the rule is
 * Megatron's. */
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

/* Whether the next overflow only skips a step.  Not if the scale is fixed or already at
 * its minimum: then the run has diverged. */
int mds_loss_scale_absorbs_overflow(const struct mds_loss_scale *s);

/* Call after each step.  overflow: the gradients overflowed, and the scale absorbs
 * it. */
void mds_loss_scale_update(struct mds_loss_scale *s, int overflow);

#endif
