/* SPDX-License-Identifier: BSD-3-Clause */
/* The lesser and the greater of two. */
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

#endif
