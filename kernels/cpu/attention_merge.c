/* SPDX-License-Identifier: BSD-3-Clause */
/* Merge attention over two parts of the keys; the largest log-sum-exp of each head. */
#include "kernels/cpu/attention.h"

#include <errno.h>
#include <math.h>

#include "kernels/cpu/storage.h"

MDSK_DISPATCH static void blend(int64_t n, float keep, float take, const float *x,
                                float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = y[i] * keep + x[i] * take;
}

/* One query.  The weights are computed from the difference of the two lse, which may be
 * large.  An operand of weight 0 may be undefined and is not read. */
static void merge_row(int64_t D, const float *o2, float lse2, float *acc, float *lse)
{
    float top = fmaxf(*lse, lse2), sum;

    if (lse2 == -INFINITY)
        return;
    if (*lse == -INFINITY) {
        for (int64_t d = 0; d < D; d++)
            acc[d] = o2[d];
        *lse = lse2;
        return;
    }
    sum = expf(*lse - top) + expf(lse2 - top);
    blend(D, expf(*lse - top) / sum, expf(lse2 - top) / sum, o2, acc);
    *lse = top + logf(sum);
}

int mdsk_attention_merge_cpu(void *stream, const struct mdsk_attention_merge *a)
{
    int threads = mdsk_threads_for(a->B * a->A * a->Sq * a->D);
    float *rooms = mdsk_scratch(mdsk_staging_floats(a->dtype, threads * a->D));

    (void)stream;
    if (!rooms)
        return -ENOMEM;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t t = 0; t < a->B * a->A * a->Sq; t++) {
        int64_t b = t / a->Sq / a->A, h = t / a->Sq % a->A, i = t % a->Sq;
        float *lse = a->lse + mdsk_head_row(a->A, a->Sq, a->lse_stride, b, h) + i;
        const float *lse2 =
            a->lse2 + mdsk_head_row(a->A, a->Sq, a->lse2_stride, b, h) + i;
        float *staging =
            rooms + mdsk_staging_floats(a->dtype, omp_get_thread_num() * a->D);

        merge_row(a->D,
                  mdsk_read(a->dtype, a->o2.data, mdsk_head_at(&a->o2, b, i, h), a->D,
                            staging),
                  *lse2, mdsk_head(&a->acc, b, i, h), lse);
    }
    return 0;
}

/* NaN stays; what is not there yet is 0 or more, so -inf does not count. */
int mdsk_attention_most_cpu(void *stream, const struct mdsk_attention_most *a)
{
    (void)stream;
#pragma omp parallel for schedule(static)                                              \
    num_threads(mdsk_threads_for(a->B * a->A * a->Sq))
    for (int64_t h = 0; h < a->A; h++)
        for (int64_t b = 0; b < a->B; b++) {
            const float *lse = a->lse + mdsk_head_row(a->A, a->Sq, a->lse_stride, b, h);

            for (int64_t i = 0; i < a->Sq; i++)
                if (lse[i] > a->most[h] || isnan(lse[i]))
                    a->most[h] = lse[i];
        }
    return 0;
}
