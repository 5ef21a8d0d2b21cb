/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on elements, one at a time. */
#ifndef MDSK_ELEMENTWISE_H
#define MDSK_ELEMENTWISE_H

#include "kernels/types.h"

/* y = x * mask / (1 - p).  The backward pass is the same call on the gradient.
 *
 *   x, y  [rows.S * rows.B, H]  dtype; y may be x
 *
 * Element h of row s*B+b takes word h % 4 of mdsk_dropout_block(seed, site, step,
 * rows.first_sample + b, rows.first_token + s, h / 4); it is kept if that is at least
 * mdsk_dropout_threshold(p).  key.p > 0. */
struct mdsk_dropout {
    struct mdsk_rows rows;
    int64_t H;
    enum mdsk_dtype dtype;
    struct mdsk_dropout_key key;
    const void *x;
    void *y;
};

/* y[r*ldy + c] = x[r*ldx + c],  r < R, c < C;  dtype any; no alias.  Used to pack
 * and unpack shards of rows for messages. */
struct mdsk_copy_rows {
    int64_t R, C, ldx, ldy;
    enum mdsk_dtype dtype;
    const void *x;
    void *y;
};

/* y = x in another type, rounded to nearest even;  n elements, x of type from, y of
 * type to, both f32, bf16 or f16; no alias. */
struct mdsk_cast {
    int64_t n;
    enum mdsk_dtype from, to;
    const void *x;
    void *y;
};

/* y += x, or y = x + z if z is given;  n elements of dtype; x and z may be y. */
struct mdsk_add {
    int64_t n;
    enum mdsk_dtype dtype;
    const void *x;
    void *y;
    const void *z;
};

/* y = (a x + b y) / max(sqrt(*squares), 1e-7), or without the division if squares is
 * NULL; without a x if x is NULL.  If b is 0, y is not read.
 *
 *   x  [n]  type from     y  [n]  type to     squares  f64, or NULL; no alias */
struct mdsk_axpby {
    int64_t n;
    enum mdsk_dtype from, to;
    float a, b;
    const double *squares;
    const void *x;
    void *y;
};

/* *sum += sum of x[i]^2 in f64, in an order that depends on n alone;  x f32. */
struct mdsk_sum_squares {
    int64_t n;
    const float *x;
    double *sum;
};

#endif
