/* SPDX-License-Identifier: BSD-3-Clause */
/* Rotary position embedding. */
#ifndef MDSK_ROPE_H
#define MDSK_ROPE_H

#include "kernels/attention.h"

/* Rotates each head of x in place: for i < rot/2 and t = (first_token + s) *
 * theta^(-2i/rot), the pair (x[i], x[i + rot/2]) becomes
 * (x[i] cos t - x[i + rot/2] sin t, x[i + rot/2] cos t + x[i] sin t).  Elements from
 * rot on are unchanged.  inverse rotates by -t, which is the backward pass.
 *
 *   x  [B,S,A,D]  dtype, in place;  rot even, 2 <= rot <= D
 *
 * Angles are computed in f64 and rounded once, so that position 10^6 is as exact as 0.
 * Source: Su, Lu, Pan, Murtadha, Wen, Liu 2021, arXiv:2104.09864 (the half-split
 * pairing of GPT-NeoX and Llama). */
struct mdsk_rope {
    int64_t B, S, A, D, rot;
    int64_t first_token;
    double theta;
    int inverse;
    enum mdsk_dtype dtype;
    struct mdsk_heads x;
};

#endif
