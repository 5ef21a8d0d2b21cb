/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/sample.h"
#include "kernels/next_token.h"
#include "kernels/philox.h"

#include <math.h>
#include <stdlib.h>

double mds_infer_uniform(uint64_t seed, int64_t prompt, int64_t sample, int64_t place)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)place, (uint32_t)prompt,
                                 (uint32_t)((uint64_t)place >> 32) << 16 ^
                                     (uint32_t)((uint64_t)prompt >> 32),
                                 (uint32_t)sample};
    uint32_t word[4];

    mdsk_philox(key, counter, word);
    return ((double)(word[0] >> 5) * 67108864 + (double)(word[1] >> 6)) /
           9007199254740992.0;
}

/* ---- which tokens may be chosen ---- */

/* Likelier ones first. */
static int compare(const void *a, const void *b)
{
    const struct mds_infer_candidate *x = a, *y = b;

    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static double weight(const struct mds_infer_sampling *s, float logit, float top)
{
    return exp(((double)logit - (double)top) / s->temperature);
}

/* How many of the sorted ones top_k leaves. */
static int64_t count_top_k(const struct mds_infer_sampling *s,
                           const struct mds_infer_candidate *sorted, int64_t n)
{
    int64_t k = s->top_k;

    if (k == 0 || k >= n)
        return n;
    while (k < n && sorted[k].logit == sorted[k - 1].logit)
        k++;
    return k;
}

static int64_t count_top_p(const struct mds_infer_sampling *s,
                           const struct mds_infer_candidate *sorted, int64_t n)
{
    double all = 0, before = 0;
    int64_t kept = 0;

    for (int64_t i = 0; i < n; i++)
        all += weight(s, sorted[i].logit, sorted[0].logit);
    do
        before += weight(s, sorted[kept++].logit, sorted[0].logit);
    while (kept < n && before < s->top_p * all);
    return kept;
}

/* The last in this order that may be chosen. */
static struct mds_infer_candidate last_of(const struct mds_infer_sampling *s,
                                          const float *logits, int64_t n,
                                          struct mds_infer_candidate *work)
{
    int64_t kept;

    for (int64_t i = 0; i < n; i++)
        work[i] = (struct mds_infer_candidate){logits[i], (int32_t)i};
    qsort(work, (size_t)n, sizeof *work, compare);
    kept = count_top_k(s, work, n);
    if (s->top_p < 1)
        kept = count_top_p(s, work, kept);
    return work[kept - 1];
}

/* ---- choosing ---- */

static int may_be(const struct mds_infer_candidate *last, const float *logits,
                  int64_t i)
{
    const struct mds_infer_candidate c = {logits[i], (int32_t)i};

    return compare(&c, last) <= 0;
}

/* By the order of ids, so that a rule that excludes nothing changes nothing. */
static int32_t choose(const struct mds_infer_sampling *s, const float *logits,
                      int64_t n, float top, const struct mds_infer_candidate *last,
                      double u)
{
    double all = 0, sum = 0;
    int64_t id = 0;

    for (int64_t i = 0; i < n; i++)
        if (may_be(last, logits, i))
            all += weight(s, logits[i], top);
    for (int64_t i = 0; i < n && (i == 0 || sum <= u * all); i++)
        if (may_be(last, logits, i) && weight(s, logits[i], top) > 0) {
            sum += weight(s, logits[i], top);
            id = i;
        }
    return (int32_t)id;
}

int32_t mds_infer_sample(const struct mds_infer_sampling *s, const float *logits,
                         int64_t n, double u, struct mds_infer_candidate *work)
{
    struct mds_infer_candidate last = {-INFINITY, (int32_t)n};
    int32_t best = mdsk_likeliest(logits, n);

    if (best < 0 || s->temperature == 0)
        return best;
    if (s->top_k > 0 || s->top_p < 1)
        last = last_of(s, logits, n, work);
    return choose(s, logits, n, logits[best], &last, u);
}
