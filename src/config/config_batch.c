/* SPDX-License-Identifier: BSD-3-Clause */
/* The batch: of every step, and by stages of the run (config/batches.h). */
#include "config/config_impl.h"

#include "base/status.h"
#include "base/units.h"

#include <stdio.h>
#include <string.h>

/* ---- of a step ---- */

static int64_t batch_at(const struct mds_batch_config *b, const struct mds_extent *done)
{
    int i = mds_batch_stage_at(&b->schedule, done);

    return i < 0 ? b->global : b->schedule.stage[i].global;
}

struct mds_extent mds_config_step(const struct mds_config *c,
                                  const struct mds_extent *done)
{
    int64_t global = batch_at(&c->batch, done);

    return (struct mds_extent){{1, global, global * c->model.seq_length}};
}

int64_t mds_config_micro_batches(const struct mds_config *c,
                                 const struct mds_extent *done)
{
    const struct mds_batch_config *b = &c->batch;

    return batch_at(b, done) / (b->global / b->accumulation);
}

/* Steps of this size until the next stage begins. */
static int64_t steps_of_stage(const struct mds_batch_schedule *s,
                              const struct mds_extent *done,
                              const struct mds_extent *step)
{
    int next = mds_batch_stage_at(s, done) + 1;
    int64_t size = step->in[s->unit], n;

    if (next >= s->n)
        return INT64_MAX;
    n = s->stage[next].from - done->in[s->unit];
    return n / size + (n % size != 0);
}

struct mds_extent mds_config_end(const struct mds_config *c,
                                 const struct mds_extent *length,
                                 const struct mds_extent *done)
{
    struct mds_extent at = *done;

    for (;;) {
        struct mds_extent step = mds_config_step(c, &at);
        int64_t left = mds_steps_left(length, &at, &step);
        int64_t here = steps_of_stage(&c->batch.schedule, &at, &step);

        if (left < here)
            return mds_extent_after(&at, &step, left);
        at = mds_extent_after(&at, &step, here);
    }
}

void mds_config_batches_text(const struct mds_config *c, struct mds_str *out)
{
    const struct mds_batch_schedule *s = &c->batch.schedule;
    const char *unit = s->unit == MDS_TOKENS ? "token" : "sample";

    for (int i = 0; i < s->n; i++)
        if (i == 0)
            mds_str_add(out, "%lld sequence%s", (long long)s->stage[i].global,
                        mds_plural(s->stage[i].global));
        else
            mds_str_add(out, ", %lld from %s %lld on", (long long)s->stage[i].global,
                        unit, (long long)s->stage[i].from);
}

/* ---- resolving ---- */

/* Whether unit divides whole; if not, a fault names the nearest multiples. */
static int check_global_batch_divides(const struct mds_config_run *run, int64_t unit,
                                      int64_t whole, const char *what,
                                      struct mds_diag *diag)
{
    int64_t below = whole / unit * unit;

    if (whole % unit == 0)
        return 1;
    if (below > 0)
        mds_diag_fault(diag, mds_config_origin(run, "batch.global"),
                       "--global-batch-size %lld is not a multiple of %s = %lld; the "
                       "nearest are %lld and %lld",
                       (long long)whole, what, (long long)unit, (long long)below,
                       (long long)(below + unit));
    else
        mds_diag_fault(diag, mds_config_origin(run, "batch.global"),
                       "--global-batch-size %lld is less than %s = %lld, the minimum",
                       (long long)whole, what, (long long)unit);
    return 0;
}

/* The global batch is given: derive micro-batch and accumulation, or check them. */
static void derive_from_global_batch(struct mds_config_run *run, struct mds_diag *diag)
{
    struct mds_batch_config *b = &run->config.batch;
    long long dp = run->config.parallel.data;
    int64_t unit = dp;
    char what[160] = "";

    if (b->micro)
        unit *= b->micro;
    if (b->accumulation)
        unit *= b->accumulation;
    if (b->micro)
        snprintf(what, sizeof what, "micro-batch %lld x ", (long long)b->micro);
    if (b->accumulation)
        snprintf(what + strlen(what), sizeof what - strlen(what),
                 "accumulation %lld x ", (long long)b->accumulation);
    snprintf(what + strlen(what), sizeof what - strlen(what),
             "%lld data-parallel rank%s", dp, mds_plural(dp));
    if (!check_global_batch_divides(run, unit, b->global, what, diag))
        return;
    if (b->micro && b->accumulation && b->global != unit)
        mds_diag_fault(
            diag, mds_config_origin(run, "batch.global"),
            "--global-batch-size %lld is not %s = %lld; leave one of them out",
            (long long)b->global, what, (long long)unit);
    if (b->accumulation) {
        derive(run, "batch.micro", &b->micro, b->global / (dp * b->accumulation),
               "global / (accumulation x data-parallel ranks)");
    } else {
        derive(run, "batch.micro", &b->micro, 1, "default 1");
        derive(run, "batch.accumulation", &b->accumulation, b->global / (dp * b->micro),
               "global / (micro x data-parallel ranks)");
    }
}

/* The option that says how the size changes; NULL: it is constant. */
static const char *schedule_key(const struct mds_batch_config *b)
{
    return b->rampup ? "batch.rampup" : b->steps ? "batch.steps" : NULL;
}

