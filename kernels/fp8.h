/* SPDX-License-Identifier: BSD-3-Clause */
/* GEMMs of 8-bit floating-point numbers (FP8), and the cast to them.
 *
 *   E4M3  1 sign, 4 exponent, 3 fraction bits: up to 448, no infinity
 *   E5M2  1 sign, 5 exponent, 2 fraction bits: up to 57344; the upper byte of an f16
 *
 * A tensor is stored as codes with one scale: an element is code * *scale.  The scale
 * is the smallest power of two with which the largest magnitude can be represented.
 * Codes of two scales then differ in the exponent only, so an element that is normal
 * with both has the same value: it does not matter which other elements are in the
 * tensor.
 * Source: Micikevicius et al. 2022, arXiv:2209.05433. */
#ifndef MDSK_FP8_H
#define MDSK_FP8_H

#include "kernels/activation.h"
#include "kernels/half.h"
#include "kernels/types.h"

/* ---- the formats ---- */

MDSK_INLINE float mdsk_e4m3_to_f32(uint8_t code)
{
    uint32_t magnitude = code & 0x7fu, sign = (uint32_t)(code & 0x80u) << 24;
    uint32_t normal = (magnitude << 20) + (120u << 23);
    uint32_t subnormal = mdsk_f32_bits((float)(int32_t)magnitude * 0x1p-9f);
    uint32_t bits = magnitude < 0x08u ? subnormal : normal;

    return mdsk_f32_of_bits(sign | (magnitude == 0x7fu ? 0x7fc00000u : bits));
}

MDSK_INLINE float mdsk_e5m2_to_f32(uint8_t code)
{
    return mdsk_f16_to_f32((uint16_t)(code << 8));
}

/* Rounded to nearest, ties to even, to `fraction` bits below a leading one, with
 * exponents of at least `least`; larger numbers than 1.75 * 2^top, infinity too, become
 * that. */
MDSK_INLINE uint8_t mdsk_f32_to_fp8(float x, int fraction, int least, int top)
{
    uint32_t u = mdsk_f32_bits(x), sign = u >> 24 & 0x80u, a = u & 0x7fffffffu;
    int drop = 23 - fraction;
    uint32_t half = (1u << (drop - 1)) - 1, offset = (uint32_t)(least + 126) << 23;
    uint32_t normal = (a - offset + half + (a >> drop & 1)) >> drop;
    /* its last place is the smallest code, so the sum rounds as codes do */
    uint32_t large = (uint32_t)(127 + least + drop) << 23;
    uint32_t subnormal =
        mdsk_f32_bits(mdsk_f32_of_bits(a) + mdsk_f32_of_bits(large)) - large;
    uint32_t bits = a < (uint32_t)(127 + least) << 23 ? subnormal : normal;
    uint32_t most = ((uint32_t)(127 + top) << 23) + 0x600000u;

    bits = a >= most ? (most - offset) >> drop : bits;
    return (uint8_t)(sign | (a > 0x7f800000u ? 0x7fu : bits));
}

MDSK_INLINE uint8_t mdsk_f32_to_e4m3(float x)
{
    return mdsk_f32_to_fp8(x, 3, -6, 8);
}

MDSK_INLINE uint8_t mdsk_f32_to_e5m2(float x)
{
    return mdsk_f32_to_fp8(x, 2, -14, 15);
}

/* What a tensor is multiplied by before it is rounded, from the bits of its largest
 * magnitude: the largest power of two after which that is in the format.  1 if all is
 * 0.  NaN if an element is not finite: then no result of a GEMM is finite, either. */
MDSK_INLINE float mdsk_fp8_factor(enum mdsk_dtype to, uint32_t amax)
{
    int top = to == MDSK_E4M3 ? 8 : 15; /* the largest number is 1.75 * 2^top */
    int e = top + 127 - (int)(amax >> 23) - ((amax & 0x7fffffu) > 0x600000u);
    uint32_t bits = (uint32_t)(127 + (e > 126 ? 126 : e)) << 23;

    bits = amax == 0 ? 127u << 23 : bits;
    return mdsk_f32_of_bits(amax >= 0x7f800000u ? 0x7fc00000u : bits);
}

/* Codes in a row of n elements: padded with zeros, as tensor cores read 16 at a time.
 */
MDSK_INLINE int64_t mdsk_fp8_ld(int64_t n)
{
    return (n + 15) / 16 * 16;
}

/* ---- operations ---- */

/* Codes of x, and of x transposed; and sum += column sums of x.  One read of x finds
 * the largest magnitude, unless that is known; a second one writes the codes, and on
 * GPUs sums.  activated: what is cast is f(x) of `kind` (activation.h), rounded to
 * dtype as if it were stored; each read computes it.
 *
 *   x      [R, C]      dtype; as f takes it if `activated`
 *   rows   [R, ld(C)]  codes of type `to`, or NULL for none
 *   cols   [C, ld(R)]  the same of x transposed, or NULL for none
 *   scale  [1]         f32, written
 *   amax   [1]         bits of the largest magnitude of what is cast, as an f32:
 *                      written, or with `amax_known` read; NULL: not kept
 *   sum    [C]         f32, added to, or NULL for none; NULL if `activated`
 *
 * to: MDSK_E4M3 or MDSK_E5M2; ld: mdsk_fp8_ld.  rows, cols and scale are aligned to 16
 * bytes. */
struct mdsk_fp8_cast {
    int64_t R, C;
    enum mdsk_dtype dtype, to;
    const void *x;
    void *rows, *cols;
    float *scale, *sum;
    uint32_t *amax;
    int amax_known;
    int activated;
    enum mdsk_activation_kind kind;
};

/* Elements of x. */
static inline int64_t mdsk_fp8_cast_inputs(const struct mdsk_fp8_cast *a)
{
    return a->activated ? mdsk_activation_inputs(a->kind, a->R, a->C) : a->R * a->C;
}

/* An operand: codes [rows, ld(K)] of type E4M3 or E5M2, and their scale. */
struct mdsk_fp8_operand {
    enum mdsk_dtype type;
    const void *code;
    const float *scale;
};

/* y = a b^T + bias, or y += a b^T (`add`)
 *
 *   a     [M, ld(K)]  codes      b  [N, ld(K)]  codes; not both E5M2
 *   bias  [N]         dtype, or NULL for none; NULL with f32
 *   y     [M, N]      dtype: f32, bf16, f16; add: f32 only
 *
 * `fast` allows sums along K in fewer bits than f32 has (on Hopper about 14).
 * On GPUs N is a multiple of 16. */
struct mdsk_fp8_gemm {
    int64_t M, N, K;
    enum mdsk_dtype dtype;
    int fast, add;
    struct mdsk_fp8_operand a, b;
    const void *bias;
    void *y;
};

#endif
