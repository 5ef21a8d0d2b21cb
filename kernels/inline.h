/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions in headers that host and device code share. */
#ifndef MDSK_INLINE_H
#define MDSK_INLINE_H

#ifdef __CUDACC__
#define MDSK_INLINE static __host__ __device__ inline
#else
#define MDSK_INLINE static inline __attribute__((always_inline))
#endif

#endif
