#include "tests/kernels/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/philox.h"

const struct mdsk_table *backend(void)
{
    return mdsk_cpu();
}

static struct vec vec_new(int64_t n)
{
    struct vec v = {n, malloc((size_t)(n + 1) * sizeof(float)),
                    malloc((size_t)(n + 1) * sizeof(double))};

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

void vec_free(struct vec *v)
{
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

double inner(int64_t n, const double *y, const double *dy)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += y[i] * dy[i];
    return sum;
}
