/* SPDX-License-Identifier: BSD-3-Clause */
/* The nodes that a batch system gave this job. */
#include "base/log.h"
#include "base/scheduler.h"
#include "launch/capture.h"
#include "launch/placement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    f->nodes = d->node_count ? mds_env_number(d->node_count) : -1;
    if (f->nodes < 0)
        f->nodes = (int)f->hosts.count;
    if (f->nodes != (int)f->hosts.count)
        snprintf(f->note, sizeof f->note, "%s is %d, the list has %zu", d->node_count,
                 f->nodes, f->hosts.count);
    f->gpus = d->gpus ? mds_env_number(d->gpus) : -1;
    return MDS_OK;
}

static enum mds_rc add_printed_list(struct mds_placement *p,
                                    const struct mds_scheduler *d)
{
    const double limit_s = 60;
    struct mds_str list = {0};
    enum mds_rc rc = MDS_OK;

    if (mds_capture_output(d->list, limit_s, &list))
        mds_warn("%s: no list of this job's nodes", d->source);
    else {
        list.s[strcspn(list.s, "\n")] = '\0';
        rc = add_nodelist(p, d, list.s);
    }
    mds_str_fini(&list);
    return rc;
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
            MDS_TRY(d->list ? add_printed_list(p, d) : add_nodelist(p, d, list));
    }
    return MDS_OK;
}
