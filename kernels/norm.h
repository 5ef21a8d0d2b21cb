/* SPDX-License-Identifier: BSD-3-Clause */
/* LayerNorm and RMSNorm, fused with the residual sum before them. */
#ifndef MDSK_NORM_H
#define MDSK_NORM_H

#include "kernels/types.h"

enum mdsk_norm_kind {
    MDSK_LAYERNORM, /* (x - mean) / sqrt(var + eps) * gamma + beta */
    MDSK_RMSNORM,   /* x / sqrt(mean(x^2) + eps) * gamma */
};

/* Where other ranks have columns of the same rows, a norm is computed in steps, and the
 * ranks add the sums of one step to the totals of the next.
 *
 *                forward                                     backward
 *   SUMS         sums [R] = of x (LayerNorm alone)           sums [R, 2] = of g, g xhat
 *   SQUARES      mean = totals / W, in LayerNorm;
 *                sums [R] = of (x - mean)^2
 *   REST         rstd = 1 / sqrt(totals / W + eps); y        all the rest
 *
 * g = dy gamma, xhat = (x - mean) rstd.  sums and totals are f32; there is no r, amax.
 */
enum mdsk_norm_step {
    MDSK_NORM_WHOLE, /* these are all columns */
    MDSK_NORM_SUMS,
    MDSK_NORM_SQUARES,
    MDSK_NORM_REST
};

struct mdsk_norm_part {
    enum mdsk_norm_step step;
    int64_t W; /* columns of whole rows */
    const float *totals;
    float *sums;
};

/* sum = x + r;  y = normalised(sum) * gamma + beta, for each row.
 *
 *   x            [R, H]  dtype
 *   r            [R, H]  dtype, or NULL: then sum is not written and y normalises x
 *   sum          [R, H]  dtype; may be x or r; NULL if and only if r is
 *   gamma, beta  [H]     dtype; beta is NULL for none (always so in RMSNorm)
 *   y            [R, H]  dtype; no alias; NULL: statistics alone (and no amax)
 *   mean         [R]     f32, saved for the backward pass; NULL or unused in RMSNorm
 *   rstd         [R]     f32, saved for the backward pass: 1 / sqrt(var + eps)
 *   amax         [1]     written: the largest magnitude of y as stored, for fp8.h;
 *                        NULL: none
 *
 * eps > 0.  The variance is the biased one; statistics are f32, of the sum as stored.
 * Sources: Ba, Kiros, Hinton 2016, arXiv:1607.06450; Zhang, Sennrich 2019,
 * arXiv:1910.07467. */
struct mdsk_norm_fwd {
    enum mdsk_norm_kind kind;
    int64_t R, H;
    enum mdsk_dtype dtype;
    float eps;
    const void *x, *r;
    void *sum;
    const void *gamma, *beta;
    void *y;
    float *mean, *rstd;
    uint32_t *amax;
    struct mdsk_norm_part part;
};

/* dx = d + gradient of the norm's input;  dgamma, dbeta += gradients of gamma, beta.
 *
 *   x              [R, H]  dtype, what was normalised (the sum)
 *   gamma          [H]     dtype
 *   mean, rstd     [R]     f32, from the forward pass (mean unused in RMSNorm)
 *   dy             [R, H]  dtype
 *   d              [R, H]  dtype, or NULL for 0: the gradient that the input has,
 *                          as that of a residual stream; may be dx
 *   dx             [R, H]  dtype; no other alias
 *   dgamma, dbeta  [H]     f32, added to; dbeta NULL if beta was */
struct mdsk_norm_bwd {
    enum mdsk_norm_kind kind;
    int64_t R, H;
    enum mdsk_dtype dtype;
    const void *x, *gamma;
    const float *mean, *rstd;
    const void *dy, *d;
    void *dx;
    float *dgamma, *dbeta;
    struct mdsk_norm_part part;
};

#endif
