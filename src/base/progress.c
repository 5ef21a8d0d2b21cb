/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/progress.h"

#include "base/clock.h"

static const double first_s = 2, every_s = 10;

struct mds_progress mds_progress_begin(void)
{
    return (struct mds_progress){.next_s = mds_clock_s() + first_s};
}

struct mds_progress mds_progress_doubling(double first)
{
    double now = mds_clock_s();

    return (struct mds_progress){.next_s = now + first, .began_s = now};
}

int mds_progress_is_due(struct mds_progress *p)
{
    double now = mds_clock_s();

    if (now < p->next_s)
        return 0;
    p->next_s = now + (p->began_s > 0 ? now - p->began_s : every_s);
    return 1;
}
