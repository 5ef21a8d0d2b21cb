/* The update of the weights. */
#ifndef MDSK_OPTIMIZER_H
#define MDSK_OPTIMIZER_H

#include "kernels/types.h"

/* AdamW on n consecutive weights:
 *   g  = grad * grad_scale
 *   m  = beta1 m + (1 - beta1) g
 *   v  = beta2 v + (1 - beta2) g^2
 *   w  = w - lr * weight_decay * w
 *          - lr * (m / correction1) / (sqrt(v / correction2) + eps)
 *
 *   master, m, v  [n]  f32, in place     grad  [n]  f32
 *   weight        [n]  dtype, out: master rounded; NULL where master is the weight
 *
 * correction1 = 1 - beta1^t, correction2 = 1 - beta2^t at step t, counted from 1.
 * grad_scale carries clipping and loss scale.
 * Source: Loshchilov, Hutter 2017, arXiv:1711.05101. */
struct mdsk_adamw {
    int64_t n;
    float lr, beta1, beta2, eps, weight_decay;
    float correction1, correction2, grad_scale;
    float *master, *m, *v;
    const float *grad;
    enum mdsk_dtype dtype;
    void *weight;
};

struct mdsk_cost mdsk_adamw_cost(const struct mdsk_adamw *a);
int mdsk_adamw_cpu(void *stream, const struct mdsk_adamw *a);

#endif
