/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MDS_BASE_CLOCK_H
#define MDS_BASE_CLOCK_H

/* Monotonic seconds since an arbitrary origin. */
double mds_clock_s(void);

/* Seconds since 1970-01-01 UTC. */
double mds_clock_wall_s(void);

/* Between two looks of a loop that has waited so long: yields at first, then sleeps for
 * 20 us, so that others get the core.  The kernel gives a yielded turn straight back.
 */
void mds_clock_rest(double waited_s);

#endif
