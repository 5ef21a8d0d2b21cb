/* SPDX-License-Identifier: BSD-3-Clause */
/* Reference implementation, in double, of a layer's operations on one row. */
#ifndef TESTS_GPU_PLAIN_H
#define TESTS_GPU_PLAIN_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* y = w x + b;  w [out, in] */
struct linear {
    double *w, *b;
    int64_t in, out;
};

static void linear_free(struct linear *m)
{
    free(m->w);
    free(m->b);
}

static void forward(const struct linear *m, const double *x, double *y)
{
    for (int64_t i = 0; i < m->out; i++) {
        y[i] = m->b[i];
        for (int64_t j = 0; j < m->in; j++)
            y[i] += m->w[i * m->in + j] * x[j];
    }
}

static void backward(const struct linear *m, const double *dy, double *dx)
{
    memset(dx, 0, (size_t)m->in * sizeof *dx);
    for (int64_t i = 0; i < m->out; i++)
        for (int64_t j = 0; j < m->in; j++)
            dx[j] += m->w[i * m->in + j] * dy[i];
}

/* Scales are 1 and shifts 0, as they start. */
static double norm(int64_t n, const double *x, double *y)
{
    double mean = 0, var = 0, rstd;

    for (int64_t i = 0; i < n; i++)
        mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++)
        var += (x[i] - mean) * (x[i] - mean) / (double)n;
    rstd = 1 / sqrt(var + 1e-5);
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) * rstd;
    return rstd;
}

/* Add the gradient of the norm's input to dx; y and rstd are the norm's results. */
static void norm_bwd(int64_t n, const double *y, double rstd, const double *dy,
                     double *dx)
{
    double sum = 0, dot = 0;

    for (int64_t i = 0; i < n; i++) {
        sum += dy[i] / (double)n;
        dot += dy[i] * y[i] / (double)n;
    }
    for (int64_t i = 0; i < n; i++)
        dx[i] += rstd * (dy[i] - sum - y[i] * dot);
}

static double gelu(double x, double *slope)
{
    double c = sqrt(2 / acos(-1.0)), t = tanh(c * (x + 0.044715 * x * x * x));

    *slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
    return 0.5 * x * (1 + t);
}

#endif
