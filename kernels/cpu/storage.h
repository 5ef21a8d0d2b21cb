/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers as they are stored, f32 or 16 bits, beside the f32 that the cpu backend
 * computes in.
 *
 * A kernel asks for a piece of a tensor as f32 and gets the tensor itself where that is
 * f32, else a converted copy in memory it brings along (`room`, which f32 leaves
 * alone). What it wrote to a piece it puts: that rounds, once, and does nothing where
 * the piece is the tensor. */
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
                                   int64_t n, float *room)
{
    if (t == MDSK_F32)
        return (const float *)x + at;
    mdsk_widen(t, x, at, n, room);
    return room;
}

/* y[at .. at+n-1] to change, then to put. */
MDSK_INLINE float *mdsk_edit(enum mdsk_dtype t, void *y, int64_t at, int64_t n,
                             float *room)
{
    if (t == MDSK_F32)
        return (float *)y + at;
    mdsk_widen(t, y, at, n, room);
    return room;
}

/* y[at ..] to fill, then to put. */
MDSK_INLINE float *mdsk_fill(enum mdsk_dtype t, void *y, int64_t at, float *room)
{
    return t == MDSK_F32 ? (float *)y + at : room;
}

MDSK_INLINE void mdsk_put(enum mdsk_dtype t, const float *piece, int64_t n, void *y,
                          int64_t at)
{
    if (t != MDSK_F32)
        mdsk_narrow(t, piece, n, y, at);
}

/* Floats of room for n elements: none where the tensor itself serves. */
MDSK_INLINE int64_t mdsk_room(enum mdsk_dtype t, int64_t n)
{
    return t == MDSK_F32 ? 0 : n;
}

/* Element by element, 16 bits go in pieces that a cache next to the core holds, with
 * room for one on the stack; f32 goes whole. */
enum { MDSK_PIECE = 1024 };

MDSK_INLINE int64_t mdsk_step(enum mdsk_dtype t, int64_t n)
{
    return t == MDSK_F32 || n < MDSK_PIECE ? n : MDSK_PIECE;
}

#endif
