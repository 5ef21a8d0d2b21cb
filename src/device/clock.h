/* SPDX-License-Identifier: BSD-3-Clause */
/* The time of a dry run.  What a device is asked to do goes to lines, on each of which
 * one thing follows the other: its stream, copies to the host, copies from it, the
 * host's threads; links to other ranks are comm/'s.  Each call advances its line by the
 * seconds that the rates give for it; waiting for a line takes the stream to its end.
 * Queueing itself takes no time. */
#ifndef MDS_DEVICE_CLOCK_H
#define MDS_DEVICE_CLOCK_H

#include "device/device.h"

struct mds_dev_rates {
    void *ctx; /* borrowed */
    /* Seconds of an operation; args: its struct (kernels/), NULL of a fill. */
    double (*op_s)(void *ctx, enum mds_op op, const void *args, struct mdsk_cost cost);
    /* Of a copy between host and device, of the host's update of so many weights, and
     * of bytes to or from a file. */
    double (*copy_s)(void *ctx, int64_t bytes);
    double (*update_s)(void *ctx, int64_t weights);
    double (*disk_s)(void *ctx, int64_t bytes);
};

enum mds_dev_line {
    MDS_LINE_TO_HOST,
    MDS_LINE_FROM_HOST,
    MDS_LINE_HOST,
    MDS_LINE_NODE,    /* links inside the node */
    MDS_LINE_NETWORK, /* beyond it */
    MDS_DEV_LINES,
};

struct mds_dev_clock {
    double now_s;     /* where the stream is */
    double compute_s; /* of that, operations */
    double host_s;    /* and copies, or waiting for them or the host's update */
    double line_s[MDS_DEV_LINES]; /* where the others are */
};

/* rates (borrowed) NULL: no clock.  For dry devices. */
void mds_dev_set_rates(struct mds_dev *dev, const struct mds_dev_rates *rates);

/* It may be changed; without rates it does not move. */
struct mds_dev_clock *mds_dev_clock(struct mds_dev *dev);

/* Wait for something that ends then: how long the stream stood still. */
double mds_dev_clock_wait(struct mds_dev *dev, double end_s);

/* The host updates so many weights after two copies have come.  Wait for it as for a
 * copy. */
struct mds_dev_async_copy mds_dev_update_start(struct mds_dev *dev, int64_t weights,
                                               struct mds_dev_async_copy a,
                                               struct mds_dev_async_copy b);

/* The host reads or writes a file, and the stream waits. */
void mds_dev_charge_disk(struct mds_dev *dev, int64_t bytes);

#endif
