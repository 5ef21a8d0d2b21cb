/* SPDX-License-Identifier: BSD-3-Clause */
/* The nonlinearity of the MLP. */
#ifndef MDSK_ACTIVATION_H
#define MDSK_ACTIVATION_H

#include "kernels/types.h"

enum mdsk_activation_kind {
    MDSK_GELU,   /* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
    MDSK_SWIGLU, /* silu(gate) * up, silu(g) = g / (1 + exp(-g)) */
};

/* y = f(x)
 *
 *   x  [R, F] in GELU; [R, 2F] in SWIGLU: each row F of gate, then F of up   dtype
 *   y  [R, F]; no alias                                                      dtype
 *
 * Sources: Hendrycks, Gimpel 2016, arXiv:1606.08415; Shazeer 2020, arXiv:2002.05202. */
struct mdsk_activation_fwd {
    enum mdsk_activation_kind kind;
    int64_t R, F;
    enum mdsk_dtype dtype;
    const void *x;
    void *y;
};

/* dx = dy * f'(x)
 *
 *   x  as forward;  dy [R, F];  dx like x, written; dx may be x, or (GELU only) dy */
struct mdsk_activation_bwd {
    enum mdsk_activation_kind kind;
    int64_t R, F;
    enum mdsk_dtype dtype;
    const void *x, *dy;
    void *dx;
};

#endif
