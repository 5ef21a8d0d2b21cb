#include "kernels/elementwise.h"

#include <errno.h>

#include "kernels/cpu/cpu.h"

MDSK_DISPATCH static void add(int64_t n, const float *x, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

int mdsk_add_cpu(void *stream, const struct mdsk_add *a)
{
    const float *x = a->x;
    float *y = a->y;

    (void)stream;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(a->n))
    for (int64_t i = 0; i < a->n; i += MDSK_GRAIN)
        add(mdsk_min(MDSK_GRAIN, a->n - i), x + i, y + i);
    return 0;
}

MDSK_DISPATCH static void scale(int64_t n, float by, float *x)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] *= by;
}

int mdsk_scale_cpu(void *stream, const struct mdsk_scale *a)
{
    (void)stream;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(a->n))
    for (int64_t i = 0; i < a->n; i += MDSK_GRAIN)
        scale(mdsk_min(MDSK_GRAIN, a->n - i), a->by, a->x + i);
    return 0;
}

MDSK_DISPATCH static double squares(int64_t n, const float *x)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

int mdsk_sum_squares_cpu(void *stream, const struct mdsk_sum_squares *a)
{
    int64_t pieces = mdsk_ceil_div(a->n, MDSK_GRAIN);
    double *part = (double *)(void *)mdsk_scratch(2 * pieces);

    (void)stream;
    if (!part)
        return -ENOMEM;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(a->n))
    for (int64_t p = 0; p < pieces; p++)
        part[p] =
            squares(mdsk_min(MDSK_GRAIN, a->n - p * MDSK_GRAIN), a->x + p * MDSK_GRAIN);
    for (int64_t p = 0; p < pieces; p++)
        *a->sum += part[p];
    return 0;
}
