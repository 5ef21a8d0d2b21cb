/* SPDX-License-Identifier: BSD-3-Clause */
/* y = x W^T + b and its gradients: all large GEMMs of a model. */
#ifndef MDSK_LINEAR_H
#define MDSK_LINEAR_H

#include "kernels/activation.h"
#include "kernels/types.h"

/* y = x W^T + b; and gelu = GELU(y) (activation.h) unless gelu is NULL
 *
 *   x  [R, in]    dtype        W  [out, in]  dtype
 *   b  [out]      dtype, or NULL for none
 *   y, gelu  [R, out]   dtype; no alias
 *
 * Sums are in f32.  Each backend may compute GELU from y before or after y is rounded
 * to dtype.  by_rows: on CPUs a row of y has the same bits whatever other rows there
 * are, which OpenBLAS does not promise.  On GPUs one row alone is then computed by a
 * kernel that may read w before what was queued before it is done. */
struct mdsk_linear_fwd {
    int64_t R, in, out;
    enum mdsk_dtype dtype;
    int by_rows;
    const void *x, *w, *b;
    void *y, *gelu;
};

/* What writes gelu once y is there. */
static inline struct mdsk_activation_fwd
mdsk_linear_gelu_fwd(const struct mdsk_linear_fwd *a)
{
    struct mdsk_activation_fwd act = {MDSK_GELU, a->R, a->out, a->dtype, a->y, a->gelu};

    return act;
}

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

/* What makes dx of dy W, which is in dx on entry. */
static inline struct mdsk_activation_bwd
mdsk_linear_gelu_bwd(const struct mdsk_linear_bwd_input *a)
{
    struct mdsk_activation_bwd act = {MDSK_GELU, a->R,  a->in, a->dtype,
                                      a->u,      a->dx, a->dx, NULL};

    return act;
}

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
