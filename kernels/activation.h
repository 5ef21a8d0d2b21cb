/* SPDX-License-Identifier: BSD-3-Clause */
/* The activation functions of the MLP. */
#ifndef MDSK_ACTIVATION_H
#define MDSK_ACTIVATION_H

#include "kernels/types.h"

/* All of them: X(NAME, name, gated, other names).  kernels/README.md says how to add
 * one.  The first is the default.
 *
 *   name         its option is model.name
 *   gated        the MLP computes f(gate) * up, with two linears
 *   other names  of f in transformers (ACT2FN), each between spaces; exports use the
 *                first
 *
 * GELU         0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): Hendrycks, Gimpel 2016,
 *              arXiv:1606.08415
 * SWIGLU       silu(gate) * up, silu(g) = g / (1 + exp(-g)): Shazeer 2020,
 *              arXiv:2002.05202
 * SQUARED_RELU  max(x, 0)^2: So et al. 2021, arXiv:2109.08668
 * EXACT_GELU    x Phi(x) = 0.5 x (1 + erf(x / sqrt(2))), which GELU approximates: the
 *               same source */
#define MDSK_ACTIVATIONS(X)                                                            \
    X(GELU, gelu, 0, " gelu_new gelu_pytorch_tanh gelu_fast ")                         \
    X(SWIGLU, swiglu, 1, " silu ")                                                     \
    X(SQUARED_RELU, squared_relu, 0, " relu2 ")                                        \
    X(EXACT_GELU, exact_gelu, 0, " gelu gelu_python ")

enum mdsk_activation_kind {
#define MDSK_KIND(NAME, ...) MDSK_##NAME,
    MDSK_ACTIVATIONS(MDSK_KIND)
#undef MDSK_KIND
        MDSK_ACTIVATION_KINDS
};

struct mdsk_activation {
    const char *name;
    int gated;
    const char *other_names;
};

static inline const struct mdsk_activation *
mdsk_activation_of(enum mdsk_activation_kind kind)
{
    static const struct mdsk_activation of[] = {
#define MDSK_ROW(NAME, name, gated, other_names) {#name, gated, other_names},
        MDSK_ACTIVATIONS(MDSK_ROW)
#undef MDSK_ROW
    };

    return &of[kind];
}

/* y = f(x)
 *
 *   x  [R, F]; gated [R, 2F]: each row F of gate, then F of up   dtype
 *   y  [R, F]; no alias                                          dtype */
struct mdsk_activation_fwd {
    enum mdsk_activation_kind kind;
    int64_t R, F;
    enum mdsk_dtype dtype;
    const void *x;
    void *y;
};

/* dx = dy * f'(x)
 *
 *   x  as forward;  dy [R, F];  dx like x, written; dx may be x, or (not gated) dy
 *   amax  [1]  written: the largest magnitude of dx as stored, for fp8.h; NULL: none */
struct mdsk_activation_bwd {
    enum mdsk_activation_kind kind;
    int64_t R, F;
    enum mdsk_dtype dtype;
    const void *x, *dy;
    void *dx;
    uint32_t *amax;
};

/* Elements of x. */
static inline int64_t mdsk_activation_inputs(enum mdsk_activation_kind kind, int64_t R,
                                             int64_t F)
{
    return (mdsk_activation_of(kind)->gated ? 2 : 1) * R * F;
}

#endif
