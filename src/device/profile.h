/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a device's time goes: how long each operation takes, and how long the device is
 * idle while it waits for communication.
 *
 * Off until started.  Then each operation gets two time stamps: events on the device's
 * stream (cuda), which cost some microseconds each, or readings of the clock (cpu).  A
 * timed item is one operation, one wait, or one transfer on its stream. */
#ifndef MDS_DEVICE_PROFILE_H
#define MDS_DEVICE_PROFILE_H

#include "device/device.h"

enum mds_profile_kind {
    MDS_PROFILE_OP,   /* enum mds_op, on the device's own stream */
    MDS_PROFILE_WAIT, /* that stream (cpu: the program) waits for a transfer */
    MDS_PROFILE_MOVE, /* the transfer itself, on a stream of its own */
    MDS_PROFILE_HOST, /* enum mds_op, done by the host, not the device */
    MDS_PROFILE_KINDS,
};

/* Totals over all steps.  Calls of one member with different numbers of FLOPs (GEMMs of
 * different shapes) have separate rows. */
struct mds_profile_row {
    enum mds_profile_kind kind;
    int member;
    int64_t calls;
    double s;
    struct mdsk_cost cost;
};
enum { MDS_PROFILE_ROWS = 192 }; /* once half are used, shapes share a row */

/* One step, in seconds on the device's stream: compute, copies to and from the host,
 * waits, and idle (nothing was queued: the host was late), which add up to total_s. */
struct mds_profile_step {
    double total_s, compute_s, copy_s, wait_s, idle_s;
    double move_s; /* transfers on other streams; not part of the total */
    double host_s; /* how long the host waited for the device; 0: the host is late */
};

struct mds_profile {
    struct mds_profile_row row[MDS_PROFILE_ROWS];
    int rows;
    struct mds_profile_step *step; /* [steps] */
    int steps;
};

/* start begins the first step; mds_profile_step ends one step and begins the next; at
 * most `most` steps are recorded.  NVIDIA's profilers, if one is attached, capture from
 * start to stop.
 *
 * start_waits records only what is of kind MDS_PROFILE_WAIT and is not captured: a
 * fraction of the cost.  idle_s is then all that was not waiting. */
enum mds_rc mds_profile_start(struct mds_dev *dev, int most);
enum mds_rc mds_profile_start_waits(struct mds_dev *dev, int most);
void mds_profile_step(struct mds_dev *dev);

/* End the profile; waits for the device.  The caller destroys *out. */
enum mds_rc mds_profile_stop(struct mds_dev *dev, struct mds_profile **out);
void mds_profile_destroy(struct mds_profile *p); /* NULL is fine */

/* Time whatever is queued between begin and end, as a `member` of kind.  Does nothing
 * if no profile is being taken or dev is NULL.  One item of each kind may be open at a
 * time.  stream NULL: the device's own. */
void mds_profile_begin(struct mds_dev *dev, enum mds_profile_kind kind, int member,
                       struct mdsk_cost cost, void *stream);
void mds_profile_end(struct mds_dev *dev, enum mds_profile_kind kind, void *stream);

/* Add a finished call that took s seconds. */
void mds_profile_add(struct mds_dev *dev, enum mds_profile_kind kind, int member,
                     struct mdsk_cost cost, double s);

/* Name what runs between begin and end in the timelines of NVIDIA's profilers (NVTX).
 * Ranges nest: a step, forward or backward, layer, operation.  Does nothing in builds
 * without NVTX's header, which CUDA brings. */
void mds_range_begin(const char *name);
void mds_range_begin_step(int64_t step);
void mds_range_end(void);

#endif
