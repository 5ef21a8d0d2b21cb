/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench/kernels_timing.h"
#include "kernels/half.h"

#include <stdio.h>
#include <stdlib.h>

enum { CHUNK = 1 << 20 };

/* ---- numbers ---- */

/* n numbers between -1 and 1 of a type, the same few million again and again: what
 * products cost depends on what they multiply. */
static void *random_values(const struct bench *b, enum mdsk_dtype t, int64_t n)
{
    static float chunk[CHUNK];
    static uint16_t half[CHUNK];
    int64_t size = (int64_t)mdsk_dtype_size(t);
    char *p = b->dev->alloc(n * size);
    uint32_t state = 1;

    for (int i = 0; i < CHUNK; i++) {
        state = state * 1664525 + 1013904223;
        chunk[i] = (float)(state >> 8) * 0x1p-23f - 1;
        half[i] =
            t == MDSK_F16 ? mdsk_f32_to_f16(chunk[i]) : mdsk_f32_to_bf16(chunk[i]);
    }
    for (int64_t i = 0; i < n; i += CHUNK)
        b->dev->put(p + i * size, t == MDSK_F32 ? (void *)chunk : (void *)half,
                    (n - i < CHUNK ? n - i : CHUNK) * size);
    return p;
}

void *random_tensor(const struct bench *b, int64_t n)
{
    return random_values(b, b->dtype, n);
}

float *random_floats(const struct bench *b, int64_t n)
{
    return random_values(b, MDSK_F32, n);
}

float *zero_floats(const struct bench *b, int64_t n)
{
    static float chunk[CHUNK];
    float *p = b->dev->alloc(n * (int64_t)sizeof *p);

    for (int64_t i = 0; i < n; i += CHUNK)
        b->dev->put(p + i, chunk, (n - i < CHUNK ? n - i : CHUNK) * (int64_t)sizeof *p);
    return p;
}

int32_t *random_tokens(const struct bench *b, int64_t n, int32_t words)
{
    int32_t *there = b->dev->alloc(n * (int64_t)sizeof *there);
    int32_t *here = malloc((size_t)n * sizeof *here);

    b->dev->check_rc(here ? 0 : -12, "tokens");
    for (int64_t i = 0; i < n; i++)
        here[i] = (int32_t)(i * 7919 % words);
    b->dev->put(there, here, n * (int64_t)sizeof *here);
    free(here);
    return there;
}

/* ---- times ---- */

static double product_flops; /* of floors */

void print_line(const struct bench *b, const char *name, const struct laps *l,
                struct mdsk_cost c)
{
    double amount = c.flops > 0 ? c.flops : c.bytes;
    double floor_s = c.flops > 0 ? c.flops / product_flops : b->dev->copy_s(c.bytes);

    printf("%-28s %10.1f us %9.1f %s  floor %10.1f us  %3.0f %%\n", name, l->s * 1e6,
           amount / l->s * 1e-9, c.flops > 0 ? "GFLOP/s" : "GB/s   ", floor_s * 1e6,
           100 * floor_s / l->s);
    fflush(stdout);
}

void measure_product(const struct bench *b)
{
    int64_t n = b->dev->sizes.square;
    struct mdsk_linear_fwd a = {.R = n, .in = n, .out = n, .dtype = b->dtype};
    struct laps l = {0};
    double other = b->dev->other_product_flops ? b->dev->other_product_flops() : 0;

    a.x = random_tensor(b, n * n);
    a.w = random_tensor(b, n * n);
    a.y = random_tensor(b, n * n);
    TIME(b, &l, linear_fwd, &a);
    b->dev->free_all();
    product_flops = mdsk_linear_fwd_cost(&a).flops / l.s;
    printf("copy %.1f GB/s, product %.1f GFLOP/s", 1 / b->dev->copy_s(1e9),
           product_flops * 1e-9);
    printf(other > 0 ? ", built in %.1f\n" : "\n", other * 1e-9);
    if (other > product_flops)
        product_flops = other;
}
