#include "kernels/elementwise.h"

#include "kernels/cpu/random.h"

MDSK_DISPATCH static void multiply(int64_t n, const float *factor, const float *x,
                                   float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * factor[i];
}

int mdsk_dropout_cpu(void *stream, const struct mdsk_dropout *a)
{
    int64_t R = a->rows.B * a->rows.S;

    (void)stream;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(R * a->H))
    for (int64_t r = 0; r < R; r++) {
        const float *x = (const float *)a->x + r * a->H;
        float *y = (float *)a->y + r * a->H;
        float factor[MDSK_MASK_SPAN];

        for (int64_t h = 0; h < a->H; h += MDSK_MASK_SPAN) {
            mdsk_mask_span(&a->key, a->rows.first_sample + r % a->rows.B,
                           a->rows.first_token + r / a->rows.B, h, factor);
            multiply(mdsk_min(MDSK_MASK_SPAN, a->H - h), factor, x + h, y + h);
        }
    }
    return 0;
}
