/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/table.h"

#include <errno.h>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/storage.h"
#include "kernels/cpu/vmath.h"

/* cos and sin of one position's angles, [n] each */
MDSK_DISPATCH static void angles(double position, int64_t n, const double *frequency,
                                 float scale, int inverse, float *c, float *s)
{
    float scale_sin = inverse ? -scale : scale;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        mdsk_cos_sin(position * frequency[i], &c[i], &s[i]);
        c[i] *= scale;
        s[i] *= scale_sin;
    }
}

MDSK_DISPATCH static void rotate(int64_t n, const float *c, const float *s, float *x)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float x0 = x[i], x1 = x[i + n];

        x[i] = x0 * c[i] - x1 * s[i];
        x[i + n] = x1 * c[i] + x0 * s[i];
    }
}

/* The heads of token s of sequence b; staging [rot] */
static void rotate_heads(const struct mdsk_rope *a, int64_t s, int64_t b,
                         const float *c, const float *sine, float *staging)
{
    for (int64_t h = 0; h < a->A; h++) {
        int64_t at = mdsk_head_at(&a->x, b, s, h);
        float *x = mdsk_edit(a->dtype, a->x.data, at, a->rot, staging);

        rotate(a->rot / 2, c, sine, x);
        mdsk_put(a->dtype, x, a->rot, a->x.data, at);
    }
}

/* The angles of a position serve all its heads and, without starts, all sequences; they
 * are not kept.  staging [2 rot] */
static void rotate_token(const struct mdsk_rope *a, int64_t s, float *staging)
{
    int64_t n = a->rot / 2;

    for (int64_t b = 0; b < a->B; b++) {
        int64_t start = a->start ? a->start[s * a->B + b] : 0;

        if (b == 0 || a->start)
            angles((double)(a->first_token + s - start), n, a->frequency, a->scale,
                   a->inverse, staging, staging + n);
        rotate_heads(a, s, b, staging, staging + n, staging + a->rot);
    }
}

int mdsk_rope_cpu(void *stream, const struct mdsk_rope *a)
{
    int threads = mdsk_threads_for(a->B * a->S * a->A * a->rot);
    float *staging = mdsk_scratch(2 * threads * a->rot);

    (void)stream;
    if (!staging)
        return -ENOMEM;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t s = 0; s < a->S; s++)
        rotate_token(a, s, staging + 2 * omp_get_thread_num() * a->rot);
    return 0;
}
