/* SPDX-License-Identifier: BSD-3-Clause */
#include "topo/axes.h"
#include "base/minmax.h"

const struct mds_axis mds_axes[] = {
    {"tensor", "tp", "parallel.tensor", 0},
    {"Ulysses", "ulysses", "parallel.ulysses", 0},
    {"ring", "ring", "parallel.ring", 0},
    {"data", "dp", NULL, 0},
    {"pipeline", "pipe", "parallel.pipeline", 0},
    {"expert", "ep", "parallel.expert", MDS_AXES_TOKENS},
    {0},
};

_Static_assert(sizeof mds_axes / sizeof *mds_axes == MDS_AXES + 1,
               "a row for each bit");

void mds_axes_format(const struct mds_axis *table, const int64_t *size,
                     struct mds_str *out)
{
    const char *x = "";
    int n = 0;

    while (table[n].name && !table[n].within)
        n++;
    for (int i = n - 1; i >= 0; i--)
        if (size[i] > 0) {
            mds_str_add(out, "%s%s %lld", x, table[i].name, (long long)size[i]);
            x = " x ";
        }
    if (table[n].name && size[n] > 1)
        mds_str_add(out, " (%s %lld)", table[n].name, (long long)size[n]);
}

/* What axes with a size of their own leave of an axis within them.  Each takes all that
 * it can of each prime, so of a number that divides their product nothing is left. */
static int64_t left_within(const struct mds_axis *table, const int64_t *size, int row)
{
    int64_t left = size[row];

    for (int i = 0; i < row; i++)
        if (table[i].key && mds_axis_bits(table, i) & table[row].within)
            left /= mds_gcd(left, size[i]);
    return left;
}

/* Without overflow: more ranks than there can be are as good as any. */
static int64_t multiply_capped(int64_t ranks, int64_t size)
{
    return size > INT64_MAX / ranks ? INT64_MAX : ranks * size;
}

int64_t mds_axes_model_ranks(const struct mds_axis *table, const int64_t *size)
{
    int64_t ranks = 1;

    for (int i = 0; table[i].name; i++)
        if (table[i].within)
            ranks = multiply_capped(ranks, left_within(table, size, i));
        else if (table[i].key)
            ranks = multiply_capped(ranks, size[i]);
    return ranks;
}
