/* SPDX-License-Identifier: BSD-3-Clause */
/* What plans need to know of data that are here: how much of attention is left if it
 * does not cross documents. */
#include "base/log.h"
#include "data/dataset.h"
#include "launch/launch.h"
#include "metrics/flops.h"

void mds_launch_read_documents(struct mds_launch *l, struct mds_config_run *run)
{
    struct mds_config *c = &run->config;
    struct mds_flops_model model;
    double share;

    l->seen = c->data.seen =
        mds_data_seen(&c->data, c->model.seq_length, c->model.window);
    model = mds_flops_model_of(c);
    share = mds_flops_documents_share(&model);
    if (share < 1)
        mds_info("documents: attention computes %.3g %% of what it would across them",
                 100 * share);
}
