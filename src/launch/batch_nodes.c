/* SPDX-License-Identifier: BSD-3-Clause */
/* The nodes that a batch system gave this job. */
#include "base/scheduler.h"
#include "launch/placement.h"

#include <stdio.h>
#include <stdlib.h>

static enum mds_rc add_nodefile(struct mds_placement *p, const struct mds_scheduler *d,
                                const char *path)
{
    struct mds_finding *f = mds_placement_add(p, d->source);

    if (!f)
        return MDS_OK;
    MDS_TRY(mds_hosts_read(path, 0, &f->hosts));
    f->nodes = (int)f->hosts.count;
    return MDS_OK;
}

static enum mds_rc add_nodelist(struct mds_placement *p, const struct mds_scheduler *d,
                                const char *list)
{
    struct mds_finding *f = mds_placement_add(p, d->source);

    if (!f)
        return MDS_OK;
    MDS_TRY(mds_hosts_expand(list, &f->hosts));
    f->nodes = mds_env_number(d->node_count);
    if (f->nodes < 0)
        f->nodes = (int)f->hosts.count;
    if (f->nodes != (int)f->hosts.count)
        snprintf(f->note, sizeof f->note, "%s is %d, the list has %zu", d->node_count,
                 f->nodes, f->hosts.count);
    f->gpus = mds_env_number(d->gpus);
    return MDS_OK;
}

enum mds_rc mds_find_batch(struct mds_placement *p)
{
    for (int i = 0; mds_scheduler_names[i]; i++) {
        const struct mds_scheduler *d = mds_scheduler_at(i);
        const char *path = d->nodefile ? getenv(d->nodefile) : NULL;
        const char *list = d->nodelist ? getenv(d->nodelist) : NULL;

        if (path && *path)
            MDS_TRY(add_nodefile(p, d, path));
        if (!list && d->old_nodelist)
            list = getenv(d->old_nodelist);
        if (list)
            MDS_TRY(add_nodelist(p, d, list));
    }
    return MDS_OK;
}
