/* SPDX-License-Identifier: BSD-3-Clause */
/* Which experts a row goes to, and the gradient of that. */
#include "kernels/experts.h"
#include "kernels/table.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/storage.h"

/* The order of the sum depends on H alone, so a row's experts do not depend on which
 * rows are beside it. */
MDSK_DISPATCH static void dot_all(int64_t E, int64_t H, const float *x, const float *w,
                                  float *out)
{
    for (int64_t e = 0; e < E; e++) {
        float sum = 0;

#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < H; i++)
            sum += x[i] * w[e * H + i];
        out[e] = sum;
    }
}

/* y += a x */
MDSK_DISPATCH static void add_scaled(int64_t n, float a, const float *x, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

/* p = softmax of n logits; returns the log of its sum. */
static float softmax(int64_t n, const float *logit, float *p)
{
    float max = logit[0], sum = 0;

    for (int64_t i = 1; i < n; i++)
        max = logit[i] > max ? logit[i] : max;
    for (int64_t i = 0; i < n; i++)
        sum += p[i] = expf(logit[i] - max);
    for (int64_t i = 0; i < n; i++)
        p[i] /= sum;
    return max + logf(sum);
}

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

/* The k largest scores' numbers, largest first.  NaN is never larger. */
static void choose(int64_t E, int64_t k, const float *score, int32_t *choice)
{
    for (int64_t j = 0; j < k; j++) {
        int64_t best = -1;

        for (int64_t e = 0; e < E; e++) {
            int taken = 0;

            for (int64_t i = 0; i < j; i++)
                taken |= choice[i] == e;
            if (!taken && (best < 0 || score[e] > score[best]))
                best = e;
        }
        choice[j] = (int32_t)best;
    }
}

/* logit, p, chosen [E] each: p is the softmax */
static void weigh_by_softmax(const struct mdsk_route *a, int64_t r, const float *logit,
                             const float *p, float *chosen)
{
    int32_t *choice = a->choice + r * a->k;
    float *weight = a->weight + r * a->k;

    choose(a->E, a->k, logit, choice);
    for (int64_t j = 0; j < a->k; j++)
        chosen[j] = (a->of_all ? p : logit)[choice[j]];
    if (a->of_all)
        memcpy(weight, chosen, (size_t)a->k * sizeof *weight);
    else
        softmax(a->k, chosen, weight);
}

/* The same; score [E]: scratch */
static void weigh_by_sigmoid(const struct mdsk_route *a, int64_t r, const float *logit,
                             float *score)
{
    int32_t *choice = a->choice + r * a->k;
    float *weight = a->weight + r * a->k, sum = MDSK_ROUTE_LEAST;

    for (int64_t e = 0; e < a->E; e++)
        score[e] = sigmoid(logit[e]);
    if (a->unbiased)
        choose(a->E, a->k, score, a->unbiased + r * a->k);
    for (int64_t e = 0; e < a->E && a->bias; e++)
        score[e] += a->bias[e];
    choose(a->E, a->k, score, choice);
    for (int64_t j = 0; j < a->k; j++)
        sum += weight[j] = sigmoid(logit[choice[j]]);
    for (int64_t j = 0; j < a->k && !a->of_all; j++)
        weight[j] /= sum;
}

/* logit, p, chosen [E] each */
static void route_row(const struct mdsk_route *a, int64_t r, const float *logit,
                      float *p, float *chosen)
{
    float *scores = a->scores ? a->scores + r * (a->E + 1) : NULL;
    float lse = softmax(a->E, logit, p);

    if (a->sigmoid)
        weigh_by_sigmoid(a, r, logit, chosen);
    else
        weigh_by_softmax(a, r, logit, p, chosen);
    for (int64_t j = 0; j < a->k; j++)
        a->weight[r * a->k + j] *= a->scale;
    if (!scores)
        return;
    memcpy(scores, a->sigmoid ? logit : p, (size_t)a->E * sizeof *p);
    scores[a->E] = lse;
}

/* Scratch memory: W; for each thread a row of x, and three of E. */
int mdsk_route_cpu(void *stream, const struct mdsk_route *a)
{
    int threads = mdsk_threads_for(a->R * a->H);
    int64_t w_floats = mdsk_staging_floats(a->dtype, a->E * a->H);
    int64_t floats = mdsk_staging_floats(a->dtype, a->H) + 3 * a->E;
    float *scratch = mdsk_scratch(w_floats + threads * floats);
    const float *w;

    (void)stream;
    if (!scratch)
        return -ENOMEM;
    w = mdsk_read(a->dtype, a->w, 0, a->E * a->H, scratch);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t r = 0; r < a->R; r++) {
        float *logit = scratch + w_floats + omp_get_thread_num() * floats;

        dot_all(a->E, a->H, mdsk_read(a->dtype, a->x, r * a->H, a->H, logit + 3 * a->E),
                w, logit);
        route_row(a, r, logit, logit + a->E, logit + 2 * a->E);
    }
    return 0;
}

