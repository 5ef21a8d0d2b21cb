/* SPDX-License-Identifier: BSD-3-Clause */
/* A mixture of experts: which experts a token's row goes to, copies of rows in the
 * order of experts, and linear layers of all experts.
 *
 * E experts, k of which take each of R rows, so there are R k copies of rows.  Copies
 * are sorted by expert, and those of an expert by row.
 *
 *   first [E+1]  i32   copies of expert e are first[e] .. first[e+1]-1
 *   to    [R,k]  i32   where the copy of a row for its j-th expert is
 *   from  [R k]  i32   the row of each copy, times k, plus j
 *
 * Shazeer et al. 2017, arXiv:1701.06538; Fedus et al. 2021, arXiv:2101.03961 (balance);
 * Zoph et al. 2022, arXiv:2202.08906 (z-loss). */
#ifndef MDSK_EXPERTS_H
#define MDSK_EXPERTS_H

#include "kernels/activation.h"

enum { MDSK_EXPERTS_MOST = 256 };

/* Added to sums of sigmoids, which may all be 0, as Megatron-LM does. */
#define MDSK_ROUTE_LEAST 1e-20F

/* The logits x W^T, in f32, and the k experts with the largest; of equal ones that of
 * the lower number.
 *
 *   x [R,H]  W [E,H]      dtype
 *   scores [R,E+1]  f32   softmax over all experts, then the log of its sum; or NULL
 *   choice [R,k]    i32   the experts, largest logit first
 *   weight [R,k]    f32   their softmax over all experts if of_all, else over the k;
 *                         times scale, > 0
 *
 * With `sigmoid`, the k with the largest sigmoid of the logit; scores has the logits in
 * place of their softmax; and weights are the sigmoids if of_all, else divided by the
 * sum of the k.
 *
 *   bias [E]        f32   added to sigmoids, for the choice only; or NULL
 *   unbiased [R,k]  i32   the choice as it were without; or NULL
 *
 * DeepSeek-AI 2024, arXiv:2412.19437; Wang et al. 2024, arXiv:2408.15664 (bias). */
struct mdsk_route {
    int64_t R, H, E, k;
    enum mdsk_dtype dtype;
    int of_all, sigmoid;
    float scale;
    const void *x, *w;
    const float *bias;
    float *scores, *weight;
    int32_t *choice, *unbiased;
};

/* first, to and from of choice [R,k]. */
struct mdsk_route_sort {
    int64_t R, E, k;
    const int32_t *choice;
    int32_t *first, *to, *from;
};

/* load[b,e] = how many of the rows b, b + groups, ... go to expert e
 *
 *   choice [R,k]      i32
 *   load [groups,E]   f32, written */
struct mdsk_route_load {
    int64_t R, E, k, groups;
    const int32_t *choice;
    float *load;
};

/* The losses whose gradients route_bwd adds, before their coefficients:
 *
 *   sum[0] += sum over rows r and experts e of load[r % groups, e] * softmax[r,e]
 *   sum[1] += sum over rows of (log of softmax's sum)^2
 *
 * in f64, in an order that depends on shapes alone.  With `sigmoid` the first has each
 * sigmoid's share of their sum in place of the softmax.
 *
 *   scores [R,E+1], load [groups,E]   as in route_bwd
 *   sum [2]   f64 */
struct mdsk_route_losses {
    int64_t R, E, groups;
    int sigmoid;
    const float *scores, *load;
    double *sum;
};

/* From the gradient of weight that of the logits, plus that of
 *
 *   balance * sum over rows r and experts e of load[r % groups, e] * softmax[r,e]
 *   + z * sum over rows of (log of softmax's sum)^2
 *
 * and from it dx += dlogits W, dW += dlogits^T x.  With `sigmoid` the first has each
 * sigmoid's share of their sum in place of the softmax.
 *
 *   scores, choice, weight, of_all, sigmoid, scale, x, W   as forward
 *   dweight [R,k]     f32
 *   load [groups,E]   f32, or NULL if balance is 0
 *   dlogits [R,E]     f32, written
 *   dx [R,H] dtype, dW [E,H] f32, both added to */
struct mdsk_route_bwd {
    int64_t R, H, E, k, groups;
    enum mdsk_dtype dtype;
    int of_all, sigmoid;
    float scale, balance, z;
    const void *x, *w;
    const float *scores, *weight, *dweight, *load;
    const int32_t *choice;
    void *dx;
    float *dlogits, *dw;
};

/* y[c] = x[from[c] / k]:  x [R,H] -> y [R k,H]  dtype */
struct mdsk_dispatch {
    int64_t R, H, k;
    enum mdsk_dtype dtype;
    const int32_t *from;
    const void *x;
    void *y;
};

/* y[r] = sum of x[to[r,j]] over j, in f32 and that order:  x [R k,H] -> y [R,H]  dtype
 */
struct mdsk_combine {
    int64_t R, H, k;
    enum mdsk_dtype dtype;
    const int32_t *to;
    const void *x;
    void *y;
};

/* y[c] = weight[from[c]] f(x[c]), f as in activation.h
 *
 *   x       [R k,F], gated [R k,2F]   dtype
 *   y       [R k,F]; no alias         dtype
 *   weight  [R,k]                     f32
 *   from    or NULL: weight[c], of the copies */
struct mdsk_weigh {
    enum mdsk_activation_kind kind;
    int64_t R, F, k;
    enum mdsk_dtype dtype;
    const int32_t *from;
    const float *weight;
    const void *x;
    void *y;
};

/* dx[c] = weight[from[c]] f'(x[c]) dy[c],  dweight[from[c]] = sum of f(x[c]) dy[c]
 *
 *   x, from  as forward;  dy [R k,F];  dx like x; no alias   dtype
 *   dweight [R,k]  f32, written */
struct mdsk_weigh_bwd {
    enum mdsk_activation_kind kind;
    int64_t R, F, k;
    enum mdsk_dtype dtype;
    const int32_t *from;
    const float *weight;
    const void *x, *dy;
    void *dx;
    float *dweight;
};

/* y = x W^T for the copies of each expert
 *
 *   rows        copies of all experts
 *   w           each expert's W [out,in], the next one `step` elements on  dtype
 *   x [rows,in], y [rows,out]  dtype; no alias */
struct mdsk_experts_fwd {
    int64_t rows, E, in, out, step;
    enum mdsk_dtype dtype;
    int by_rows; /* as in linear.h */
    const int32_t *first;
    const void *w, *x;
    void *y;
};

/* dx = dy W;  dy [rows,out], dx [rows,in]  dtype; no alias */
struct mdsk_experts_bwd_input {
    int64_t rows, E, in, out, step;
    enum mdsk_dtype dtype;
    const int32_t *first;
    const void *w, *dy;
    void *dx;
};

/* dW += dy^T x, or dW = if `write`, also of experts to which no row goes
 *
 *   dw          each expert's dW [out,in], the next one `step` elements on  f32 */
struct mdsk_experts_bwd_weight {
    int64_t rows, E, in, out, step;
    enum mdsk_dtype dtype;
    int write;
    const int32_t *first;
    const void *x, *dy;
    float *dw;
};

#endif
