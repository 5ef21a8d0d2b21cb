/* SPDX-License-Identifier: BSD-3-Clause */
/* y = x W^T + b and its gradients.  The family of all large matrix products. */
#ifndef MDSK_LINEAR_H
#define MDSK_LINEAR_H

#include "kernels/types.h"

/* y = x W^T + b, and gelu = GELU(y) (activation.h) if that is given
 *
 *   x  [R, in]    dtype        W  [out, in]  dtype
 *   b  [out]      dtype, or NULL for none
 *   y, gelu  [R, out]   dtype; no alias
 *
 * Products are summed in f32.  Whether GELU is taken of y before or after it is rounded
 * to dtype is the backend's choice. */
struct mdsk_linear_fwd {
    int64_t R, in, out;
    enum mdsk_dtype dtype;
    const void *x, *w, *b;
    void *y, *gelu;
};

/* dx = dy W, or, if u is given, dx = dy W * GELU'(u)
 *
 *   dy [R, out]  dtype      W  [out, in]  dtype
 *   dx, u [R, in]   dtype; dx written; no alias */
struct mdsk_linear_bwd_input {
    int64_t R, in, out;
    enum mdsk_dtype dtype;
    const void *dy, *w, *u;
    void *dx;
};

/* dW += dy^T x (dW = dy^T x if `write`),  db += column sums of dy
 *
 *   x  [R, in]    dtype       dy [R, out]  dtype
 *   dW [out, in]  f32, added to or written
 *   db [out]      f32, added to, or NULL for none */
struct mdsk_linear_bwd_weight {
    int64_t R, in, out;
    enum mdsk_dtype dtype;
    int write;
    const void *x, *dy;
    float *dw, *db;
};

#endif
