/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/table.h"

#include "kernels/cpu/random.h"
#include "kernels/cpu/storage.h"

MDSK_DISPATCH static void multiply(int64_t n, const float *factor, const float *x,
                                   float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * factor[i];
}

static void drop_row(const struct mdsk_dropout *a, int64_t r)
{
    float factor[MDSK_MASK_SPAN], scratch[MDSK_MASK_SPAN];

    for (int64_t h = 0; h < a->H; h += MDSK_MASK_SPAN) {
        int64_t n = mdsk_min(MDSK_MASK_SPAN, a->H - h), at = r * a->H + h;
        const float *x = mdsk_read(a->dtype, a->x, at, n, scratch);
        float *y = mdsk_fill(a->dtype, a->y, at, scratch);

        mdsk_mask_span(&a->key, a->rows.first_sample + r % a->rows.B,
                       a->rows.first_token + r / a->rows.B, h, factor);
        multiply(n, factor, x, y);
        mdsk_put(a->dtype, y, n, a->y, at);
    }
}

int mdsk_dropout_cpu(void *stream, const struct mdsk_dropout *a)
{
    int64_t R = a->rows.B * a->rows.S;

    (void)stream;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(R * a->H))
    for (int64_t r = 0; r < R; r++)
        drop_row(a, r);
    return 0;
}
