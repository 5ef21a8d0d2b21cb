/* SPDX-License-Identifier: BSD-3-Clause */
/* Rotary position embedding. */
#ifndef MDSK_ROPE_H
#define MDSK_ROPE_H

#include "kernels/attention.h"

/* Rotates each head of x in place: for i < rot/2 and t = position * frequency[i], the
 * pair (x[i], x[i + rot/2]) becomes
 * (x[i] cos t - x[i + rot/2] sin t, x[i + rot/2] cos t + x[i] sin t) scale.  Elements
 * from rot on are unchanged.  inverse has -t for t, which is the backward pass.
 *
 *   x          [B,S,A,D]  dtype, in place;  rot even, 2 <= rot <= D
 *   frequency  [rot/2]    f64, radians a token; in host memory on every backend, and
 *                         read before the call returns
 *
 *   start      [S,B]  i32, or NULL for 0: the token whose position is 0
 *
 * The position of token s of sequence b is first_token + s - start[s B + b].  scale is
 * 1, or multiplies cos and sin (YaRN's attention factor).
 *
 * Angles are computed in f64 and rounded once, so that position 10^6 is as exact as 0.
 * Source: Su, Lu, Pan, Murtadha, Wen, Liu 2021, arXiv:2104.09864 (the half-split
 * pairing of GPT-NeoX and Llama). */
struct mdsk_rope {
    int64_t B, S, A, D, rot;
    int64_t first_token;
    const double *frequency;
    const int32_t *start;
    float scale;
    int inverse;
    enum mdsk_dtype dtype;
    struct mdsk_heads x;
};

#endif
