/* SPDX-License-Identifier: BSD-3-Clause */
/* What the values of some settings are called. */
#include "config/config.h"

#include "base/minmax.h"

#include <stddef.h>

const char *const mds_place_names[] = {"none", "cpu", "nvme", NULL};
const char *const mds_recompute_names[] = {"none", "selective", "full", NULL};

enum mds_recompute mds_recompute_of(const struct mds_train_config *t)
{
    return t->recompute == MDS_RECOMPUTE_SELECTIVE && t->recompute_modules
               ? MDS_RECOMPUTE_NONE
               : t->recompute;
}

int64_t mds_stage_blocks(const struct mds_config *c)
{
    const struct mds_parallel_config *p = &c->parallel;
    int64_t chunks = p->virtual_stages > 1 ? p->virtual_stages : 1;

    return c->model.layers / (p->pipeline * chunks);
}

int64_t mds_most_leaving(int64_t blocks)
{
    return mds_max(mds_min(blocks / 2, blocks - 2), 0);
}

const char *mds_recompute_modules_name(int modules)
{
    static const char *const names[] = {"", "layernorm", "mlp_act",
                                        "layernorm,mlp_act"};

    return names[modules];
}
