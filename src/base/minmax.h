/* SPDX-License-Identifier: BSD-3-Clause */
/* Minimum, maximum, and rounding up to a multiple. */
#ifndef MDS_BASE_MINMAX_H
#define MDS_BASE_MINMAX_H

#include <stdint.h>

static inline int64_t mds_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t mds_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The smallest multiple of unit >= 1 that is not less than n >= 0. */
static inline int64_t mds_round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

#endif
