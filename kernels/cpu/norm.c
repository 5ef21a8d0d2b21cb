#include "kernels/norm.h"

#include <errno.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

#include <math.h>

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

MDSK_INLINED void norm_row(const struct mdsk_norm_fwd *a, int64_t row, const float *x)
{
    const float *gamma = a->gamma, *beta = a->beta;
    float *y = (float *)a->y + row * a->H;
    float mean = 0, rstd;

    if (a->kind == MDSK_LAYERNORM)
        a->mean[row] = mean = row_sum(x, a->H) / (float)a->H;
    rstd = 1 / sqrtf(row_squares(x, a->H, mean) / (float)a->H + a->eps);
    a->rstd[row] = rstd;
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

MDSK_DISPATCH static void norm_rows(const struct mdsk_norm_fwd *a, int64_t r0,
                                    int64_t r1)
{
    for (int64_t row = r0; row < r1; row++) {
        const float *x = (const float *)a->x + row * a->H;

        if (a->r) {
            const float *r = (const float *)a->r + row * a->H;
            float *sum = (float *)a->sum + row * a->H;

#pragma omp simd
            for (int64_t i = 0; i < a->H; i++)
                sum[i] = x[i] + r[i];
            x = sum;
        }
        norm_row(a, row, x);
    }
}

int mdsk_norm_fwd_cpu(void *stream, const struct mdsk_norm_fwd *a)
{
    enum { ROWS = 16 };

    (void)stream;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(a->R * a->H))
    for (int64_t r = 0; r < a->R; r += ROWS)
        norm_rows(a, r, mdsk_min(r + ROWS, a->R));
    return 0;
}

/* dx of one row, and its share of dgamma and dbeta.  With xhat = (x - mean) rstd and g
 * = dy gamma: dx = rstd (g - mean(g) - xhat mean(g xhat)), without mean(g) in RMSNorm.
 */
MDSK_INLINED void norm_row_bwd(const struct mdsk_norm_bwd *a, int64_t row,
                               float *dgamma, float *dbeta)
{
    const float *x = (const float *)a->x + row * a->H;
    const float *dy = (const float *)a->dy + row * a->H;
    const float *gamma = a->gamma;
    float *dx = (float *)a->dx + row * a->H;
    float rstd = a->rstd[row], mean = a->kind == MDSK_LAYERNORM ? a->mean[row] : 0;
    float sum_g = 0, sum_gx = 0;

#pragma omp simd reduction(+ : sum_g, sum_gx)
    for (int64_t i = 0; i < a->H; i++) {
        sum_g += dy[i] * gamma[i];
        sum_gx += dy[i] * gamma[i] * ((x[i] - mean) * rstd);
    }
    sum_g = a->kind == MDSK_LAYERNORM ? sum_g / (float)a->H : 0;
    sum_gx /= (float)a->H;
#pragma omp simd
    for (int64_t i = 0; i < a->H; i++) {
        float xhat = (x[i] - mean) * rstd;

        dx[i] += rstd * (dy[i] * gamma[i] - sum_g - xhat * sum_gx);
        dgamma[i] += dy[i] * xhat;
        dbeta[i] += dy[i];
    }
}

/* Rows r0 .. r1-1; their dgamma and dbeta go to sum [2H] by way of block [2H]. */
MDSK_DISPATCH static void norm_rows_bwd(const struct mdsk_norm_bwd *a, int64_t r0,
                                        int64_t r1, float *block, float *sum)
{
    for (int64_t b0 = r0; b0 < r1; b0 += 64) {
        int64_t b1 = mdsk_min(b0 + 64, r1);

        memset(block, 0, 2 * (size_t)a->H * sizeof *block);
        for (int64_t row = b0; row < b1; row++)
            norm_row_bwd(a, row, block, block + a->H);
#pragma omp simd
        for (int64_t i = 0; i < 2 * a->H; i++)
            sum[i] += block[i];
    }
}

int mdsk_norm_bwd_cpu(void *stream, const struct mdsk_norm_bwd *a)
{
    int64_t parts = mdsk_parts(a->R), rows = mdsk_ceil_div(a->R, parts);
    int64_t wide = 2 * a->H;
    float *room = mdsk_scratch((2 * parts + 1) * wide);

    (void)stream;
    if (!room)
        return -ENOMEM;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(a->R * a->H))
    for (int64_t p = 0; p < parts; p++) {
        memset(room + p * wide, 0, (size_t)wide * sizeof *room);
        norm_rows_bwd(a, p * rows, mdsk_min(a->R, (p + 1) * rows),
                      room + (parts + p) * wide, room + p * wide);
    }
    memset(room + 2 * parts * wide, 0, (size_t)wide * sizeof *room);
    mdsk_add_partials(parts, wide, room, room + 2 * parts * wide);
    mdsk_add_partials(1, a->H, room + 2 * parts * wide, a->dgamma);
    if (a->dbeta)
        mdsk_add_partials(1, a->H, room + 2 * parts * wide + a->H, a->dbeta);
    return 0;
}
