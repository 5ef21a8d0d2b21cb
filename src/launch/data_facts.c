/* SPDX-License-Identifier: BSD-3-Clause */
/* What plans need to know of data that are here: how much of attention is left if it
 * does not cross documents. */
#include "base/log.h"
#include "data/dataset.h"
#include "launch/launch.h"

void mds_launch_read_documents(struct mds_launch *l, struct mds_config_run *run)
{
    struct mds_config *c = &run->config;

    l->apart = c->data.apart = mds_data_apart(&c->data, c->model.seq_length);
    if (l->apart > 0)
        mds_info("documents: attention computes %.3g %% of what it would across them",
                 100 * (1 - l->apart));
}
