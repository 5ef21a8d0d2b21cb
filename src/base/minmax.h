/* SPDX-License-Identifier: BSD-3-Clause */
/* Minimum, maximum, rounding up, and the greatest common divisor. */
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

/* a / b rounded up, of a >= 0 and b >= 1. */
static inline int64_t mds_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* The smallest multiple of unit >= 1 that is not less than n >= 0. */
static inline int64_t mds_round_up(int64_t n, int64_t unit)
{
    return mds_ceil_div(n, unit) * unit;
}

/* The greatest common divisor, of a >= 1 and b >= 0. */
static inline int64_t mds_gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

#endif