int mdsk_route_sort_cpu(void *stream, const struct mdsk_route_sort *a)
{
    int32_t next[MDSK_EXPERTS_MOST];
    int64_t copies = a->R * a->k;

    (void)stream;
    memset(a->first, 0, (size_t)(a->E + 1) * sizeof *a->first);
    for (int64_t c = 0; c < copies; c++)
        a->first[a->choice[c] + 1]++;
    for (int64_t e = 0; e < a->E; e++) {
        a->first[e + 1] += a->first[e];
        next[e] = a->first[e];
    }
    for (int64_t c = 0; c < copies; c++) {
        a->to[c] = next[a->choice[c]]++;
        a->from[a->to[c]] = (int32_t)c;
    }
    return 0;
}

int mdsk_route_load_cpu(void *stream, const struct mdsk_route_load *a)
{
    (void)stream;
    memset(a->load, 0, (size_t)(a->groups * a->E) * sizeof *a->load);
    for (int64_t r = 0; r < a->R; r++)
        for (int64_t j = 0; j < a->k; j++)
            a->load[r % a->groups * a->E + a->choice[r * a->k + j]]++;
    return 0;
}

/* The sum over experts of a row's shares, each times the load. */
static double share_of_load(const struct mdsk_route_losses *a, int64_t r)
{
    const float *p = a->scores + r * (a->E + 1), *load = a->load + r % a->groups * a->E;
    double sum = 0, all = a->sigmoid ? (double)MDSK_ROUTE_LEAST : 1;

    for (int64_t e = 0; e < a->E; e++) {
        float s = a->sigmoid ? sigmoid(p[e]) : p[e];

        sum += (double)s * (double)load[e];
        all += a->sigmoid ? (double)s : 0;
    }
    return sum / all;
}

int mdsk_route_losses_cpu(void *stream, const struct mdsk_route_losses *a)
{
    (void)stream;
    for (int64_t r = 0; r < a->R; r++) {
        double lse = (double)a->scores[r * (a->E + 1) + a->E];

        a->sum[0] += share_of_load(a, r);
        a->sum[1] += lse * lse;
    }
    return 0;
}

/* ---- backward ---- */

/* What balance adds to the gradient of the score of expert e of row r. */
static float balance_at(const struct mdsk_route_bwd *a, int64_t r, int64_t e)
{
    return a->load ? a->balance * a->load[r % a->groups * a->E + e] : 0;
}

/* dl [E]: the gradient of row r's logits.  dp [E]: scratch. */
static void softmax_bwd(const struct mdsk_route_bwd *a, int64_t r, float *dp, float *dl)
{
    const float *p = a->scores + r * (a->E + 1), *w = a->weight + r * a->k;
    const float *dw = a->dweight + r * a->k;
    const int32_t *choice = a->choice + r * a->k;
    float mean = 0;

    for (int64_t e = 0; e < a->E; e++)
        dp[e] = balance_at(a, r, e);
    for (int64_t j = 0; j < a->k && a->of_all; j++)
        dp[choice[j]] += a->scale * dw[j];
    for (int64_t e = 0; e < a->E; e++)
        mean += p[e] * dp[e];
    for (int64_t e = 0; e < a->E; e++)
        dl[e] = p[e] * (dp[e] - mean + 2 * a->z * p[a->E]);
    if (a->of_all)
        return;
    mean = 0;
    for (int64_t j = 0; j < a->k; j++)
        mean += w[j] * dw[j];
    for (int64_t j = 0; j < a->k; j++)
        dl[choice[j]] += w[j] * (dw[j] - mean / a->scale);
}

