/* SPDX-License-Identifier: BSD-3-Clause */
/* Elementary functions for vectorised loops over floats. */
#ifndef MDSK_CPU_VMATH_H
#define MDSK_CPU_VMATH_H

#include <stdint.h>

#include "kernels/cpu/cpu.h"

/* exp(x) within 1.5 ulp.  Below the smallest normal float it is 0; above 88.37 it stays
 * at 2.4e38 instead of overflowing; NaN stays NaN.
 *
 * exp(x) = 2^n exp(r), |r| <= ln(2)/2, with ln(2) in two parts so that n * ln(2) is
 * exact (Cody, Waite 1980); exp(r) - 1 - r is r^2 times a polynomial fitted to the
 * relative error (3e-9). */
MDSK_INLINED float mdsk_expf(float x)
{
    const float low = -87.33f, high = 88.37f, round = 0x1.8p23f;
    float c = x < low ? low : x;
    union {
        float f;
        uint32_t bits;
    } pow2;
    float n, r, p;

    c = c > high ? high : c;
    pow2.f = c * 1.44269504f + round; /* n in the low bits */
    n = pow2.f - round;
    r = c - n * 0x1.62e4p-1f;
    r = r - n * 0x1.7f7d1cp-20f;
    p = 0x1.6a2352p-10f;
    p = p * r + 0x1.123a6cp-7f;
    p = p * r + 0x1.5558f4p-5f;
    p = p * r + 0x1.55549p-3f;
    p = p * r + 0x1.fffffcp-2f;
    p = p * (r * r) + r + 1;
    pow2.bits = (pow2.bits + 127) << 23;
    return x < low ? 0 : p * pow2.f;
}

/* 1 / (1 + exp(-x)), and in *other its complement, each to full relative precision
 * where it is not below 1e-38. */
MDSK_INLINED float mdsk_sigmoid(float x, float *other)
{
    float e = mdsk_expf(-x);
    float s = 1 / (1 + e);

    *other = e * s;
    return s;
}

/* The normal distribution's Phi(x), within 1e-7 (below 0 within 1e-6 of itself), and in
 * *density phi(x).  For t = |x|, Phi(-t) is exp(-t^2 / 2) times a polynomial in
 * s = 1 / (1 + 0.27 t), as in Abramowitz, Stegun 1964, 26.2.17, here with nine terms
 * fitted to the relative error (2.4e-8 for t < 13). */
MDSK_INLINED float mdsk_normal(float x, float *density)
{
    float t = x < 0 ? -x : x, s = 1 / (1 + 0.27f * t), e = mdsk_expf(-0.5f * x * x);
    float p;

    p = 0x1.d8c47ap-6f;
    p = p * s - 0x1.01f3e6p-3f;
    p = p * s + 0x1.596114p-3f;
    p = p * s - 0x1.15e448p-4f;
    p = p * s + 0x1.b59a12p-4f;
    p = p * s + 0x1.28eeb8p-4f;
    p = p * s + 0x1.a08648p-4f;
    p = p * s + 0x1.b8919ep-4f;
    p = p * s + 0x1.b93820p-4f;
    p *= s * e;
    *density = 0.3989422804f * e;
    return x < 0 ? p : 1 - p;
}

/* cos and sin of t (radians, |t| < 1e9) by reduction modulo pi/2 in three parts and
 * Taylor polynomials: 1e-11 for |t| < 1e6, where a float keeps 6e-8. */
MDSK_INLINED void mdsk_cos_sin(double t, float *c, float *s)
{
    const double round = 0x1.8p52;
    double n = (t * 0x1.45f306dc9c883p-1 + round) - round;
    double r =
        ((t - n * 0x1.921fb544p+0) - n * 0x1.0b4611a6p-34) - n * 0x1.3198a2e037073p-69;
    int32_t quarter = (int32_t)n & 3;
    double z = r * r;
    double sr, cr, x, y;

    sr = ((((-z / 39916800 + 1.0 / 362880) * z - 1.0 / 5040) * z + 1.0 / 120) * z -
          1.0 / 6) *
             (z * r) +
         r;
    cr = (((((z / 479001600 - 1.0 / 3628800) * z + 1.0 / 40320) * z - 1.0 / 720) * z +
           1.0 / 24) *
              z -
          0.5) *
             z +
         1;
    x = quarter & 1 ? sr : cr;
    y = quarter & 1 ? cr : sr;
    *c = (float)((quarter + 1) & 2 ? -x : x);
    *s = (float)(quarter & 2 ? -y : y);
}

#endif
