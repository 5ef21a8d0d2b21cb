/* SPDX-License-Identifier: BSD-3-Clause */
/* The records of --profile. */
#include "io/jsonl.h"
#include "metrics/console.h"
#include "metrics/metrics_impl.h"

static void record_profile_step(struct mds_metrics *m,
                                const struct mds_metrics_profile_step *s)
{
    static const char *const names[MDS_METRICS_PROFILE_PARTS][2] = {
        [MDS_METRICS_PROFILE_TOTAL] = {"total_s", "most_total_s"},
        [MDS_METRICS_PROFILE_COMPUTE] = {"compute_s", "most_compute_s"},
        [MDS_METRICS_PROFILE_EXPOSED] = {"exposed_comm_s", "most_exposed_comm_s"},
        [MDS_METRICS_PROFILE_COPY] = {"copy_s", "most_copy_s"},
        [MDS_METRICS_PROFILE_IDLE] = {"idle_s", "most_idle_s"},
        [MDS_METRICS_PROFILE_MOVE] = {"comm_s", "most_comm_s"},
        [MDS_METRICS_PROFILE_HOST] = {"host_wait_s", "most_host_wait_s"},
    };

    if (!mds_metrics_begin_record(m, "profile_step"))
        return;
    mds_jsonl_add_int(m->json, "iteration", s->iteration);
    for (int k = 0; k < MDS_METRICS_PROFILE_PARTS; k++) {
        mds_jsonl_add_real(m->json, names[k][0], s->mean_s[k]);
        mds_jsonl_add_real(m->json, names[k][1], s->most_s[k]);
    }
    mds_metrics_end_record(m);
}

static int begin_profile_row(struct mds_metrics *m, const char *event, int steps,
                             const struct mds_metrics_profile_row *row)
{
    if (!mds_metrics_begin_record(m, event))
        return 0;
    mds_jsonl_add_string(m->json, "name", row->name);
    mds_jsonl_add_int(m->json, "steps", steps);
    mds_jsonl_add_int(m->json, "calls", row->calls);
    mds_jsonl_add_real(m->json, "time_s", row->s);
    mds_jsonl_add_real(m->json, "bytes", row->bytes);
    return 1;
}

static void record_profile_rows(struct mds_metrics *m,
                                const struct mds_metrics_profile *p)
{
    for (int i = 0; i < p->operations; i++) {
        if (!begin_profile_row(m, "profile_operation", p->steps, &p->operation[i]))
            return;
        mds_jsonl_add_real(m->json, "flops", p->operation[i].flops);
        mds_metrics_end_record(m);
    }
    for (int i = 0; i < p->hosted_operations; i++)
        if (begin_profile_row(m, "profile_host", p->steps, &p->hosted[i]))
            mds_metrics_end_record(m);
    for (int i = 0; i < p->transfers; i++) {
        if (!begin_profile_row(m, "profile_comm", p->steps, &p->transfer[i]))
            return;
        mds_jsonl_add_int(m->json, "waits", p->transfer[i].waits);
        mds_jsonl_add_real(m->json, "exposed_s", p->transfer[i].exposed_s);
        mds_metrics_end_record(m);
    }
}

void mds_metrics_profile(struct mds_metrics *m, const struct mds_metrics_profile *p)
{
    struct mds_str text = {0};

    for (int i = 0; i < p->steps; i++)
        record_profile_step(m, &p->step[i]);
    record_profile_rows(m, p);
    mds_console_profile(&text, p);
    mds_metrics_print(m, &text);
}
