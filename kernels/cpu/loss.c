#include "kernels/loss.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vmath.h"

MDSK_DISPATCH static void stats_row(const float *logits, int64_t n, float *max_out,
                                    float *sum_out)
{
    float max = -INFINITY, sum = 0;

#pragma omp simd reduction(max : max)
    for (int64_t i = 0; i < n; i++)
        max = logits[i] > max ? logits[i] : max;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += mdsk_expf(logits[i] - max);
    *max_out = max;
    *sum_out = sum;
}

int mdsk_xent_stats_cpu(void *stream, const struct mdsk_xent_stats *a)
{
    (void)stream;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(a->R * a->valid))
    for (int64_t r = 0; r < a->R; r++) {
        const float *logits = (const float *)a->logits + r * a->ld;
        int64_t w = a->target[r] - a->first_word;

        stats_row(logits, a->valid, &a->max[r], &a->sum[r]);
        a->target_logit[r] =
            a->target[r] >= 0 && w >= 0 && w < a->valid ? logits[w] : 0;
    }
    return 0;
}

/* The log of the sum of all parts of row r, about the largest maximum. */
static double combine(const struct mdsk_xent_loss *a, int64_t r)
{
    float top = a->max[r];
    double sum = 0;

    for (int64_t p = 1; p < a->parts; p++)
        top = fmaxf(top, a->max[p * a->part_stride + r]);
    for (int64_t p = 0; p < a->parts; p++) {
        int64_t at = p * a->part_stride + r;

        sum += (double)a->sum[at] * exp((double)a->max[at] - (double)top);
    }
    return (double)top + log(sum);
}

/* One thread: a logarithm a row is nothing beside the row, and the sum keeps its
 * order. */
int mdsk_xent_loss_cpu(void *stream, const struct mdsk_xent_loss *a)
{
    (void)stream;
    for (int64_t r = 0; r < a->R; r++) {
        double lse = combine(a, r), loss = lse;

        a->lse[r] = (float)lse;
        if (a->target[r] >= 0) {
            for (int64_t p = 0; p < a->parts; p++)
                loss -= (double)a->target_logit[p * a->part_stride + r];
            *a->loss_sum += loss;
            *a->count += 1;
        }
    }
    return 0;
}

MDSK_DISPATCH static void softmax_row(float *logits, int64_t n, float lse, float scale)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        logits[i] = scale * mdsk_expf(logits[i] - lse);
}

int mdsk_xent_bwd_cpu(void *stream, const struct mdsk_xent_bwd *a)
{
    (void)stream;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(a->R * a->words))
    for (int64_t r = 0; r < a->R; r++) {
        float *logits = (float *)a->logits + r * a->ld;
        int64_t w = a->target[r] - a->first_word;
        int64_t live = a->target[r] >= 0 ? a->valid : 0;

        softmax_row(logits, live, a->lse[r], a->scale);
        if (live && w >= 0 && w < live)
            logits[w] -= a->scale;
        memset(logits + live, 0, (size_t)(a->words - live) * sizeof *logits);
    }
    return 0;
}
