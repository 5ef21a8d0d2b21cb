/* SPDX-License-Identifier: BSD-3-Clause */
/* The 8-bit formats by their definition, and casts to them, for tests. */
#ifndef TESTS_KERNELS_FP8_FORMATS_H
#define TESTS_KERNELS_FP8_FORMATS_H

#include "tests/kernels/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/fp8.h"

/* `fraction` bits under an exponent of at least `least`; the largest code. */
struct format {
    enum mdsk_dtype type;
    int fraction, least, top;
    uint8_t largest;
    float (*to_f32)(uint8_t code);
    uint8_t (*from_f32)(float x);
};

static inline float e4m3_to(uint8_t code)
{
    return mdsk_e4m3_to_f32(code);
}

static inline uint8_t e4m3_from(float x)
{
    return mdsk_f32_to_e4m3(x);
}

static inline float e5m2_to(uint8_t code)
{
    return mdsk_e5m2_to_f32(code);
}

static inline uint8_t e5m2_from(float x)
{
    return mdsk_f32_to_e5m2(x);
}

static const struct format formats[] = {
    {MDSK_E4M3, 3, -6, 8, 0x7e, e4m3_to, e4m3_from},
    {MDSK_E5M2, 2, -14, 15, 0x7b, e5m2_to, e5m2_from}};

static inline const struct format *format_of(enum mdsk_dtype t)
{
    return &formats[t == MDSK_E5M2];
}

/* Beyond the largest, NaN; but E5M2's 0x7c is infinity. */
static inline double meaning(const struct format *f, uint8_t code)
{
    int magnitude = code & 0x7f, exponent = magnitude >> f->fraction;
    double fraction = magnitude & ((1 << f->fraction) - 1), sign = code & 0x80 ? -1 : 1;

    if (magnitude > f->largest)
        return f->type == MDSK_E5M2 && magnitude == 0x7c ? sign * INFINITY : NAN;
    if (exponent == 0)
        return sign * ldexp(fraction, f->least - f->fraction);
    return sign * ldexp(1 + ldexp(fraction, -f->fraction), exponent - 1 + f->least);
}

/* The nearest number of the format, ties to even, by comparing with all of them. */
static inline double nearest(const struct format *f, double x)
{
    int best = 0;

    for (int code = 1; code <= f->largest; code++) {
        double off = fabs(fabs(x) - meaning(f, (uint8_t)code));
        double now = fabs(fabs(x) - meaning(f, (uint8_t)best));

        if (off < now || (off == now && code % 2 == 0))
            best = code;
    }
    return copysign(meaning(f, (uint8_t)best), x);
}

/* Codes and scale of x [R, C], both ways. */
struct cast {
    struct mdsk_fp8_cast a;
    uint8_t *rows, *cols;
    _Alignas(16) float scale[4];
};

static inline uint8_t *unset_codes(int64_t rows, int64_t n)
{
    size_t size = (size_t)(rows * mdsk_fp8_ld(n));
    uint8_t *codes = aligned_alloc(16, size);

    assert_non_null(codes);
    memset(codes, 0x55, size);
    return codes;
}

static inline void cast_both_ways(enum mdsk_dtype type, enum mdsk_dtype to, int64_t R,
                                  int64_t C, const void *x, float *sum,
                                  struct cast *out)
{
    *out = (struct cast){.a = {.R = R, .C = C, .dtype = type, .to = to, .x = x}};
    out->a.rows = out->rows = unset_codes(R, C);
    out->a.cols = out->cols = unset_codes(C, R);
    out->a.scale = out->scale;
    out->a.sum = sum;
    assert_int_equal(backend()->fp8_cast(NULL, &out->a), 0);
}

static inline void free_cast(struct cast *c)
{
    free(c->rows);
    free(c->cols);
}

#endif
