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
 * for span s.
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
    uint32_t decays;
    int64_t span_end[MDSK_ADAMW_SPANS];
    float *master, *m, *v;
    const float *grad;
    enum mdsk_dtype dtype;
    void *weight;
};

#endif
