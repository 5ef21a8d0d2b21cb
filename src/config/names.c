/* SPDX-License-Identifier: BSD-3-Clause */
/* What the values of some settings are called. */
#include "config/config.h"

#include <stddef.h>

const char *const mds_place_names[] = {"none", "cpu", "nvme", NULL};

int64_t mds_stage_blocks(const struct mds_config *c)
{
    const struct mds_parallel_config *p = &c->parallel;
    int64_t chunks = p->virtual_stages > 1 ? p->virtual_stages : 1;

    return c->model.layers / (p->pipeline * chunks);
}
