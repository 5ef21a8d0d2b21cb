/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/mix.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>

struct mds_mix {
    int n;
    int64_t *share;    /* [n] slots of each source, sum MDS_MIX_PERIOD */
    uint16_t *source;  /* [MDS_MIX_PERIOD] of each slot */
    uint32_t *earlier; /* [MDS_MIX_PERIOD] slots of the same source before */
};

/* Round the shares of MDS_MIX_PERIOD slots, to 1 or more.  To make their sum right, add
 * or take one slot at a time where the rounding error is largest. */
static void round_weights_to_slots(const double *weights, int n, int64_t *share)
{
    double total = 0;
    int64_t sum = 0;

    for (int k = 0; k < n; k++)
        total += weights[k];
    for (int k = 0; k < n; k++) {
        share[k] = llround(weights[k] / total * MDS_MIX_PERIOD);
        share[k] = share[k] > 0 ? share[k] : 1;
        sum += share[k];
    }
    while (sum != MDS_MIX_PERIOD) {
        int step = sum < MDS_MIX_PERIOD ? 1 : -1, best = -1;
        double furthest = -INFINITY;

        for (int k = 0; k < n; k++) {
            double behind = weights[k] / total * MDS_MIX_PERIOD - (double)share[k];

            if (step * behind > furthest && share[k] + step > 0) {
                furthest = step * behind;
                best = k;
            }
        }
        share[best] += step;
        sum += step;
    }
}

/* Like Megatron's build_blending_indices, but in integers: after slot i, source k
 * should have share[k] * (i + 1) / PERIOD of the slots. */
static void assign_slots(struct mds_mix *m, int64_t *had)
{
    for (int64_t i = 0; i < MDS_MIX_PERIOD; i++) {
        int64_t furthest = INT64_MIN;
        int best = 0;

        for (int k = 0; k < m->n; k++) {
            int64_t behind = m->share[k] * (i + 1) - had[k] * MDS_MIX_PERIOD;

            if (behind > furthest) {
                furthest = behind;
                best = k;
            }
        }
        m->source[i] = (uint16_t)best;
        m->earlier[i] = (uint32_t)had[best]++;
    }
}

static enum mds_rc check_weights(const double *weights, int n)
{
    if (n < 1 || n > MDS_MIX_PERIOD / 16)
        return mds_fail(MDS_EUSER, "a mix of %d sources; at most %d are possible", n,
                        MDS_MIX_PERIOD / 16);
    for (int k = 0; k < n; k++)
        if (!(weights[k] > 0) || !isfinite(weights[k]))
            return mds_fail(MDS_EUSER,
                            "weight %g of source %d of the mix: must be a positive "
                            "number",
                            weights[k], k + 1);
    return MDS_OK;
}

enum mds_rc mds_mix_create(const double *weights, int n, struct mds_mix **out)
{
    struct mds_mix *m;
    int64_t *had;

    MDS_TRY(check_weights(weights, n));
    m = mds_zalloc(1, sizeof *m);
    if (!m)
        return MDS_EMEM;
    m->n = n;
    m->share = mds_zalloc((size_t)n, sizeof *m->share);
    m->source = mds_zalloc(MDS_MIX_PERIOD, sizeof *m->source);
    m->earlier = mds_zalloc(MDS_MIX_PERIOD, sizeof *m->earlier);
    had = mds_zalloc((size_t)n, sizeof *had);
    if (!m->share || !m->source || !m->earlier || !had) {
        free(had);
        mds_mix_destroy(m);
        return MDS_EMEM;
    }
    round_weights_to_slots(weights, n, m->share);
    assign_slots(m, had);
    free(had);
    *out = m;
    return MDS_OK;
}

void mds_mix_destroy(struct mds_mix *m)
{
    if (!m)
        return;
    free(m->share);
    free(m->source);
    free(m->earlier);
    free(m);
}

void mds_mix_pick(const struct mds_mix *m, int64_t i, int *source, int64_t *within)
{
    int64_t slot = i % MDS_MIX_PERIOD;
    int k = m->source[slot];

    *source = k;
    *within = i / MDS_MIX_PERIOD * m->share[k] + m->earlier[slot];
}

int64_t mds_mix_share(const struct mds_mix *m, int k)
{
    return m->share[k];
}

void mds_mix_count(const struct mds_mix *m, int64_t i, int64_t *counts)
{
    for (int k = 0; k < m->n; k++)
        counts[k] = i / MDS_MIX_PERIOD * m->share[k];
    for (int64_t slot = 0; slot < i % MDS_MIX_PERIOD; slot++)
        counts[m->source[slot]]++;
}
