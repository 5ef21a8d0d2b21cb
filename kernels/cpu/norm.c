/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/table.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/storage.h"

/* Rows of a thread's scratch memory. */
enum { SCRATCH_ROWS = 3 };

MDSK_INLINED float row_sum(const float *x, int64_t n)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

/* Sum of squares about the mean: a second pass, because E[x^2] - E[x]^2 cancels. */
MDSK_INLINED float row_squares(const float *x, int64_t n, float mean)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return sum;
}

/* gamma and beta as f32, for all threads. */
struct weights {
    const float *gamma, *beta;
};

static float row_columns(const struct mdsk_norm_part *p, int64_t H)
{
    return (float)(p->step == MDSK_NORM_WHOLE ? H : p->W);
}

MDSK_INLINED float mean_of(const struct mdsk_norm_fwd *a, int64_t row, const float *x)
{
    const struct mdsk_norm_part *p = &a->part;

    if (a->kind == MDSK_RMSNORM)
        return 0;
    if (p->step != MDSK_NORM_REST)
        a->mean[row] =
            (p->step == MDSK_NORM_SQUARES ? p->totals[row] : row_sum(x, a->H)) /
            row_columns(p, a->H);
    return a->mean[row];
}

/* Returns 0 if the row is not to be normalised, now. */
MDSK_INLINED int row_stats(const struct mdsk_norm_fwd *a, int64_t row, const float *x,
                           float *mean, float *rstd)
{
    const struct mdsk_norm_part *p = &a->part;
    float squares;

    if (p->step == MDSK_NORM_SUMS) {
        p->sums[row] = row_sum(x, a->H);
        return 0;
    }
    *mean = mean_of(a, row, x);
    squares = p->step == MDSK_NORM_REST ? p->totals[row] : row_squares(x, a->H, *mean);
    if (p->step == MDSK_NORM_SQUARES) {
        p->sums[row] = squares;
        return 0;
    }
    a->rstd[row] = *rstd = 1 / sqrtf(squares / row_columns(p, a->H) + a->eps);
    return 1;
}

MDSK_INLINED void norm_row(const struct mdsk_norm_fwd *a, const struct weights *w,
                           int64_t row, const float *x, float *y)
{
    const float *gamma = w->gamma, *beta = w->beta;
    float mean = 0, rstd = 0;

    if (!row_stats(a, row, x, &mean, &rstd) || !y)
        return;
    if (beta) {
#pragma omp simd
        for (int64_t i = 0; i < a->H; i++)
            y[i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < a->H; i++)
            y[i] = (x[i] - mean) * rstd * gamma[i];
    }
}

/* The row to normalise: x, or x + r, rounded to the storage type. */
MDSK_INLINED const float *summed_row(const struct mdsk_norm_fwd *a, int64_t row,
                                     float *staging)
{
    const float *x = mdsk_read(a->dtype, a->x, row * a->H, a->H, staging), *r;
    float *sum;

    if (!a->r)
        return x;
    r = mdsk_read(a->dtype, a->r, row * a->H, a->H, staging + a->H);
    sum = mdsk_fill(a->dtype, a->sum, row * a->H, staging);
#pragma omp simd
    for (int64_t i = 0; i < a->H; i++)
        sum[i] = x[i] + r[i];
    mdsk_put(a->dtype, sum, a->H, a->sum, row * a->H);
    return mdsk_read(a->dtype, a->sum, row * a->H, a->H, staging);
}

/* Returns the largest magnitude before rounding, if it is asked for. */
MDSK_DISPATCH static uint32_t norm_rows(const struct mdsk_norm_fwd *a,
                                        const struct weights *w, int64_t r0, int64_t r1,
                                        float *staging)
{
    uint32_t most = 0;

    for (int64_t row = r0; row < r1; row++) {
        float *y = a->y ? mdsk_fill(a->dtype, a->y, row * a->H, staging + a->H) : NULL;

        norm_row(a, w, row, summed_row(a, row, staging), y);
        if (y)
            mdsk_put(a->dtype, y, a->H, a->y, row * a->H);
        most = a->amax ? mdsk_amax(a->H, y, most) : 0;
    }
    return most;
}

