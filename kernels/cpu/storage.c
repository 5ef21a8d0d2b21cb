/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/cpu/storage.h"

#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/fp8.h"

MDSK_DISPATCH static void from_bf16(int64_t n, const uint16_t *x, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = mdsk_bf16_to_f32(x[i]);
}

MDSK_DISPATCH static void from_f16(int64_t n, const uint16_t *x, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = mdsk_f16_to_f32(x[i]);
}

MDSK_DISPATCH static void from_e4m3(int64_t n, const uint8_t *x, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = mdsk_e4m3_to_f32(x[i]);
}

MDSK_DISPATCH static void from_e5m2(int64_t n, const uint8_t *x, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = mdsk_e5m2_to_f32(x[i]);
}

MDSK_DISPATCH static void to_bf16(int64_t n, const float *x, uint16_t *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = mdsk_f32_to_bf16(x[i]);
}

MDSK_DISPATCH static void to_e4m3(int64_t n, const float *x, uint8_t *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = mdsk_f32_to_e4m3(x[i]);
}

MDSK_DISPATCH static void to_e5m2(int64_t n, const float *x, uint8_t *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = mdsk_f32_to_e5m2(x[i]);
}

MDSK_DISPATCH static void to_f16(int64_t n, const float *x, uint16_t *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = mdsk_f32_to_f16(x[i]);
}

void mdsk_widen(enum mdsk_dtype t, const void *x, int64_t at, int64_t n, float *y)
{
    if (t == MDSK_BF16)
        from_bf16(n, (const uint16_t *)x + at, y);
    else if (t == MDSK_F16)
        from_f16(n, (const uint16_t *)x + at, y);
    else if (t == MDSK_E4M3)
        from_e4m3(n, (const uint8_t *)x + at, y);
    else if (t == MDSK_E5M2)
        from_e5m2(n, (const uint8_t *)x + at, y);
    else
        memcpy(y, (const float *)x + at, (size_t)n * sizeof *y);
}

void mdsk_narrow(enum mdsk_dtype t, const float *x, int64_t n, void *y, int64_t at)
{
    if (t == MDSK_BF16)
        to_bf16(n, x, (uint16_t *)y + at);
    else if (t == MDSK_F16)
        to_f16(n, x, (uint16_t *)y + at);
    else if (t == MDSK_E4M3)
        to_e4m3(n, x, (uint8_t *)y + at);
    else if (t == MDSK_E5M2)
        to_e5m2(n, x, (uint8_t *)y + at);
    else
        memcpy((float *)y + at, x, (size_t)n * sizeof *x);
}

MDSK_DISPATCH uint32_t mdsk_amax(int64_t n, const float *x, uint32_t most)
{
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = mdsk_f32_bits(x[i]) & 0x7fffffffu;

        most = bits > most ? bits : most;
    }
    return most;
}

void mdsk_put_amax(enum mdsk_dtype t, uint32_t most, uint32_t *amax)
{
    float x = mdsk_f32_of_bits(most);
    uint32_t stored;

    if (!amax)
        return;
    mdsk_narrow(t, &x, 1, &stored, 0);
    mdsk_widen(t, &stored, 0, 1, &x);
    *amax = mdsk_f32_bits(x);
}
