/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/adamw.h"

#include <math.h>

struct mdsk_adamw mds_adamw_at(const struct mds_optim_config *c, int64_t t, double lr,
                               double grad_scale)
{
    return (struct mdsk_adamw){.lr = (float)lr,
                               .beta1 = (float)c->beta1,
                               .beta2 = (float)c->beta2,
                               .eps = (float)c->eps,
                               .weight_decay = (float)c->weight_decay,
                               .correction1 = (float)(1.0 - pow(c->beta1, (double)t)),
                               .correction2 = (float)(1.0 - pow(c->beta2, (double)t)),
                               .grad_scale = (float)grad_scale};
}
