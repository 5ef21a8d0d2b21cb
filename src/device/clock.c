/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/clock.h"
#include "device/backend.h"

#include <math.h>

void mds_dev_set_rates(struct mds_dev *dev, const struct mds_dev_rates *rates)
{
    dev->rates = rates;
}

struct mds_dev_clock *mds_dev_clock(struct mds_dev *dev)
{
    return &dev->clock;
}

double mds_dev_clock_wait(struct mds_dev *dev, double end_s)
{
    double s = fmax(end_s - dev->clock.now_s, 0);

    dev->clock.now_s += s;
    return s;
}

/* Copies that block count as the host's. */
void mds_clock_charge(struct mds_dev *dev, enum mds_op op, const void *args,
                      struct mdsk_cost cost)
{
    int copy = op == MDS_OP_COPY_IN || op == MDS_OP_COPY_OUT;
    double s;

    if (!dev->rates)
        return;
    s = copy ? dev->rates->copy_s(dev->rates->ctx, (int64_t)(cost.bytes / 2))
             : dev->rates->op_s(dev->rates->ctx, op, args, cost);
    dev->clock.now_s += s;
    *(copy ? &dev->clock.host_s : &dev->clock.compute_s) += s;
}

/* Queue s seconds on a line, not before `from_s`: their end. */
static double queue(struct mds_dev *dev, enum mds_dev_line line, double from_s,
                    double s)
{
    double *at = &dev->clock.line_s[line];

    return *at = fmax(fmax(*at, dev->clock.now_s), from_s) + s;
}

double mds_clock_copy(struct mds_dev *dev, int direction, int64_t bytes)
{
    return dev->rates
               ? queue(dev, direction == 0 ? MDS_LINE_TO_HOST : MDS_LINE_FROM_HOST, 0,
                       dev->rates->copy_s(dev->rates->ctx, bytes))
               : 0;
}

void mds_clock_wait_copy(struct mds_dev *dev, struct mds_dev_async_copy copy)
{
    if (dev->rates)
        dev->clock.host_s += mds_dev_clock_wait(dev, copy.end_s);
}

struct mds_dev_async_copy mds_dev_update_start(struct mds_dev *dev, int64_t weights,
                                               struct mds_dev_async_copy a,
                                               struct mds_dev_async_copy b)
{
    struct mds_dev_async_copy update = {.number = 1};

    if (dev->rates)
        update.end_s = queue(dev, MDS_LINE_HOST, fmax(a.end_s, b.end_s),
                             dev->rates->update_s(dev->rates->ctx, weights));
    return update;
}

void mds_dev_charge_disk(struct mds_dev *dev, int64_t bytes)
{
    double s = dev->rates ? dev->rates->disk_s(dev->rates->ctx, bytes) : 0;

    dev->clock.now_s += s;
    dev->clock.host_s += s;
}
