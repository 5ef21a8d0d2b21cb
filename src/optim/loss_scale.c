/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/loss_scale.h"

struct mds_loss_scale mds_loss_scale_start(const struct mds_train_config *c)
{
    if (c->type != MDS_TYPE_F16)
        return (struct mds_loss_scale){.scale = 1};
    if (c->loss_scale > 0)
        return (struct mds_loss_scale){.scale = c->loss_scale};
    return (struct mds_loss_scale){.scale = c->initial_loss_scale,
                                   .min = c->min_loss_scale,
                                   .dynamic = 1,
                                   .window = c->loss_scale_window,
                                   .hysteresis = c->hysteresis,
                                   .left = c->hysteresis};
}

int mds_loss_scale_absorbs_overflow(const struct mds_loss_scale *s)
{
    return s->dynamic && (s->left > 1 || s->scale > s->min);
}

static void count_overflow(struct mds_loss_scale *s)
{
    s->good = 0;
    if (s->left > 0)
        s->left--;
    if (s->left == 0)
        s->scale = s->scale / 2 > s->min ? s->scale / 2 : s->min;
}

void mds_loss_scale_update(struct mds_loss_scale *s, int overflow)
{
    if (overflow)
        count_overflow(s);
    else if (s->dynamic && ++s->good >= s->window) {
        s->good = 0;
        s->left = s->hysteresis;
        s->scale *= 2;
    }
}
