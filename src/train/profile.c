/* SPDX-License-Identifier: BSD-3-Clause */
/* --profile: which steps are measured, and how the figures are reported. */
#include "base/alloc.h"
#include "base/log.h"
#include "comm/comm.h"
#include "device/profile.h"
#include "train/run.h"

#include <stdlib.h>

enum { PARTS = MDS_METRICS_PROFILE_PARTS };

static int64_t steps_asked_for(const struct run *r)
{
    return r->config->train.profile_end - r->config->train.profile_start;
}

enum mds_rc mds_run_profile_begin(struct run *r)
{
    const struct mds_train_config *t = &r->config->train;

    if (!t->profile || r->profiling || r->iteration < t->profile_start ||
        r->iteration >= t->profile_end)
        return MDS_OK;
    MDS_TRY(mds_profile_start(r->dev, (int)steps_asked_for(r)));
    mds_comm_set_profile(r->dev);
    r->profiling = 1;
    r->profiled = r->iteration;
    return MDS_OK;
}

/* ---- what is reported ---- */

static void copy_step_times(const struct mds_profile_step *s, double parts[PARTS])
{
    parts[MDS_METRICS_PROFILE_TOTAL] = s->total_s;
    parts[MDS_METRICS_PROFILE_COMPUTE] = s->compute_s;
    parts[MDS_METRICS_PROFILE_EXPOSED] = s->wait_s;
    parts[MDS_METRICS_PROFILE_COPY] = s->copy_s;
    parts[MDS_METRICS_PROFILE_IDLE] = s->idle_s;
    parts[MDS_METRICS_PROFILE_MOVE] = s->move_s;
    parts[MDS_METRICS_PROFILE_HOST] = s->host_s;
}

/* Mean and maximum over the ranks.  Collective. */
static enum mds_rc reduce_step_times(const struct run *r, const struct mds_profile *p,
                                     struct mds_metrics_profile_step *step)
{
    for (int i = 0; i < p->steps; i++) {
        step[i].iteration = r->profiled + 1 + i;
        copy_step_times(&p->step[i], step[i].mean_s);
        copy_step_times(&p->step[i], step[i].most_s);
        MDS_TRY(
            mds_comm_all_reduce_f64(world_of(r), step[i].mean_s, PARTS, MDS_COMM_SUM));
        MDS_TRY(
            mds_comm_all_reduce_f64(world_of(r), step[i].most_s, PARTS, MDS_COMM_MAX));
        for (int k = 0; k < PARTS; k++)
            step[i].mean_s[k] /= (double)r->spec->world->ranks;
    }
    return MDS_OK;
}

/* For qsort: longest time first. */
static int compare_by_time(const void *a, const void *b)
{
    const struct mds_metrics_profile_row *x = a, *y = b;

    return (x->s < y->s) - (x->s > y->s);
}

static int list_operations(const struct mds_profile *p, enum mds_profile_kind kind,
                           struct mds_metrics_profile_row *out)
{
    int n = 0;

    for (int i = 0; i < p->rows; i++) {
        const struct mds_profile_row *row = &p->row[i];

        if (row->kind == kind)
            out[n++] = (struct mds_metrics_profile_row){
                .name = mds_op_name((enum mds_op)row->member),
                .calls = row->calls,
                .s = row->s,
                .flops = row->cost.flops,
                .bytes = row->cost.bytes};
    }
    qsort(out, (size_t)n, sizeof *out, compare_by_time);
    return n;
}

/* For each kind of communication, its own time and the time waited for it.  Devices
 * without streams (cpu) have only the latter. */
static int list_transfers(const struct mds_profile *p,
                          struct mds_metrics_profile_row out[MDS_COMM_KINDS])
{
    struct mds_metrics_profile_row of[MDS_COMM_KINDS] = {{0}};
    int n = 0;

    for (int i = 0; i < p->rows; i++) {
        const struct mds_profile_row *row = &p->row[i];
        struct mds_metrics_profile_row *t;

        if (row->kind != MDS_PROFILE_WAIT && row->kind != MDS_PROFILE_MOVE)
            continue; /* an operation, not communication */
        t = &of[row->member];
        if (row->kind == MDS_PROFILE_WAIT) {
            t->waits += row->calls;
            t->exposed_s += row->s;
        } else {
            t->calls += row->calls;
            t->s += row->s;
            t->bytes += row->cost.bytes;
        }
    }
    for (int i = 0; i < MDS_COMM_KINDS; i++) {
        of[i].name = mds_comm_kind_name((enum mds_comm_kind)i);
        if (of[i].calls > 0 || of[i].waits > 0)
            out[n++] = of[i];
    }
    return n;
}

static enum mds_rc report_profile(const struct run *r, const struct mds_profile *p,
                                  struct mds_metrics_profile_step *step)
{
    struct mds_metrics_profile_row operation[MDS_PROFILE_ROWS],
        hosted[MDS_PROFILE_ROWS];
    struct mds_metrics_profile_row transfer[MDS_COMM_KINDS];
    struct mds_metrics_profile m = {.ranks = r->spec->world->ranks,
                                    .steps = p->steps,
                                    .step = step,
                                    .operation = operation,
                                    .hosted = hosted,
                                    .transfer = transfer};

    MDS_TRY(reduce_step_times(r, p, step));
    if (!is_rank0(r))
        return MDS_OK;
    m.operations = list_operations(p, MDS_PROFILE_OP, operation);
    m.hosted_operations = list_operations(p, MDS_PROFILE_HOST, hosted);
    m.transfers = list_transfers(p, transfer);
    mds_metrics_profile(r->metrics, &m);
    return MDS_OK;
}

static enum mds_rc end_profile(struct run *r)
{
    struct mds_metrics_profile_step *step;
    struct mds_profile *p = NULL;
    enum mds_rc rc;

    r->profiling = 0;
    mds_comm_set_profile(NULL);
    MDS_TRY(mds_profile_stop(r->dev, &p));
    step = mds_zalloc((size_t)p->steps, sizeof *step);
    rc = step ? report_profile(r, p, step) : MDS_EMEM;
    free(step);
    mds_profile_destroy(p);
    return rc;
}

enum mds_rc mds_run_profile_end(struct run *r, int at_end)
{
    const struct mds_train_config *t = &r->config->train;

    if (r->profiling && !at_end)
        mds_profile_step(r->dev);
    if (r->profiling && (at_end || r->iteration >= t->profile_end))
        return end_profile(r);
    if (t->profile && at_end && r->profiled < 0 && is_rank0(r))
        mds_warn("--profile: nothing was measured, the run was over before step %lld "
                 "(--profile-step-start)",
                 (long long)t->profile_start + 1);
    return MDS_OK;
}