int mdsk_norm_fwd_cpu(void *stream, const struct mdsk_norm_fwd *a)
{
    enum { ROWS = 16 };
    int threads = mdsk_threads_for(a->R * a->H);
    int64_t floats = mdsk_staging_floats(a->dtype, SCRATCH_ROWS * a->H);
    float *staging =
        mdsk_scratch(mdsk_staging_floats(a->dtype, 2 * a->H) + threads * floats);
    float *rows = staging + mdsk_staging_floats(a->dtype, 2 * a->H);
    struct weights w = {0};
    uint32_t most = 0;

    (void)stream;
    if (!staging)
        return -ENOMEM;
    w.gamma = mdsk_read(a->dtype, a->gamma, 0, a->H, staging);
    if (a->beta)
        w.beta = mdsk_read(a->dtype, a->beta, 0, a->H, staging + a->H);
#pragma omp parallel for schedule(static) num_threads(threads) reduction(max : most)
    for (int64_t r = 0; r < a->R; r += ROWS) {
        uint32_t bits = norm_rows(a, &w, r, mdsk_min(r + ROWS, a->R),
                                  rows + omp_get_thread_num() * floats);

        most = bits > most ? bits : most;
    }
    mdsk_put_amax(a->dtype, most, a->amax);
    return 0;
}

/* The sums of g = dy gamma, and of g xhat with xhat = (x - mean) rstd. */
MDSK_INLINED void row_sums_bwd(const struct mdsk_norm_bwd *a, const float *gamma,
                               int64_t row, const float *x, const float *dy, float *g,
                               float *gx)
{
    float rstd = a->rstd[row], mean = a->kind == MDSK_LAYERNORM ? a->mean[row] : 0;
    float sum_g = 0, sum_gx = 0;

#pragma omp simd reduction(+ : sum_g, sum_gx)
    for (int64_t i = 0; i < a->H; i++) {
        sum_g += dy[i] * gamma[i];
        sum_gx += dy[i] * gamma[i] * ((x[i] - mean) * rstd);
    }
    *g = sum_g;
    *gx = sum_gx;
}

/* dx of one row, and its terms of dgamma and dbeta.  With xhat = (x - mean) rstd and g
 * = dy gamma: dx = d + rstd (g - mean(g) - xhat mean(g xhat)), without mean(g) in
 * RMSNorm. */
MDSK_INLINED void norm_row_bwd(const struct mdsk_norm_bwd *a, const float *gamma,
                               int64_t row, float *dgamma, float *dbeta, float *staging)
{
    int64_t at = row * a->H;
    const float *x = mdsk_read(a->dtype, a->x, at, a->H, staging);
    const float *dy = mdsk_read(a->dtype, a->dy, at, a->H, staging + a->H);
    const float *d =
        a->d ? mdsk_read(a->dtype, a->d, at, a->H, staging + 2 * a->H) : NULL;
    float *dx = mdsk_fill(a->dtype, a->dx, at, staging + 2 * a->H);
    float rstd = a->rstd[row], mean = a->kind == MDSK_LAYERNORM ? a->mean[row] : 0;
    float W = row_columns(&a->part, a->H), sum_g, sum_gx;

    if (a->part.step == MDSK_NORM_REST) {
        sum_g = a->part.totals[2 * row];
        sum_gx = a->part.totals[2 * row + 1];
    } else {
        row_sums_bwd(a, gamma, row, x, dy, &sum_g, &sum_gx);
    }
    sum_g = a->kind == MDSK_LAYERNORM ? sum_g / W : 0;
    sum_gx /= W;
#pragma omp simd
    for (int64_t i = 0; i < a->H; i++) {
        float xhat = (x[i] - mean) * rstd;

        dx[i] = (d ? d[i] : 0) + rstd * (dy[i] * gamma[i] - sum_g - xhat * sum_gx);
        dgamma[i] += dy[i] * xhat;
        dbeta[i] += dy[i];
    }
    mdsk_put(a->dtype, dx, a->H, a->dx, at);
}

