/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions in headers that host and device code share. */
#ifndef MDSK_INLINE_H
#define MDSK_INLINE_H

#include <stdint.h>

#ifdef __CUDACC__
#define MDSK_INLINE static __host__ __device__ inline
#else
#define MDSK_INLINE static inline __attribute__((always_inline))
#endif

/* a / b rounded up, of a >= 0 and b >= 1. */
MDSK_INLINE int64_t mdsk_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

#endif
