/* SPDX-License-Identifier: BSD-3-Clause */
#include "topo/axes.h"

const struct mds_axis mds_axes[] = {
    {"tensor", "tp", "parallel.tensor", 0},
    {"Ulysses", "ulysses", "parallel.ulysses", 0},
    {"ring", "ring", "parallel.ring", 0},
    {"expert", "ep", "parallel.expert", 1},
    {"data", "dp", NULL, 0},
    {"pipeline", "pipe", "parallel.pipeline", 0},
    {0},
};

_Static_assert(sizeof mds_axes / sizeof *mds_axes == MDS_AXES + 1,
               "a row for each bit");

void mds_axes_format(const struct mds_axis *table, const int64_t *size,
                     struct mds_str *out)
{
    const char *x = "";
    int i = 0;

    while (table[i].name)
        i++;
    while (i-- > 0)
        if (size[i] > table[i].rare) {
            mds_str_add(out, "%s%s %lld", x, table[i].name, (long long)size[i]);
            x = " x ";
        }
}

int64_t mds_axes_model_ranks(const struct mds_axis *table, const int64_t *size)
{
    int64_t ranks = 1;

    for (int i = 0; table[i].name; i++)
        if (table[i].key)
            ranks *= size[i];
    return ranks;
}
