/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversion between f32 and the two 16-bit formats.
 *
 *   bf16  1 sign, 8 exponent, 7 fraction bits: the upper half of an f32
 *   f16   1 sign, 5 exponent, 10 fraction bits: IEEE 754 binary16
 *
 * Conversion to 16 bits rounds to nearest, ties to even.  Overflow gives infinity, NaN
 * stays NaN (quiet, with its sign and the upper bits of the payload), and subnormal
 * numbers are preserved.  Conversion from 16 bits is exact.  There are no branches, so
 * that loops over these functions can be vectorised. */
#ifndef MDSK_HALF_H
#define MDSK_HALF_H

#include <stdint.h>
#include <string.h>

#include "kernels/inline.h"

MDSK_INLINE uint32_t mdsk_f32_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

MDSK_INLINE float mdsk_f32_of_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

MDSK_INLINE float mdsk_bf16_to_f32(uint16_t h)
{
    return mdsk_f32_of_bits((uint32_t)h << 16);
}

MDSK_INLINE uint16_t mdsk_f32_to_bf16(float x)
{
    uint32_t u = mdsk_f32_bits(x);
    uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1)) >> 16;
    uint32_t nan = u >> 16 | 0x40u;

    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

/* Exponents of f32 are 112 above those of f16. */
MDSK_INLINE float mdsk_f16_to_f32(uint16_t h)
{
    uint32_t magnitude = h & 0x7fffu, sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t normal = (magnitude << 13) + (112u << 23);
    uint32_t special = normal + (112u << 23); /* infinity, NaN */
    uint32_t subnormal = mdsk_f32_bits((float)(int32_t)magnitude * 0x1p-24f);
    uint32_t bits = magnitude >= 0x7c00u ? special : normal;

    return mdsk_f32_of_bits(sign | (magnitude < 0x0400u ? subnormal : bits));
}

MDSK_INLINE uint16_t mdsk_f32_to_f16(float x)
{
    uint32_t u = mdsk_f32_bits(x), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
    uint32_t normal = (a - (112u << 23) + 0x0fffu + (a >> 13 & 1)) >> 13;
    /* the last place of 0.5f is the smallest f16, so the sum rounds as f16 does */
    uint32_t subnormal = mdsk_f32_bits(mdsk_f32_of_bits(a) + 0.5f) - 0x3f000000u;
    uint32_t nan = 0x7e00u | (a >> 13 & 0x01ffu);
    uint32_t bits = a < 0x38800000u ? subnormal : normal; /* 2^-14 */

    bits = a >= 0x47800000u ? 0x7c00u : bits; /* 2^16 */
    return (uint16_t)(sign | (a > 0x7f800000u ? nan : bits));
}

#endif
