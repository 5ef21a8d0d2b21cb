/* SPDX-License-Identifier: BSD-3-Clause */
/* Copying rows with strides, and casting between types. */
#include "kernels/elementwise.h"
#include "kernels/table.h"

#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/storage.h"

void mdsk_cpu_zero(void *p, int64_t bytes)
{
    const int64_t grain = MDSK_GRAIN * (int64_t)sizeof(float);
    char *x = p;

#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(bytes / 4))
    for (int64_t i = 0; i < bytes; i += grain)
        memset(x + i, 0, (size_t)mdsk_min(grain, bytes - i));
}

int mdsk_copy_rows_cpu(void *stream, const struct mdsk_copy_rows *a)
{
    int64_t size = (int64_t)mdsk_dtype_size(a->dtype);
    const char *x = a->x;
    char *y = a->y;

    (void)stream;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(a->R * a->C))
    for (int64_t r = 0; r < a->R; r++)
        memcpy(y + r * a->ldy * size, x + r * a->ldx * size, (size_t)(a->C * size));
    return 0;
}

/* Between the two 16-bit types by way of f32, which holds both exactly. */
static void cast_range(const struct mdsk_cast *a, int64_t at, int64_t n)
{
    float staging[MDSK_STAGING];

    for (int64_t i = at; i < at + n; i += MDSK_STAGING) {
        int64_t m = mdsk_min(MDSK_STAGING, at + n - i);

        mdsk_narrow(a->to, mdsk_read(a->from, a->x, i, m, staging), m, a->y, i);
    }
}

int mdsk_cast_cpu(void *stream, const struct mdsk_cast *a)
{
    (void)stream;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(a->n))
    for (int64_t i = 0; i < a->n; i += MDSK_GRAIN)
        cast_range(a, i, mdsk_min(MDSK_GRAIN, a->n - i));
    return 0;
}