/* The same of sigmoids s, whose derivative is s (1 - s).  share [E]: scratch. */
static void sigmoid_bwd(const struct mdsk_route_bwd *a, int64_t r, float *share,
                        float *dl)
{
    const float *logit = a->scores + r * (a->E + 1), *w = a->weight + r * a->k;
    const float *dw = a->dweight + r * a->k;
    const int32_t *choice = a->choice + r * a->k;
    float sum = MDSK_ROUTE_LEAST, mean = 0;

    for (int64_t e = 0; e < a->E; e++)
        sum += share[e] = sigmoid(logit[e]);
    for (int64_t e = 0; e < a->E; e++)
        mean += (share[e] /= sum) * balance_at(a, r, e);
    for (int64_t e = 0; e < a->E; e++)
        dl[e] = share[e] * sigmoid(-logit[e]) * (balance_at(a, r, e) - mean) +
                2 * a->z * logit[a->E] * expf(logit[e] - logit[a->E]);
    mean = 0;
    for (int64_t j = 0; j < a->k && !a->of_all; j++)
        mean += w[j] * dw[j];
    for (int64_t j = 0; j < a->k; j++)
        dl[choice[j]] += w[j] * sigmoid(-logit[choice[j]]) * (dw[j] - mean / a->scale);
}

static void logits_bwd(const struct mdsk_route_bwd *a, int64_t r, float *own, float *dl)
{
    if (a->sigmoid)
        sigmoid_bwd(a, r, own, dl);
    else
        softmax_bwd(a, r, own, dl);
}

/* dW's columns c .. c+n-1, summed over 64 rows at a time.  block [E,n], staging [n]. */
static void weight_bwd(const struct mdsk_route_bwd *a, int64_t c, int64_t n,
                       float *block, float *staging)
{
    for (int64_t b = 0; b < a->R; b += 64) {
        memset(block, 0, (size_t)(a->E * n) * sizeof *block);
        for (int64_t r = b; r < mdsk_min(b + 64, a->R); r++) {
            const float *x = mdsk_read(a->dtype, a->x, r * a->H + c, n, staging);

            for (int64_t e = 0; e < a->E; e++)
                add_scaled(n, a->dlogits[r * a->E + e], x, block + e * n);
        }
        for (int64_t e = 0; e < a->E; e++)
            mdsk_add_to(n, block + e * n, a->dw + e * a->H + c);
    }
}

/* staging [H] */
static void input_bwd(const struct mdsk_route_bwd *a, const float *w, const float *dl,
                      int64_t r, float *staging)
{
    float *dx = mdsk_edit(a->dtype, a->dx, r * a->H, a->H, staging);

    for (int64_t e = 0; e < a->E; e++)
        add_scaled(a->H, dl[e], w + e * a->H, dx);
    mdsk_put(a->dtype, dx, a->H, a->dx, r * a->H);
}

/* Scratch memory: W; for each thread a block, and staging. */
int mdsk_route_bwd_cpu(void *stream, const struct mdsk_route_bwd *a)
{
    enum { WIDE = 64 };
    int threads = mdsk_threads_for(a->R * a->H);
    int64_t w_floats = mdsk_staging_floats(a->dtype, a->E * a->H);
    int64_t floats = a->E * WIDE + (a->H > WIDE ? a->H : WIDE);
    float *scratch = mdsk_scratch(w_floats + threads * floats);
    float *own = scratch + w_floats;
    const float *w;

    (void)stream;
    if (!scratch)
        return -ENOMEM;
    w = mdsk_read(a->dtype, a->w, 0, a->E * a->H, scratch);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t r = 0; r < a->R; r++) {
        float *mine = own + omp_get_thread_num() * floats;

        logits_bwd(a, r, mine, a->dlogits + r * a->E);
        input_bwd(a, w, a->dlogits + r * a->E, r, mine + a->E * WIDE);
    }
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t c = 0; c < a->H; c += WIDE) {
        float *mine = own + omp_get_thread_num() * floats;

        weight_bwd(a, c, mdsk_min(WIDE, a->H - c), mine, mine + a->E * WIDE);
    }
    return 0;
}