/* Options that say otherwise what a schedule says.  Returns whether there are none. */
static int check_schedule_is_alone(const struct mds_config_run *run,
                                   struct mds_diag *diag)
{
    const struct mds_batch_config *b = &run->config.batch;
    size_t before = diag->faults;
    const char *key = schedule_key(b);

    if (b->rampup && b->steps) {
        mds_diag_fault(diag, mds_config_origin(run, key),
                       "--rampup-batch-size and --step-batch-size-schedule (%s) are "
                       "both set; leave out one",
                       mds_config_origin(run, "batch.steps"));
        return 0;
    }
    if (b->accumulation)
        mds_diag_fault(diag, mds_config_origin(run, "batch.accumulation"),
                       "--gradient-accumulation-steps %lld is constant, but %s changes "
                       "it; give --micro-batch-size in its place",
                       (long long)b->accumulation,
                       mds_settings_flag(&run->settings, key));
    if (b->steps && mds_config_is_given(run, "batch.global"))
        mds_diag_fault(diag, mds_config_origin(run, "batch.global"),
                       "--global-batch-size %lld: --step-batch-size-schedule says all "
                       "sizes; leave it out",
                       (long long)b->global);
    if (b->rampup && !b->global)
        mds_diag_fault(diag, mds_config_origin(run, key),
                       "--rampup-batch-size needs --global-batch-size, the size that "
                       "it comes to");
    return diag->faults == before;
}

/* Traced batches are one array. */
static void check_trace(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_output_config *o = &run->config.output;

    if (o->trace_dir && o->trace_steps > 1)
        mds_diag_fault(diag, mds_config_origin(run, "output.trace_steps"),
                       "--trace-steps %lld: where the batch size changes one step can "
                       "be traced",
                       (long long)o->trace_steps);
}

/* The schedule, and from --step-batch-size-schedule the global batch.  0: it is of no
 * use. */
static int read_schedule(struct mds_config_run *run, struct mds_diag *diag)
{
    struct mds_batch_config *b = &run->config.batch;
    const char *key = schedule_key(b);
    enum mds_rc rc;

    b->schedule.n = 0;
    if (!key)
        return 1;
    if (!check_schedule_is_alone(run, diag))
        return 0;
    rc = b->rampup ? mds_batch_read_rampup(b->rampup, b->global, &b->schedule)
                   : mds_batch_read_steps(b->steps, &b->schedule);
    if (rc) {
        b->schedule.n = 0;
        mds_diag_fault(diag, mds_config_origin(run, key), "%s", mds_fail_text());
        return 0;
    }
    check_trace(run, diag);
    if (b->steps) {
        b->global = mds_batch_largest(&b->schedule);
        mds_settings_derived(&run->settings, "batch.global",
                             "the largest of --step-batch-size-schedule");
    }
    return 1;
}

int mds_config_check_stages(const struct mds_config_run *run, int64_t unit,
                            const char *what, struct mds_diag *diag)
{
    const struct mds_batch_schedule *s = &run->config.batch.schedule;
    const char *key = schedule_key(&run->config.batch);

    for (int i = 0; i < s->n; i++) {
        int64_t size = s->stage[i].global, below = size / unit * unit;
        char sizes[64];

        if (size % unit == 0)
            continue;
        if (below > 0)
            snprintf(sizes, sizeof sizes, "nearest are %lld and %lld", (long long)below,
                     (long long)(below + unit));
        else
            snprintf(sizes, sizeof sizes, "smallest is %lld", (long long)unit);
        mds_diag_fault(
            diag, mds_config_origin(run, key),
            "%s: the batch of %lld from %s %lld on is not a multiple of %s = "
            "%lld; the %s",
            mds_settings_flag(&run->settings, key), (long long)size,
            s->unit == MDS_TOKENS ? "token" : "sample", (long long)s->stage[i].from,
            what, (long long)unit, sizes);
        return 0;
    }
    return 1;
}

static int check_stages_divide(const struct mds_config_run *run, struct mds_diag *diag)
{
    int64_t micro = run->config.batch.micro ? run->config.batch.micro : 1;
    int64_t dp = run->config.parallel.data;
    char what[96];

    snprintf(what, sizeof what, "micro-batch %lld x %lld data-parallel rank%s",
             (long long)micro, (long long)dp, mds_plural(dp));
    return mds_config_check_stages(run, micro * dp, what, diag);
}

int mds_config_resolve_batch(struct mds_config_run *run, struct mds_diag *diag)
{
    struct mds_batch_config *b = &run->config.batch;
    size_t before = diag->faults;
    int64_t dp = run->config.parallel.data;
    int64_t micro = b->micro ? b->micro : 1;
    int64_t accumulation = b->accumulation ? b->accumulation : 1;

    if (micro * accumulation > 100000000 / dp) {
        mds_diag_fault(diag, NULL,
                       "a global batch of %lld x %lld x %lld ranks is beyond "
                       "a hundred million sequences",
                       (long long)micro, (long long)accumulation, (long long)dp);
        return 0;
    }
    if (!read_schedule(run, diag) || !check_stages_divide(run, diag))
        return 0;
    if (b->global) {
        derive_from_global_batch(run, diag);
        return diag->faults == before;
    }
    derive(run, "batch.micro", &b->micro, 1, "default 1");
    derive(run, "batch.accumulation", &b->accumulation, 1, "default 1");
    derive(run, "batch.global", &b->global, b->micro * b->accumulation * dp,
           "micro x accumulation x data-parallel ranks");
    return 1;
}
