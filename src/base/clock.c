#include "base/clock.h"

#include <time.h>

static double seconds(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double mds_clock_s(void)
{
    return seconds(CLOCK_MONOTONIC);
}

double mds_clock_wall_s(void)
{
    return seconds(CLOCK_REALTIME);
}
