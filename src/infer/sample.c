/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/sample.h"
#include "base/minmax.h"
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

static void swap(struct mds_infer_candidate *a, struct mds_infer_candidate *b)
{
    const struct mds_infer_candidate t = *a;

    *a = *b;
    *b = t;
}

/* Let the first m of work [n] be the likeliest ones.  Hoare 1961, "Algorithm 65: find".
 */
static void find_first(struct mds_infer_candidate *work, int64_t n, int64_t m)
{
    int64_t low = 0, high = n - 1;

    while (low < high) {
        const struct mds_infer_candidate pivot = work[low + (high - low) / 2];
        int64_t i = low, k = high;

        while (i <= k) {
            while (compare(&work[i], &pivot) < 0)
                i++;
            while (compare(&work[k], &pivot) > 0)
                k--;
            if (i <= k)
                swap(&work[i++], &work[k--]);
        }
        if (m - 1 <= k)
            high = k;
        else if (m - 1 >= i)
            low = i;
        else
            return;
    }
}

/* How many top_k leaves: they come first. */
static int64_t keep_top_k(const struct mds_infer_sampling *s,
                          struct mds_infer_candidate *work, int64_t n)
{
    int64_t kept = s->top_k;
    float least = INFINITY;

    if (kept == 0 || kept >= n)
        return n;
    find_first(work, n, kept);
    for (int64_t i = 0; i < kept; i++)
        least = fminf(least, work[i].logit);
    for (int64_t i = kept; i < n; i++)
        if (work[i].logit == least)
            swap(&work[kept++], &work[i]);
    return kept;
}

/* How many of these top_p leaves: they come first, in their order.  Few are enough, as
 * a rule, so that not all are sorted. */
static int64_t keep_top_p(const struct mds_infer_sampling *s, float top,
                          struct mds_infer_candidate *work, int64_t n)
{
    double all = 0, before = 0;
    int64_t kept = 0;

    for (int64_t i = 0; i < n; i++)
        all += weight(s, work[i].logit, top);
    for (int64_t sorted = mds_min(n, 64);; sorted = mds_min(n, 8 * sorted)) {
        find_first(work, n, sorted);
        qsort(work, (size_t)sorted, sizeof *work, compare);
        for (; kept < sorted && (kept == 0 || before < s->top_p * all); kept++)
            before += weight(s, work[kept].logit, top);
        if (kept < sorted || sorted == n)
            return kept;
    }
}

/* The last in this order that may be chosen. */
static struct mds_infer_candidate last_of(const struct mds_infer_sampling *s,
                                          const float *logits, int64_t n, float top,
                                          struct mds_infer_candidate *work)
{
    struct mds_infer_candidate last;
    int64_t kept;

    for (int64_t i = 0; i < n; i++)
        work[i] = (struct mds_infer_candidate){.logit = logits[i], .id = (int32_t)i};
    kept = keep_top_k(s, work, n);
    if (s->top_p < 1)
        return work[keep_top_p(s, top, work, kept) - 1];
    last = work[0];
    for (int64_t i = 1; i < kept; i++)
        if (compare(&work[i], &last) > 0)
            last = work[i];
    return last;
}

/* ---- choosing ---- */

static int may_be(const struct mds_infer_candidate *last, const float *logits,
                  int64_t i)
{
    const struct mds_infer_candidate c = {.logit = logits[i], .id = (int32_t)i};

    return compare(&c, last) <= 0;
}

/* By the order of ids, so that a rule that excludes nothing changes nothing. */
static int32_t choose(const struct mds_infer_sampling *s, const float *logits,
                      int64_t n, float top, const struct mds_infer_candidate *last,
                      double u, struct mds_infer_candidate *work)
{
    double all = 0, sum = 0;
    int64_t id = 0;

    for (int64_t i = 0; i < n; i++) {
        work[i].weight = may_be(last, logits, i) ? weight(s, logits[i], top) : 0;
        all += work[i].weight;
    }
    for (int64_t i = 0; i < n && (i == 0 || sum <= u * all); i++)
        if (work[i].weight > 0) {
            sum += work[i].weight;
            id = i;
        }
    return (int32_t)id;
}

int32_t mds_infer_sample(const struct mds_infer_sampling *s, const float *logits,
                         int64_t n, double u, struct mds_infer_candidate *work)
{
    struct mds_infer_candidate last = {.logit = -INFINITY, .id = (int32_t)n};
    int32_t best = mdsk_likeliest(logits, n);

    if (best < 0 || s->temperature == 0)
        return best;
    if (s->top_k > 0 || s->top_p < 1)
        last = last_of(s, logits, n, logits[best], work);
    return choose(s, logits, n, logits[best], &last, u, work);
}
