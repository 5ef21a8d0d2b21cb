/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/log.h"
#include "train/run.h"

#include <inttypes.h>

static const double first_report_s = 60;

void mds_run_progress_begin(struct run *r)
{
    r->progress = mds_progress_doubling(first_report_s);
}

void mds_run_report_block(void *run, const struct mds_step_position *at)
{
    struct run *r = run;
    const struct mds_config *c = r->config;
    double elapsed_s = mds_clock_s() - r->progress.began_s;
    int due;

    if (!at->training)
        return;
    due = mds_progress_is_due(&r->progress);
    mds_log(due ? MDS_LOG_INFO : MDS_LOG_DEBUG,
            "iteration %" PRId64 ": %.0f s so far, %s, layer %d of %" PRId64
            ", micro-batch %d of %" PRId64,
            r->iteration + 1, elapsed_s, at->backward ? "backward" : "forward",
            at->layer + 1, c->model.layers, at->micro_batch + 1, micro_batches(r));
}
