/* SPDX-License-Identifier: BSD-3-Clause */
/* y = x W^T + b and its gradients: all large GEMMs of a model. */
#ifndef MDSK_LINEAR_H
#define MDSK_LINEAR_H

#include "kernels/types.h"

/* y = x W^T + b; and gelu = GELU(y) (activation.h) unless gelu is NULL
 *
 *   x  [R, in]    dtype        W  [out, in]  dtype
 *   b  [out]      dtype, or NULL for none
 *   y, gelu  [R, out]   dtype; no alias
 *
 * Sums are in f32.  Each backend may compute GELU from y before or after y is rounded
 * to dtype. */
struct mdsk_linear_fwd {
    int64_t R, in, out;
    enum mdsk_dtype dtype;
    const void *x, *w, *b;
    void *y, *gelu;
};

/* dx = dy W; or, unless u is NULL, dx = dy W * GELU'(u)
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
