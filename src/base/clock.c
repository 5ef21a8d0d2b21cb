/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"

#include <sched.h>
#include <time.h>

static double read_clock_s(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double mds_clock_s(void)
{
    return read_clock_s(CLOCK_MONOTONIC);
}

double mds_clock_wall_s(void)
{
    return read_clock_s(CLOCK_REALTIME);
}

void mds_clock_backoff(double waited_s)
{
    const struct timespec nap = {.tv_nsec = 20000};

    if (waited_s < 50e-6)
        sched_yield();
    else
        nanosleep(&nap, NULL);
}
