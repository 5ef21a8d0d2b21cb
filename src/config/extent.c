/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/extent.h"

const char *const mds_unit_names[MDS_UNITS] = {"steps", "samples", "tokens"};

struct mds_extent mds_extent_after(const struct mds_extent *done,
                                   const struct mds_extent *step, int64_t steps)
{
    struct mds_extent after = *done;

    for (int u = 0; u < MDS_UNITS; u++)
        after.in[u] += steps * step->in[u];
    return after;
}

enum mds_unit mds_extent_unit(const struct mds_extent *length)
{
    int u = 0;

    while (u < MDS_UNITS && length->in[u] == 0)
        u++;
    return (enum mds_unit)u;
}

static int64_t steps_left_in(enum mds_unit u, int64_t length, int64_t done,
                             int64_t step)
{
    if (length <= done)
        return 0;
    if (u == MDS_SAMPLES)
        return done == 0 && length < step ? 1 : (length - done) / step;
    return (length - done) / step + ((length - done) % step != 0);
}

int64_t mds_steps_left(const struct mds_extent *length, const struct mds_extent *done,
                       const struct mds_extent *step)
{
    int64_t least = 0;
    int any = 0;

    for (int u = 0; u < MDS_UNITS; u++) {
        int64_t left;

        if (length->in[u] == 0)
            continue;
        left = steps_left_in((enum mds_unit)u, length->in[u], done->in[u], step->in[u]);
        least = !any || left < least ? left : least;
        any = 1;
    }
    return least;
}
