/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/table.h"

#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/storage.h"

MDSK_DISPATCH static void adamw(const struct mdsk_adamw *a, float decay, int64_t from,
                                int64_t n)
{
    float *w = a->master + from, *m = a->m + from, *v = a->v + from;
    const float *grad = a->grad + from;
    float beta1 = a->beta1, beta2 = a->beta2, eps = a->eps;
    float keep = 1 - a->lr * decay, step = a->lr / a->correction1;
    float root = 1 / sqrtf(a->correction2), scale = a->grad_scale;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float g = grad[i] * scale;

        m[i] = beta1 * m[i] + (1 - beta1) * g;
        v[i] = beta2 * v[i] + (1 - beta2) * g * g;
        w[i] = w[i] * keep - step * m[i] / (sqrtf(v[i]) * root + eps);
    }
    if (a->weight)
        mdsk_narrow(a->dtype, w, n, a->weight, from);
}

/* Elements from .. to - 1, span by span. */
static void adamw_range(const struct mdsk_adamw *a, int64_t from, int64_t to)
{
    for (int s = 0; s < a->spans && from < to; s++) {
        int64_t n = mdsk_min(a->span_end[s], to) - from;

        if (n <= 0)
            continue;
        adamw(a, a->decays >> s & 1 ? a->weight_decay : 0, from, n);
        from += n;
    }
}

int mdsk_adamw_cpu(void *stream, const struct mdsk_adamw *a)
{
    (void)stream;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(a->n))
    for (int64_t i = 0; i < a->n; i += MDSK_GRAIN)
        adamw_range(a, i, mdsk_min(i + MDSK_GRAIN, a->n));
    return 0;
}
