/* SPDX-License-Identifier: BSD-3-Clause */
/* What AdamW's update needs besides the tensors. */
#ifndef MDS_OPTIM_ADAMW_H
#define MDS_OPTIM_ADAMW_H

#include "config/config.h"
#include "kernels/optimizer.h"

/* The scalars of the update at step t, counted from 1; weight_decay is what decaying
 * parameters get.  Tensors are left to the caller. */
struct mdsk_adamw mds_adamw_at(const struct mds_optim_config *c, int64_t t, double lr,
                               double grad_scale);

#endif
