#ifndef MDS_BASE_CLOCK_H
#define MDS_BASE_CLOCK_H

/* Monotonic seconds since an arbitrary origin. */
double mds_clock_s(void);

/* Seconds since 1970-01-01 UTC. */
double mds_clock_wall_s(void);

#endif
