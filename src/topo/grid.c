/* SPDX-License-Identifier: BSD-3-Clause */
#include "topo/grid.h"

#include "base/str.h"
#include "base/units.h"

#include <stdint.h>

/* "1, 2, 4": the divisors of n. */
static void add_divisors(struct mds_str *s, int n)
{
    const char *comma = "";

    for (int d = 1; d <= n; d++)
        if (n % d == 0) {
            mds_str_add(s, "%s%d", comma, d);
            comma = ", ";
        }
}

static enum mds_rc fail_world(int world, int tp, int sp, int pp)
{
    int64_t share = (int64_t)tp * sp * pp, rest = (int64_t)sp * pp;
    int64_t below = world / share * share;
    struct mds_str s = {0};
    enum mds_rc rc;

    mds_str_add(&s, "start ");
    if (below > 0)
        mds_str_add(&s, "%lld or ", (long long)below);
    mds_str_add(&s, "%lld rank%s", (long long)(below + share),
                mds_plural(below + share));
    if (world % rest == 0) { /* tensor ranks may be any share of what is left */
        mds_str_add(&s, ", or use a tensor parallel size of ");
        add_divisors(&s, (int)(world / rest));
    }
    rc =
        mds_fail(MDS_EUSER,
                 "%d rank%s cannot be shared out to tensor %d x sequence %d x pipeline "
                 "%d = %lld: %s",
                 world, mds_plural(world), tp, sp, pp, (long long)share,
                 s.failed ? "the ranks must be a multiple of that" : s.s);
    mds_str_fini(&s);
    return rc;
}

enum mds_rc mds_grid_init(struct mds_grid *g, int world, int tp, int sp, int pp)
{
    int64_t share = 1;
    const int sizes[] = {tp, sp, pp};

    if (world < 1)
        return mds_fail(MDS_EBUG, "grid: %d ranks", world);
    for (int i = 0; i < 3; i++) {
        if (sizes[i] < 1 || sizes[i] > 1 << 20)
            return mds_fail(
                MDS_EUSER,
                "parallel sizes tensor %d, sequence %d, pipeline %d: each must "
                "be at least 1 and at most %d",
                tp, sp, pp, 1 << 20);
        share *= sizes[i];
    }
    if (world % share != 0)
        return fail_world(world, tp, sp, pp);
    *g = (struct mds_grid){
        .pp = pp, .dp = (int)(world / share), .sp = sp, .tp = tp, .world = world};
    return MDS_OK;
}

struct mds_place mds_grid_place(const struct mds_grid *g, int rank)
{
    struct mds_place p;

    p.tp = rank % g->tp;
    rank /= g->tp;
    p.sp = rank % g->sp;
    rank /= g->sp;
    p.dp = rank % g->dp;
    p.pp = rank / g->dp;
    return p;
}

int mds_grid_rank(const struct mds_grid *g, struct mds_place p)
{
    return ((p.pp * g->dp + p.dp) * g->sp + p.sp) * g->tp + p.tp;
}

int mds_grid_axis_size(const struct mds_grid *g, enum mds_axis axis)
{
    switch (axis) {
    case MDS_AXIS_TP:
        return g->tp;
    case MDS_AXIS_SP:
        return g->sp;
    case MDS_AXIS_DP:
        return g->dp;
    case MDS_AXIS_PP:
        return g->pp;
    case MDS_AXIS_DPSP:
        return g->dp * g->sp;
    }
    return 0;
}

int mds_grid_group(const struct mds_grid *g, int rank, enum mds_axis axis, int *members)
{
    struct mds_place p = mds_grid_place(g, rank);
    int n = mds_grid_axis_size(g, axis);

    for (int i = 0; i < n; i++) {
        switch (axis) {
        case MDS_AXIS_TP:
            p.tp = i;
            break;
        case MDS_AXIS_SP:
            p.sp = i;
            break;
        case MDS_AXIS_DP:
            p.dp = i;
            break;
        case MDS_AXIS_PP:
            p.pp = i;
            break;
        case MDS_AXIS_DPSP:
            p.sp = i % g->sp;
            p.dp = i / g->sp;
            break;
        }
        members[i] = mds_grid_rank(g, p);
    }
    return n;
}

int mds_span_in_node(struct mds_span s, int per_node)
{
    int n = per_node / s.stride;

    if (n < 1)
        return 1;
    return n < s.size ? n : s.size;
}
