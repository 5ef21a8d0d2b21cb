/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run takes from its first step to its last. */
#include "base/units.h"
#include "launch/job.h"
#include "launch/launch.h"

#include <math.h>

static void add_evaluations(const struct mds_outlook *o, struct mds_str *out)
{
    char time[32];

    mds_str_add(out, "%s%lld evaluation%s (%lld sample%s, %s)",
                o->steps > 0 ? " and " : "", (long long)o->evaluations,
                mds_plural(o->evaluations), (long long)o->samples,
                mds_plural(o->samples),
                mds_format_seconds((double)o->batches * o->batch_s, time, sizeof time));
}

void mds_launch_hours(const struct mds_launch *l, double s, double job_s,
                      const char *job, struct mds_str *out)
{
    double hours = s / 3600 * (double)l->nodes;
    char time[32];

    mds_str_add(out, " = %s", mds_format_seconds(s, time, sizeof time));
    if (hours < 0.01)
        mds_str_add(out, ", less than 0.01 node-hours");
    else
        mds_str_add(out, hours < 100 ? " = %.3g node-hours" : " = %.0f node-hours",
                    hours);
    if (job_s > 0) {
        double jobs = fmax(ceil(s / job_s), 1);

        mds_str_add(out, ", %.0f job%s of %s", jobs, jobs > 1 ? "s" : "", job);
    }
}

void mds_launch_length(const struct mds_launch *l, double job_s, const char *job,
                       struct mds_str *out)
{
    const struct mds_outlook *o = &l->outlook;
    double s = o->train_s + (double)o->batches * o->batch_s;

    if (s == 0)
        return;
    if (o->steps > 0)
        mds_str_add(out, "%lld step%s", (long long)o->steps, mds_plural(o->steps));
    if (o->evaluations > 0)
        add_evaluations(o, out);
    mds_launch_hours(l, s, job_s, job, out);
}

/* The configuration of the plan's best layout, resolved. */
static enum mds_rc read_best(const struct mds_launch *l,
                             const struct mds_config_run *asked,
                             const struct mds_plan *p, struct mds_config_run **out)
{
    struct mds_argv chosen = {0};
    struct mds_str options = {0};
    struct mds_diag diag = {0};
    enum mds_rc rc;

    *out = NULL;
    mds_layout_options(&p->fits[0].layout, asked->config.train.activation_memory,
                       p->fixed, &options);
    mds_argv_add_split(&chosen, options.s ? options.s : "");
    rc = mds_launch_config(l, &chosen, 0, out);
    if (!rc) {
        (*out)->config.train.dry_run = 1; /* nodes' disks are not here */
        rc = mds_config_resolve(*out, l->ranks, &diag);
    }
    mds_diag_fini(&diag);
    mds_str_fini(&options);
    mds_argv_fini(&chosen);
    return rc;
}

static enum mds_rc log_space(const struct mds_launch *l,
                             const struct mds_checkpoint_config *c,
                             const struct mds_estimate *e)
{
    const struct mds_job j = {.launch = l,
                              .checkpoints = c->save ? c->save : l->options->folder};

    return mds_job_log_disk_space(&j, e, c->keep_last ? c->keep_last : MDS_JOB_KEPT);
}

enum mds_rc mds_launch_print_outlook(struct mds_launch *l,
                                     const struct mds_config_run *asked,
                                     const struct mds_plan *p, FILE *f)
{
    const struct mds_estimate *e = &p->fits[0].estimate;
    struct mds_config_run *run;
    struct mds_str text = {0};
    enum mds_rc rc = read_best(l, asked, p, &run);

    if (!rc)
        rc = mds_launch_look_ahead(l, run);
    if (!rc)
        rc = mds_launch_predict_times(l, &run->config, e);
    if (!rc)
        mds_launch_length(l, 0, NULL, &text);
    if (text.s)
        fprintf(f, "%s\n", text.s);
    if (!rc && l->outlook.steps > 0)
        rc = log_space(l, &run->config.checkpoint, e);
    mds_str_fini(&text);
    mds_config_run_destroy(run);
    return rc;
}
