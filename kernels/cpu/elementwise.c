/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/table.h"

#include <errno.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/storage.h"

MDSK_DISPATCH static void add_range(const struct mdsk_add *a, int64_t at, int64_t n)
{
    int64_t step = mdsk_step(a->dtype, n);
    float scratch[2 * MDSK_STAGING];
    const void *to = a->z ? a->z : a->y;

    for (int64_t i = at; i < at + n; i += step) {
        int64_t m = mdsk_min(step, at + n - i);
        const float *x = mdsk_read(a->dtype, a->x, i, m, scratch + MDSK_STAGING);
        const float *z = mdsk_read(a->dtype, to, i, m, scratch);
        float *y = mdsk_fill(a->dtype, a->y, i, scratch);

#pragma omp simd
        for (int64_t j = 0; j < m; j++)
            y[j] = z[j] + x[j];
        mdsk_put(a->dtype, y, m, a->y, i);
    }
}

int mdsk_add_cpu(void *stream, const struct mdsk_add *a)
{
    (void)stream;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(a->n))
    for (int64_t i = 0; i < a->n; i += MDSK_GRAIN)
        add_range(a, i, mdsk_min(MDSK_GRAIN, a->n - i));
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
    int64_t blocks = mdsk_ceil_div(a->n, MDSK_GRAIN);
    double *part = (double *)(void *)mdsk_scratch(2 * blocks);

    (void)stream;
    if (!part)
        return -ENOMEM;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(a->n))
    for (int64_t p = 0; p < blocks; p++)
        part[p] =
            squares(mdsk_min(MDSK_GRAIN, a->n - p * MDSK_GRAIN), a->x + p * MDSK_GRAIN);
    for (int64_t p = 0; p < blocks; p++)
        *a->sum += part[p];
    return 0;
}
