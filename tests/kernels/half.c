/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels: the 16-bit formats, code by code. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/half.h"

/* A format: `fraction` bits under an exponent of at least `least`. */
struct format {
    int fraction, least, most;
    float (*to_f32)(uint16_t h);
    uint16_t (*from_f32)(float x);
};

static float bf16_to(uint16_t h)
{
    return mdsk_bf16_to_f32(h);
}

static uint16_t bf16_from(float x)
{
    return mdsk_f32_to_bf16(x);
}

static float f16_to(uint16_t h)
{
    return mdsk_f16_to_f32(h);
}

static uint16_t f16_from(float x)
{
    return mdsk_f32_to_f16(x);
}

static const struct format formats[] = {{7, -126, 127, bf16_to, bf16_from},
                                        {10, -14, 15, f16_to, f16_from}};

/* What a code means, by the definition. */
static double meaning(const struct format *f, uint16_t h)
{
    int exponent = (h & 0x7fff) >> f->fraction, all = f->most - f->least + 2;
    double fraction = h & ((1 << f->fraction) - 1);
    double sign = h & 0x8000 ? -1 : 1;

    if (exponent == all)
        return fraction > 0 ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, f->least - f->fraction);
    return sign * ldexp(1 + ldexp(fraction, -f->fraction), exponent - 1 + f->least);
}

static void test_every_code(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        for (uint32_t code = 0; code < 65536; code++) {
            uint16_t h = (uint16_t)code,
                     quiet = (uint16_t)(1 << (formats[t].fraction - 1));
            double want = meaning(&formats[t], h);
            float got = formats[t].to_f32(h);

            assert_true(isnan(want) ? isnan(got) : (double)got == want);
            assert_int_equal(!signbit(got), !(h & 0x8000));
            assert_int_equal(formats[t].from_f32(got), isnan(want) ? h | quiet : h);
        }
}

/* x between the neighbours low and high (magnitudes, of codes h and h+1), rounded to
 * nearest, ties to even. */
static uint16_t nearest(const struct format *f, uint16_t h, double x)
{
    double low = meaning(f, h), high = meaning(f, (uint16_t)(h + 1));
    double middle;

    if (isinf(high)) /* what the next number would be with a larger exponent */
        high = ldexp(1, f->most + 1);
    middle = (low + high) / 2;
    return (uint16_t)(x > middle || (x == middle && h & 1) ? h + 1 : h);
}

/* Around every boundary: the neighbours, the middle, and one f32 either side of each.
 */
static void test_rounding(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        const struct format *f = &formats[t];

        for (uint16_t h = 0; isfinite(meaning(f, h)); h++) {
            double low = meaning(f, h), high = meaning(f, (uint16_t)(h + 1));
            double middle =
                isinf(high) ? (low + ldexp(1, f->most + 1)) / 2 : (low + high) / 2;
            float middles[] = {(float)middle, nextafterf((float)middle, 0),
                               nextafterf((float)middle, INFINITY),
                               nextafterf((float)low, INFINITY)};

            for (int i = 0; i < 4; i++) {
                uint16_t want = nearest(f, h, (double)middles[i]);

                assert_int_equal(f->from_f32(middles[i]), want);
                assert_int_equal(f->from_f32(-middles[i]), want | 0x8000);
            }
        }
    }
}

static void test_large_and_special(void **state)
{
    (void)state;
    assert_int_equal(mdsk_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(mdsk_f32_to_f16(65520), 0x7c00);
    assert_int_equal(mdsk_f32_to_f16(1e30f), 0x7c00);
    assert_int_equal(mdsk_f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(mdsk_f32_to_bf16(0x1.ffp127f), 0x7f80);
    assert_int_equal(mdsk_f32_to_bf16(-INFINITY), 0xff80);
    assert_true(isnan(mdsk_f16_to_f32(mdsk_f32_to_f16(NAN))));
    assert_true(isnan(mdsk_bf16_to_f32(mdsk_f32_to_bf16(NAN))));
    /* a payload in the low bits alone must not become an infinity */
    assert_true(
        isnan(mdsk_bf16_to_f32(mdsk_f32_to_bf16(mdsk_f32_of_bits(0x7f800001)))));
    assert_true(isnan(mdsk_f16_to_f32(mdsk_f32_to_f16(mdsk_f32_of_bits(0xff800001)))));
    assert_int_equal(mdsk_f32_to_f16(0x1p-25f), 0); /* a tie with 0 */
    assert_int_equal(mdsk_f32_to_f16(0x1.8p-25f), 1);
    assert_int_equal(mdsk_f32_to_f16(0x1p-140f), 0);
    assert_int_equal(mdsk_f32_to_bf16(-0.0f), 0x8000);
}

#ifdef __FLT16_MANT_DIG__
/* Every 251st f32 against the compiler's own conversion. */
static void test_against_the_compiler(void **state)
{
    (void)state;
    for (uint64_t u = 0; u < (uint64_t)1 << 32; u += 251) {
        float x = mdsk_f32_of_bits((uint32_t)u);
        _Float16 want = (_Float16)x;
        uint16_t bits;

        memcpy(&bits, &want, sizeof bits);
        if (!isnan(x) && mdsk_f32_to_f16(x) != bits)
            fail_msg("%a becomes %04x, not %04x", (double)x, mdsk_f32_to_f16(x), bits);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_large_and_special),
#ifdef __FLT16_MANT_DIG__
        cmocka_unit_test(test_against_the_compiler),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
