/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a device's time goes: how long each operation took on it, and how long it stood
 * still for the network.
 *
 * Off until started.  From then on two instants surround each operation: events on the
 * device's stream (cuda), which cost it some microseconds each, or readings of the
 * clock (cpu).  Only what is queued in one piece has a length of its own: an operation,
 * a wait, a transfer on its stream. */
#ifndef MDS_DEVICE_PROFILE_H
#define MDS_DEVICE_PROFILE_H

#include "device/device.h"

enum mds_profile_kind {
    MDS_PROFILE_OP,   /* enum mds_op, on the device's own stream */
    MDS_PROFILE_WAIT, /* that stream (cpu: the program) waits for a transfer */
    MDS_PROFILE_MOVE, /* the transfer itself, on a stream of its own */
    MDS_PROFILE_HOST, /* enum mds_op, done by the host beside the device */
    MDS_PROFILE_KINDS,
};

/* Over all steps.  Calls of one member that take different numbers of FLOPs (products
 * of different shapes) have a row each. */
struct mds_profile_row {
    enum mds_profile_kind kind;
    int member;
    int64_t calls;
    double s;
    struct mdsk_cost cost;
};
enum { MDS_PROFILE_ROWS = 192 }; /* with half of them taken shapes are joined */

/* One step, in seconds on the device's stream, whose parts add up to total:
 * operations that compute, copies from and to the host, waits, and nothing queued
 * (the host was late). */
struct mds_profile_step {
    double total_s, compute_s, copy_s, wait_s, idle_s;
    double move_s; /* transfers, beside all that */
    double host_s; /* how long the host waited for the device: 0 says it is behind */
};

struct mds_profile {
    struct mds_profile_row row[MDS_PROFILE_ROWS];
    int rows;
    struct mds_profile_step *step; /* [steps] */
    int steps;
};

/* Steps begin and end at each other: start is the first one's beginning.  Not more than
 * `most` of them.  NVIDIA's profilers, if one is attached, capture from start to stop.
 */
enum mds_rc mds_profile_start(struct mds_dev *dev, int most);
void mds_profile_step(struct mds_dev *dev);

/* Waits for the device.  *out is the caller's, to be destroyed. */
enum mds_rc mds_profile_stop(struct mds_dev *dev, struct mds_profile **out);
void mds_profile_destroy(struct mds_profile *p); /* NULL is fine */

/* What is queued between the two is a `member` of kind.  Nothing happens while none is
 * under way, or without a device.  Of each kind one at a time may be open; stream NULL:
 * the device's own. */
void mds_profile_begin(struct mds_dev *dev, enum mds_profile_kind kind, int member,
                       struct mdsk_cost cost, void *stream);
void mds_profile_end(struct mds_dev *dev, enum mds_profile_kind kind, void *stream);

/* A call that is over, and took s seconds. */
void mds_profile_add(struct mds_dev *dev, enum mds_profile_kind kind, int member,
                     struct mdsk_cost cost, double s);

/* A name over what follows, up to the end, in the timelines of NVIDIA's profilers; they
 * nest.  Nothing in builds without CUDA. */
void mds_range_begin(const char *name);
void mds_range_end(void);

#endif
