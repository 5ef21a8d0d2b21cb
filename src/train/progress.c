/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/log.h"
#include "train/run.h"

#include <inttypes.h>

static const double first_report_s = 60;

void mds_run_progress_begin(struct run *r)
{
    r->step_began_s = mds_clock_s();
    r->next_report_s = r->step_began_s + first_report_s;
}

void mds_run_report_block(void *run, const struct mds_step_position *at)
{
    struct run *r = run;
    const struct mds_config *c = r->config;
    double now = mds_clock_s(), elapsed_s = now - r->step_began_s;
    int due = now >= r->next_report_s;

    if (due)
        r->next_report_s = now + elapsed_s;
    mds_log(due ? MDS_LOG_INFO : MDS_LOG_DEBUG,
            "iteration %" PRId64 ": %.0f s so far, %s, layer %d of %" PRId64
            ", micro-batch %d of %" PRId64,
            r->iteration + 1, elapsed_s, at->backward ? "backward" : "forward",
            at->layer + 1, c->model.layers, at->micro_batch + 1, micro_batches(r));
}
