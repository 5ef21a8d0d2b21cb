/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/table.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/storage.h"
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

/* scratch [valid] */
static void row_stats(const struct mdsk_xent_stats *a, int64_t r, float *scratch)
{
    const float *logits = mdsk_read(a->dtype, a->logits, r * a->ld, a->valid, scratch);
    int64_t w = a->target[r] - a->first_word;

    stats_row(logits, a->valid, &a->max[r], &a->sum[r]);
    a->target_logit[r] = a->target[r] >= 0 && w >= 0 && w < a->valid ? logits[w] : 0;
}

MDSK_DISPATCH static void softmax_row(float *logits, int64_t n, float lse, float scale)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        logits[i] = scale * mdsk_expf(logits[i] - lse);
}

static int kind_of(const struct mdsk_kinds *k, int64_t r)
{
    return k->of ? k->of[r] : 0;
}

static float row_scale(float scale, const struct mdsk_kinds *k, int64_t r)
{
    return k->of ? scale * k->weight[k->of[r]] : scale;
}

/* scratch [valid] */
static void xent_row_bwd(const struct mdsk_xent_bwd *a, int64_t r, float lse,
                         float *scratch)
{
    int64_t w = a->target[r] - a->first_word, size = (int64_t)mdsk_dtype_size(a->dtype);
    int64_t live = a->target[r] >= 0 ? a->valid : 0;
    float *logits = mdsk_edit(a->dtype, a->logits, r * a->ld, live, scratch);
    float scale = row_scale(a->scale, &a->kinds, r);

    softmax_row(logits, live, lse, a->z > 0 ? scale * (1 + 2 * a->z * lse) : scale);
    if (live && w >= 0 && w < live)
        logits[w] -= scale;
    mdsk_put(a->dtype, logits, live, a->logits, r * a->ld);
    memset((char *)a->logits + (r * a->ld + live) * size, 0,
           (size_t)((a->words - live) * size));
}

int mdsk_xent_stats_cpu(void *stream, const struct mdsk_xent_stats *a)
{
    struct mdsk_xent_bwd b = {.words = a->words,
                              .valid = a->valid,
                              .ld = a->ld,
                              .first_word = a->first_word,
                              .dtype = a->dtype,
                              .logits = a->logits,
                              .target = a->target,
                              .scale = a->scale,
                              .z = a->z,
                              .kinds = a->kinds};
    int threads = mdsk_threads_for(a->R * a->words);
    int64_t floats = mdsk_staging_floats(a->dtype, a->valid);
    float *scratch = mdsk_scratch(threads * floats);

    (void)stream;
    if (!scratch)
        return -ENOMEM;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t r = 0; r < a->R; r++) {
        float *mine = scratch + omp_get_thread_num() * floats;

        row_stats(a, r, mine);
        if (a->gradient)
            xent_row_bwd(&b, r, (float)((double)a->max[r] + log((double)a->sum[r])),
                         mine);
    }
    return 0;
}

/* The log of the sum of all parts of row r, about the largest maximum. */
static double combine_row(const struct mdsk_xent_loss *a, int64_t r)
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
        double lse = combine_row(a, r), loss = 0;

        a->lse[r] = (float)lse;
        if (a->target[r] >= 0) {
            loss = lse;
            for (int64_t p = 0; p < a->parts; p++)
                loss -= (double)a->target_logit[p * a->part_stride + r];
            a->loss_sum[kind_of(&a->kinds, r)] += loss;
            a->count[kind_of(&a->kinds, r)] += 1;
        }
        if (a->loss)
            a->loss[r] = loss;
    }
    return 0;
}

int mdsk_xent_bwd_cpu(void *stream, const struct mdsk_xent_bwd *a)
{
    int threads = mdsk_threads_for(a->R * a->words);
    int64_t floats = mdsk_staging_floats(a->dtype, a->valid);
    float *scratch = mdsk_scratch(threads * floats);

    (void)stream;
    if (!scratch)
        return -ENOMEM;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t r = 0; r < a->R; r++)
        xent_row_bwd(a, r, a->lse[r], scratch + omp_get_thread_num() * floats);
    return 0;
}
