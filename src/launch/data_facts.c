/* SPDX-License-Identifier: BSD-3-Clause */
/* What plans need to know of data that are here: the vocabulary, and how much of
 * attention is left if it does not cross documents. */
#include "base/log.h"
#include "data/dataset.h"
#include "data/inspect.h"
#include "launch/launch.h"

static void read_documents(struct mds_config_run *run, int log)
{
    struct mds_config *c = &run->config;

    c->data.apart = mds_data_apart(&c->data, c->model.seq_length);
    if (log && c->data.apart > 0)
        mds_info("documents: attention computes %.3g %% of what it would across them",
                 100 * (1 - c->data.apart));
}

void mds_launch_read_data(struct mds_config_run *run, int log)
{
    mds_data_inspect(run, log);
    read_documents(run, log);
}