/* Rows r0 .. r1-1. dgamma and dbeta are summed over 64 rows at a time in block [2H],
 * and the blocks added to sum [2H]. */
MDSK_DISPATCH static void norm_rows_bwd(const struct mdsk_norm_bwd *a,
                                        const float *gamma, int64_t r0, int64_t r1,
                                        float *block, float *sum, float *staging)
{
    for (int64_t b0 = r0; b0 < r1; b0 += 64) {
        int64_t b1 = mdsk_min(b0 + 64, r1);

        memset(block, 0, 2 * (size_t)a->H * sizeof *block);
        for (int64_t row = b0; row < b1; row++)
            norm_row_bwd(a, gamma, row, block, block + a->H, staging);
#pragma omp simd
        for (int64_t i = 0; i < 2 * a->H; i++)
            sum[i] += block[i];
    }
}

MDSK_DISPATCH static void store_row_sums(const struct mdsk_norm_bwd *a, int64_t r0,
                                         int64_t r1, const float *gamma, float *staging)
{
    for (int64_t row = r0; row < r1; row++) {
        const float *x = mdsk_read(a->dtype, a->x, row * a->H, a->H, staging);
        const float *dy = mdsk_read(a->dtype, a->dy, row * a->H, a->H, staging + a->H);

        row_sums_bwd(a, gamma, row, x, dy, &a->part.sums[2 * row],
                     &a->part.sums[2 * row + 1]);
    }
}

/* Of all rows, for the ranks to add. */
static int sum_rows_bwd(const struct mdsk_norm_bwd *a)
{
    int64_t parts = mdsk_parts(a->R), rows = mdsk_ceil_div(a->R, parts);
    int64_t floats = mdsk_staging_floats(a->dtype, 2 * a->H);
    int threads = mdsk_threads_for(a->R * a->H);
    float *widened =
        mdsk_scratch(mdsk_staging_floats(a->dtype, a->H) + threads * floats);
    float *staging = widened + mdsk_staging_floats(a->dtype, a->H);
    const float *gamma;

    if (!widened)
        return -ENOMEM;
    gamma = mdsk_read(a->dtype, a->gamma, 0, a->H, widened);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t p = 0; p < parts; p++)
        store_row_sums(a, p * rows, mdsk_min(a->R, (p + 1) * rows), gamma,
                       staging + omp_get_thread_num() * floats);
    return 0;
}

/* Scratch memory: for each part its sum and its block; the total; gamma; the threads'
 * rows. */
int mdsk_norm_bwd_cpu(void *stream, const struct mdsk_norm_bwd *a)
{
    int64_t parts = mdsk_parts(a->R), rows = mdsk_ceil_div(a->R, parts);
    int64_t wide = 2 * a->H,
            floats = mdsk_staging_floats(a->dtype, SCRATCH_ROWS * a->H);
    int threads = mdsk_threads_for(a->R * a->H);
    float *sums = mdsk_scratch((2 * parts + 1) * wide +
                               mdsk_staging_floats(a->dtype, a->H) + threads * floats);
    float *total = sums + 2 * parts * wide, *widened = total + wide;
    float *staging = widened + mdsk_staging_floats(a->dtype, a->H);
    const float *gamma;

    (void)stream;
    if (a->part.step == MDSK_NORM_SUMS)
        return sum_rows_bwd(a);
    if (!sums)
        return -ENOMEM;
    gamma = mdsk_read(a->dtype, a->gamma, 0, a->H, widened);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t p = 0; p < parts; p++) {
        memset(sums + p * wide, 0, (size_t)wide * sizeof *sums);
        norm_rows_bwd(a, gamma, p * rows, mdsk_min(a->R, (p + 1) * rows),
                      sums + (parts + p) * wide, sums + p * wide,
                      staging + omp_get_thread_num() * floats);
    }
    memset(total, 0, (size_t)wide * sizeof *total);
    mdsk_add_partials(parts, wide, sums, total);
    mdsk_add_partials(1, a->H, total, a->dgamma);
    if (a->dbeta)
        mdsk_add_partials(1, a->H, total + a->H, a->dbeta);
    return 0;
}
