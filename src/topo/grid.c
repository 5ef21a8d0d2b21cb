/* SPDX-License-Identifier: BSD-3-Clause */
#include "topo/grid.h"

#include "base/units.h"

static int has_axis(unsigned axes, int row)
{
    return axes >> row & 1;
}

/* Multiply without overflow: once the product exceeds world, its value does not matter.
 */
static int64_t multiply_capped(int64_t replica, int64_t size, int world)
{
    return replica > world ? replica : replica * size;
}

enum mds_rc mds_grid_init(struct mds_grid *out, const struct mds_axis *table,
                          const int64_t *size, int world)
{
    struct mds_grid g = {.axis = table, .world = world};
    int64_t replica = 1;
    int rest = -1;

    if (world < 1)
        return mds_fail(MDS_EBUG, "grid: %d ranks", world);
    for (int i = 0; table[i].name; i++, g.axes++) {
        if (i == MDS_AXES_MOST)
            return mds_fail(MDS_EBUG, "grid: more than %d axes", MDS_AXES_MOST);
        if (!table[i].key) {
            rest = i;
            continue;
        }
        if (size[i] < 1 || size[i] > 1 << 20)
            return mds_fail(MDS_EUSER,
                            "%s parallel size %lld: must be at least 1 and at most %d",
                            table[i].name, (long long)size[i], 1 << 20);
        g.size[i] = (int)size[i];
        replica = multiply_capped(replica, size[i], world);
    }
    if (rest < 0)
        return mds_fail(MDS_EBUG,
                        "grid: no axis without a key takes the remaining ranks");
    if (world % replica != 0)
        return mds_fail(
            MDS_EUSER,
            "%d rank%s cannot be divided into model replicas of %lld ranks: "
            "start a multiple of that",
            world, mds_plural(world), (long long)replica);
    g.size[rest] = (int)(world / replica);
    *out = g;
    return MDS_OK;
}

int mds_grid_size(const struct mds_grid *g, unsigned axes)
{
    int n = 1;

    for (int i = 0; i < g->axes && axes >> i; i++)
        if (has_axis(axes, i))
            n *= g->size[i];
    return n;
}

int mds_grid_stride(const struct mds_grid *g, unsigned axes)
{
    return mds_grid_size(g, (axes & -axes) - 1);
}

int mds_grid_rank(const struct mds_grid *g, int rank, unsigned axes)
{
    int group_rank = 0, n = 1;

    for (int i = 0; i < g->axes && axes >> i; i++) {
        if (has_axis(axes, i)) {
            group_rank += rank % g->size[i] * n;
            n *= g->size[i];
        }
        rank /= g->size[i];
    }
    return group_rank;
}

int mds_grid_member(const struct mds_grid *g, int rank, unsigned axes, int group_rank)
{
    int member = rank, stride = 1;

    for (int i = 0; i < g->axes; i++) {
        if (has_axis(axes, i)) {
            member += (group_rank % g->size[i] - rank / stride % g->size[i]) * stride;
            group_rank /= g->size[i];
        }
        stride *= g->size[i];
    }
    return member;
}

int mds_span_in_node(struct mds_rank_span s, int per_node)
{
    int n = per_node / s.stride;

    if (n < 1)
        return 1;
    return n < s.size ? n : s.size;
}
