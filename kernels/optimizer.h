/* SPDX-License-Identifier: BSD-3-Clause */
/* The optimizer's update of the weights. */
#ifndef MDSK_OPTIMIZER_H
#define MDSK_OPTIMIZER_H

#include "kernels/types.h"

enum { MDSK_ADAMW_SPANS = 24 }; /* at most, per call */

/* AdamW on n consecutive weights:
 *   g  = grad * grad_scale
 *   m  = beta1 m + (1 - beta1) g
 *   v  = beta2 v + (1 - beta2) g^2
 *   w  = w - lr * weight_decay * w
 *          - lr * (m / correction1) / (sqrt(v / correction2) + eps)
 * The weights are divided into non-empty spans without gaps: span s ends before element
 * span_end[s], the last one before n.  If bit s of decays is not set, weight_decay is 0
 * for span s.  If bit s of wide is set, lr and eps are divided by width for it.
 *
 *   master, m, v  [n]  f32, in place     grad  [n]  f32
 *   weight        [n]  dtype, out: master rounded; NULL if master is the weight
 *
 * correction1 = 1 - beta1^t, correction2 = 1 - beta2^t at step t, counted from 1.
 * grad_scale is the factor of clipping and loss scale.
 * Source: Loshchilov, Hutter 2017, arXiv:1711.05101. */
struct mdsk_adamw {
    int64_t n;
    float lr, beta1, beta2, eps, weight_decay;
    float correction1, correction2, grad_scale;
    int spans; /* 1 .. MDSK_ADAMW_SPANS */
    uint32_t decays, wide;
    float width;
    int64_t span_end[MDSK_ADAMW_SPANS];
    float *master, *m, *v;
    const float *grad;
    enum mdsk_dtype dtype;
    void *weight;
};

/* Muon's momentum, and the direction in which a matrix is to move, on n consecutive
 * weights:
 *   g = grad * grad_scale
 *   m = beta m + (1 - beta) g
 *   d = beta m + (1 - beta) g if nesterov, else m
 *
 *   m  [n]  f32, in place     grad  [n]  f32     d  [n]  f32, out; no alias
 *
 * Source: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon. */
struct mdsk_muon_momentum {
    int64_t n;
    float beta, grad_scale;
    int nesterov;
    float *m, *d;
    const float *grad;
};

/* Products of Newton-Schulz, with a multiple of a matrix added:
 *   y = alpha x w + beta z     for each of `batch` products
 *
 *   x  [batch, m, k], or [batch, k, m] if flip_x: transposed
 *   w  [batch, k, n], or [batch, n, k] if flip_w
 *   z, y  [batch, m, n]; z NULL: 0; y is none of the others
 *
 * All of dtype; summed in f32, and rounded once. */
struct mdsk_muon_product {
    int64_t batch, m, n, k;
    int flip_x, flip_w;
    enum mdsk_dtype dtype;
    float alpha, beta;
    const void *x, *w, *z;
    void *y;
};

/* w = w - lr * weight_decay * w - rate * o  on n consecutive weights
 *
 *   master  [n]  f32, in place     o  [n]  type of o
 *   weight  [n]  dtype, out: master rounded; NULL if master is the weight */
struct mdsk_muon_step {
    int64_t n;
    float lr, weight_decay, rate;
    float *master;
    const void *o;
    enum mdsk_dtype o_dtype, dtype;
    void *weight;
};

#endif
