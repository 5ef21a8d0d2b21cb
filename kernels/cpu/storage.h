/* SPDX-License-Identifier: BSD-3-Clause */
/* Access to tensors stored in f32, 16 or 8 bits for the cpu backend, which computes in
 * f32.
 *
 * A kernel reads a part of a tensor as f32.  For f32 tensors it gets the tensor itself;
 * otherwise a converted copy in `scratch`, which the caller provides and which f32 does
 * not use.  After writing, mdsk_put rounds the copy once and stores it; for f32 tensors
 * it does nothing. */
#ifndef MDSK_CPU_STORAGE_H
#define MDSK_CPU_STORAGE_H

#include "kernels/inline.h"
#include "kernels/types.h"

/* y[0..n-1] = x[at ..] of type t */
void mdsk_widen(enum mdsk_dtype t, const void *x, int64_t at, int64_t n, float *y);

/* y[at ..] of type t = x[0..n-1], rounded to nearest even */
void mdsk_narrow(enum mdsk_dtype t, const float *x, int64_t n, void *y, int64_t at);

/* x[at .. at+n-1] to read. */
MDSK_INLINE const float *mdsk_read(enum mdsk_dtype t, const void *x, int64_t at,
                                   int64_t n, float *scratch)
{
    if (t == MDSK_F32)
        return (const float *)x + at;
    mdsk_widen(t, x, at, n, scratch);
    return scratch;
}

/* y[at .. at+n-1] to read and change; then call mdsk_put. */
MDSK_INLINE float *mdsk_edit(enum mdsk_dtype t, void *y, int64_t at, int64_t n,
                             float *scratch)
{
    if (t == MDSK_F32)
        return (float *)y + at;
    mdsk_widen(t, y, at, n, scratch);
    return scratch;
}

/* y[at ..] to write only; then call mdsk_put. */
MDSK_INLINE float *mdsk_fill(enum mdsk_dtype t, void *y, int64_t at, float *scratch)
{
    return t == MDSK_F32 ? (float *)y + at : scratch;
}

MDSK_INLINE void mdsk_put(enum mdsk_dtype t, const float *x, int64_t n, void *y,
                          int64_t at)
{
    if (t != MDSK_F32)
        mdsk_narrow(t, x, n, y, at);
}

/* The larger of `most` and the largest magnitude of n numbers, as bits: those of NaN
 * are larger than those of infinity. */
uint32_t mdsk_amax(int64_t n, const float *x, uint32_t most);

/* *amax = the largest magnitude of numbers as stored: rounding keeps their order.
 * Nothing if amax is NULL. */
void mdsk_put_amax(enum mdsk_dtype t, uint32_t most, uint32_t *amax);

/* Floats of scratch for n elements; 0 for f32. */
MDSK_INLINE int64_t mdsk_staging_floats(enum mdsk_dtype t, int64_t n)
{
    return t == MDSK_F32 ? 0 : n;
}

/* Element-wise kernels process 16-bit tensors in steps of this many elements, with the
 * scratch on the stack and in L1; f32 tensors in one step. */
enum { MDSK_STAGING = 1024 };

MDSK_INLINE int64_t mdsk_step(enum mdsk_dtype t, int64_t n)
{
    return t == MDSK_F32 || n < MDSK_STAGING ? n : MDSK_STAGING;
}

#endif
