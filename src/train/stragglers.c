/* SPDX-License-Identifier: BSD-3-Clause */
/* Report stragglers.  In the last step of each log interval every rank measures how
 * long it waits for others; rank 0 reports the rank with the longest time of its
 * own. */
#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"
#include "device/profile.h"
#include "train/run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int is_due(const struct run *r)
{
    int64_t step = r->iteration + 1;

    return r->spec->world->ranks > 1 && !r->profiling &&
           (step % r->log_interval == 0 || steps_left(r) == 1);
}

enum mds_rc mds_run_straggler_begin(struct run *r)
{
    r->timing_waits = is_due(r);
    if (!r->timing_waits)
        return MDS_OK;
    MDS_TRY(mds_profile_start_waits(r->dev, 1));
    mds_comm_set_profile(r->dev);
    return MDS_OK;
}

static enum mds_rc stop_timing(struct run *r, struct mds_rank_time *own)
{
    struct mds_profile *p = NULL;

    r->timing_waits = 0;
    mds_comm_set_profile(NULL);
    mds_profile_step(r->dev);
    MDS_TRY(mds_profile_stop(r->dev, &p));
    *own =
        (struct mds_rank_time){.step_s = p->step[0].total_s,
                               .wait_s = p->step[0].wait_s,
                               .stage = mds_groups_rank(&r->groups, MDS_AXIS_PIPELINE)};
    mds_profile_destroy(p);
    return MDS_OK;
}

static void warn_of_straggler(int64_t step, const struct mds_straggler *s,
                              const char *host)
{
    char own[32], median[32], waited[32];

    mds_warn("the other ranks wait for rank %d on %s: in iteration %" PRId64
             " it computed for %s, the median of its pipeline stage is %s (%.0f %% "
             "more); others waited up to %s; to compare the nodes run mds_launch check",
             s->rank, host, step,
             mds_format_step(s->step_s - s->wait_s, own, sizeof own),
             mds_format_step(s->median_own_s, median, sizeof median), 100 * s->excess,
             mds_format_step(s->most_wait_s, waited, sizeof waited));
}

/* How far above the median a rank must be for a warning.  GPUs take the same time for
 * the same work; processes on CPUs also wait for cores. */
static double least_excess(const struct run *r)
{
    return strcmp(mds_dev_name(r->dev), "cuda") == 0 ? 0.1 : 0.5;
}

/* Every rank finds the same straggler, which then sends the name of its host. */
static enum mds_rc report_slowest(struct run *r, const struct mds_rank_time *t)
{
    int64_t step = r->iteration + 1;
    char host[MDS_HOST_SIZE];
    struct mds_straggler s;

    MDS_TRY(mds_straggler_find(t, r->spec->world->ranks, &s));
    memcpy(host, r->spec->world->host, sizeof host);
    MDS_TRY(mds_comm_broadcast(world_of(r), host, sizeof host, s.rank));
    if (!is_rank0(r))
        return MDS_OK;
    if (mds_straggler_needs_warning(&r->stragglers, &s, least_excess(r)))
        warn_of_straggler(step, &s, host);
    mds_metrics_straggler(r->metrics, step, &s, host);
    return MDS_OK;
}

enum mds_rc mds_run_straggler_end(struct run *r)
{
    struct mds_rank_time own, *all;
    enum mds_rc rc;

    if (!r->timing_waits)
        return MDS_OK;
    MDS_TRY(stop_timing(r, &own));
    all = mds_zalloc((size_t)r->spec->world->ranks, sizeof *all);
    if (!all)
        return MDS_EMEM;
    rc = mds_comm_gather_records(world_of(r), &own, sizeof own, all);
    if (!rc)
        rc = report_slowest(r, all);
    free(all);
    return rc;
}
