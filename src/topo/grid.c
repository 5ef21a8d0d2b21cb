/* SPDX-License-Identifier: BSD-3-Clause */
#include "topo/grid.h"

#include "base/minmax.h"
#include "base/units.h"

static int has_bit(unsigned axes, int bit)
{
    return axes >> bit & 1;
}

/* Cut the axes that row `row` lies within: the lower bits get its ranks. */
static void split_axes(struct mds_grid *g, int row, int64_t ranks)
{
    for (int bit = 0; bit < 2 * row; bit += 2)
        if (has_bit(g->axis[row].within, bit)) {
            g->size[bit] = (int)mds_gcd(ranks, g->size[bit + 1]);
            g->size[bit + 1] /= g->size[bit];
            ranks /= g->size[bit];
        }
}

enum mds_rc mds_grid_init(struct mds_grid *out, const struct mds_axis *table,
                          const int64_t *size, int world)
{
    struct mds_grid g = {.axis = table, .world = world};
    int64_t replica;
    int rest = -1;

    if (world < 1)
        return mds_fail(MDS_EBUG, "grid: %d ranks", world);
    for (int i = 0; table[i].name; i++, g.axes++) {
        if (i == MDS_AXES_MOST)
            return mds_fail(MDS_EBUG, "grid: more than %d axes", MDS_AXES_MOST);
        g.size[2 * i] = g.size[2 * i + 1] = 1;
        if (!table[i].key) {
            rest = i;
            continue;
        }
        if (size[i] < 1 || size[i] > 1 << 20)
            return mds_fail(MDS_EUSER,
                            "%s parallel size %lld: must be at least 1 and at most %d",
                            table[i].name, (long long)size[i], 1 << 20);
        if (!table[i].within)
            g.size[2 * i + 1] = (int)size[i];
    }
    if (rest < 0)
        return mds_fail(MDS_EBUG,
                        "grid: no axis without a key takes the remaining ranks");
    replica = mds_axes_model_ranks(table, size);
    if (world % replica != 0)
        return mds_fail(
            MDS_EUSER,
            "%d rank%s cannot be divided into model replicas of %lld ranks: "
            "start a multiple of that",
            world, mds_plural(world), (long long)replica);
    g.size[2 * rest + 1] = world / mds_grid_size(&g, MDS_AXES_ALL);
    for (int i = 0; i < g.axes; i++)
        if (table[i].within)
            split_axes(&g, i, size[i]);
    *out = g;
    return MDS_OK;
}

int mds_grid_size(const struct mds_grid *g, unsigned axes)
{
    int n = 1;

    for (int i = 0; i < 2 * g->axes && axes >> i; i++)
        if (has_bit(axes, i))
            n *= g->size[i];
    return n;
}

int mds_grid_stride(const struct mds_grid *g, unsigned axes)
{
    int n = 1;

    for (int i = 0; i < 2 * g->axes; i++)
        if (!has_bit(axes, i))
            n *= g->size[i];
        else if (g->size[i] > 1)
            break;
    return n;
}

int mds_grid_rank(const struct mds_grid *g, int rank, unsigned axes)
{
    int group_rank = 0, n = 1;

    for (int i = 0; i < 2 * g->axes && axes >> i; i++) {
        if (has_bit(axes, i)) {
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

    for (int i = 0; i < 2 * g->axes; i++) {
        if (has_bit(axes, i)) {
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
