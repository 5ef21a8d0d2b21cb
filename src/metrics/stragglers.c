/* SPDX-License-Identifier: BSD-3-Clause */
#include "metrics/stragglers.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>

struct own_time {
    int stage, rank;
    double s;
};

static int compare_own_times(const void *a, const void *b)
{
    const struct own_time *x = a, *y = b;

    if (x->stage != y->stage)
        return x->stage - y->stage;
    if (x->s != y->s)
        return x->s < y->s ? -1 : 1;
    return x->rank - y->rank;
}

/* own[n]: one stage's ranks, sorted; the slowest is the last. */
static void compare_stage(const struct own_time *own, int n, struct mds_straggler *out)
{
    double median = own[(n - 1) / 2].s, most = own[n - 1].s;
    double excess = median > 0 ? most / median - 1 : 0;

    if (out->rank >= 0 && excess <= out->excess)
        return;
    out->rank = own[n - 1].rank;
    out->median_own_s = median;
    out->excess = excess;
}

enum mds_rc mds_straggler_find(const struct mds_rank_time *t, int ranks,
                               struct mds_straggler *out)
{
    struct own_time *own = mds_zalloc((size_t)ranks, sizeof *own);
    int n;

    if (!own)
        return MDS_EMEM;
    *out = (struct mds_straggler){.rank = -1};
    for (int i = 0; i < ranks; i++) {
        own[i] = (struct own_time){t[i].stage, i, t[i].step_s - t[i].wait_s};
        out->most_wait_s = fmax(out->most_wait_s, t[i].wait_s);
    }
    qsort(own, (size_t)ranks, sizeof *own, compare_own_times);
    for (int first = 0; first < ranks; first += n) {
        for (n = 1; first + n < ranks && own[first + n].stage == own[first].stage;)
            n++;
        compare_stage(own + first, n, out);
    }
    out->step_s = t[out->rank].step_s;
    out->wait_s = t[out->rank].wait_s;
    free(own);
    return MDS_OK;
}

int mds_straggler_needs_warning(struct mds_straggler_history *h,
                                const struct mds_straggler *s, double fraction)
{
    const int enough = 4;
    int is_slow = s->excess > fraction && s->excess * s->median_own_s > 0.02;
    int slow = is_slow ? 1 + s->rank : 0;

    h->times = slow == h->slow ? h->times + 1 : 1;
    h->slow = slow;
    if (!slow || h->times < enough || slow == h->warned)
        return 0;
    h->warned = slow;
    return 1;
}
