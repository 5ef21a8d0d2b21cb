/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MDS_BASE_CLOCK_H
#define MDS_BASE_CLOCK_H

/* Monotonic seconds since an arbitrary origin. */
double mds_clock_s(void);

/* Seconds since 1970-01-01 UTC. */
double mds_clock_wall_s(void);

/* Call this in a polling loop that has waited for waited_s so far.  It yields the core
 * at first, then sleeps for 20 us, since the kernel may return to a yielding thread at
 * once. */
void mds_clock_backoff(double waited_s);

#endif
