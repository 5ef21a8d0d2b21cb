/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/kernels/check.h"

#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"
#include "kernels/philox.h"
#include "tests/kernels/staged.h"

#ifndef HAVE_CUDA
const struct mdsk_table *staged_cuda(void)
{
    return NULL;
}
#endif

const enum mdsk_dtype dtypes[DTYPES] = {MDSK_F32, MDSK_BF16, MDSK_F16};

const struct mdsk_table *backend(void)
{
    const char *name = getenv("MDS_TEST_BACKEND");
    const struct mdsk_table *table = NULL;

    if (!name || strcmp(name, "cpu") == 0)
        table = mdsk_cpu();
    else if (strcmp(name, "cuda") == 0)
        table = staged_cuda();
    if (!table)
        fail_msg("MDS_TEST_BACKEND=%s: not in this build", name);
    return table;
}

static struct vec vec_new(int64_t n)
{
    struct vec v = {n, malloc((size_t)(n + 1) * sizeof(float)),
                    malloc((size_t)(n + 1) * sizeof(double)), NULL};

    assert_non_null(v.f);
    assert_non_null(v.d);
    return v;
}

/* A sum of four uniform numbers: near enough to normal. */
struct vec vec_random(int64_t n, uint32_t seed, double spread)
{
    struct vec v = vec_new(n);

    for (int64_t i = 0; i < n; i++) {
        uint32_t key[2] = {seed, 7}, ctr[4] = {(uint32_t)i, 0, 0, 0}, word[4];
        double sum = 0;

        mdsk_philox(key, ctr, word);
        for (int w = 0; w < 4; w++)
            sum += word[w] / 4294967296.0 - 0.5;
        v.f[i] = (float)(sum * sqrt(3) * spread);
        v.d[i] = (double)v.f[i];
    }
    return v;
}

struct vec vec_unset(int64_t n)
{
    struct vec v = vec_new(n);

    for (int64_t i = 0; i < n; i++) {
        v.f[i] = NAN;
        v.d[i] = NAN;
    }
    return v;
}

struct vec vec_zero(int64_t n)
{
    struct vec v = vec_new(n);

    memset(v.f, 0, (size_t)n * sizeof *v.f);
    memset(v.d, 0, (size_t)n * sizeof *v.d);
    return v;
}

void vec_adopt(struct vec *v)
{
    for (int64_t i = 0; i < v->n; i++)
        v->d[i] = (double)v->f[i];
}

static uint16_t narrow(enum mdsk_dtype t, float x)
{
    return t == MDSK_BF16 ? mdsk_f32_to_bf16(x) : mdsk_f32_to_f16(x);
}

static float widen(enum mdsk_dtype t, uint16_t h)
{
    return t == MDSK_BF16 ? mdsk_bf16_to_f32(h) : mdsk_f16_to_f32(h);
}

void *vec_as(enum mdsk_dtype t, struct vec *v)
{
    if (t == MDSK_F32)
        return v->f;
    if (!v->h)
        v->h = malloc((size_t)v->n * sizeof *v->h);
    assert_non_null(v->h);
    for (int64_t i = 0; i < v->n; i++)
        v->h[i] = narrow(t, v->f[i]);
    vec_back(t, v);
    vec_adopt(v);
    return v->h;
}

void vec_back(enum mdsk_dtype t, struct vec *v)
{
    for (int64_t i = 0; t != MDSK_F32 && i < v->n; i++)
        v->f[i] = widen(t, v->h[i]);
}

uint32_t vec_amax(const struct vec *v)
{
    uint32_t most = 0;

    for (int64_t i = 0; i < v->n; i++) {
        float size = fabsf(v->f[i]);
        uint32_t bits;

        memcpy(&bits, &size, sizeof bits);
        most = bits > most ? bits : most;
    }
    return most;
}

double rounded(enum mdsk_dtype t, double x)
{
    return t == MDSK_F32 ? x : (double)widen(t, narrow(t, (float)x));
}

void vec_free(struct vec *v)
{
    free(v->h);
    free(v->f);
    free(v->d);
    *v = (struct vec){0};
}

void assert_near(const char *what, const struct vec *v, double tolerance)
{
    double off = 0, size = 0;

    for (int64_t i = 0; i < v->n; i++) {
        double e = (double)v->f[i] - v->d[i];

        off += e * e;
        size += v->d[i] * v->d[i];
    }
    if (!(sqrt(off) <= tolerance * sqrt(size)))
        fail_msg("%s: off by %.3g of its size, allowed %.3g (%lld elements)", what,
                 sqrt(off / size), tolerance, (long long)v->n);
}

/* Rounding to nearest is off by 2^-8 (bf16) or 2^-11 (f16) of a number at most, and
 * less than half of that in the mean over many; truncation is off by more. */
void assert_near_as(enum mdsk_dtype t, const char *what, struct vec *v,
                    double tolerance)
{
    static const double off[] = {
        [MDSK_F32] = 0, [MDSK_BF16] = 0x1p-8, [MDSK_F16] = 0x1p-11};

    vec_back(t, v);
    assert_near(what, v, tolerance + (v->n < 100 ? off[t] : off[t] / 2));
}

static double slope_at(double *x, loss_fn *loss, void *ctx)
{
    const double step = 1e-4, at = *x;
    double up, down;

    *x = at + step;
    up = loss(ctx);
    *x = at - step;
    down = loss(ctx);
    *x = at;
    return (up - down) / (2 * step);
}

void assert_slope(const char *what, struct vec *x, const float *gradient,
                  const float *before, loss_fn *loss, void *ctx, int samples)
{
    int64_t step = x->n > samples ? x->n / samples : 1;
    double off = 0, size = 0;

    for (int64_t i = 0; i < x->n; i += step) {
        double want = slope_at(&x->d[i], loss, ctx);
        double e = (double)gradient[i] - (before ? (double)before[i] : 0) - want;

        off += e * e;
        size += want * want;
    }
    if (!(sqrt(off) <= 2e-5 * sqrt(size) + 1e-7))
        fail_msg("%s: gradient off by %.3g from finite differences of size %.3g", what,
                 sqrt(off), sqrt(size));
}

const double *rotary_frequencies(double theta, int64_t rot)
{
    static double frequency[1024];

    assert_true(rot / 2 <= (int64_t)(sizeof frequency / sizeof *frequency));
    for (int64_t i = 0; i < rot / 2; i++)
        frequency[i] = pow(theta, -2 * (double)i / (double)rot);
    return frequency;
}

double inner(int64_t n, const double *y, const double *dy)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += y[i] * dy[i];
    return sum;
}
