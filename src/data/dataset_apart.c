/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/options.h"
#include "data/dataset_impl.h"

#include <math.h>

static double share_apart(const struct mds_packing *p, int64_t seq_length)
{
    const struct mds_packing_stats *is = mds_packing_stats(p);
    double row = (double)seq_length * ((double)seq_length + 1) / 2;

    return is->rows > 0 ? fmax(0, 1 - is->pairs / ((double)is->rows * row)) : 0;
}

double mds_data_apart(const struct mds_data_config *c, int64_t seq_length)
{
    struct mds_dataset *d;
    const struct blend *b;
    double sum = 0;

    if (c->pack_documents != MDS_PACK_ON || !mds_config_data_paths(c) ||
        mds_dataset_open(c, seq_length, 0, &d))
        return 0;
    b = &d->blends[MDS_SPLIT_TRAIN];
    for (int k = 0; k < mds_blend_members(b); k++)
        sum +=
            b->files->paths.weight[k] * share_apart(b->members[k].packing, seq_length);
    sum /= mds_blend_members(b) > 0 ? mds_blend_weight(b) : 1;
    mds_dataset_close(d);
    return sum;
}
