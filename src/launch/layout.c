/* SPDX-License-Identifier: BSD-3-Clause */
/* The layout of a run: the one that was set or a plan's, whether it fits, and what it
 * takes. */
#include "base/log.h"
#include "base/units.h"
#include "launch/launch.h"

#include <math.h>
#include <stdlib.h>

/* Whether a plan chooses the layout. */
static int is_layout_open(const struct mds_launch *l, const struct mds_config_run *run)
{
    if (l->options->layout != MDS_LAYOUT_AUTO)
        return l->options->layout == MDS_LAYOUT_PLAN;
    if (l->machine->node.gpus == 0 || l->ranks == 1)
        return 0; /* plain data parallelism, as without this program */
    for (const struct mds_axis *a = mds_axes; a->name; a++)
        if (a->key && mds_is_set_by_user(run, a->key))
            return 0;
    return !mds_is_set_by_user(run, "parallel.sp_type");
}

enum mds_rc mds_launch_request(const struct mds_launch *l,
                               const struct mds_config_run *run,
                               struct mds_plan_request *out)
{
    struct mds_diag diag = {0};
    enum mds_rc rc = MDS_OK;

    if (!mds_config_has_shape(&run->config.model, &diag))
        rc = mds_diag_result(&diag);
    mds_diag_fini(&diag);
    *out = (struct mds_plan_request){.machine = l->machine,
                                     .run = run,
                                     .world = l->ranks,
                                     .per_node = l->per_node,
                                     .budget_s = l->options->plan_s};
    return rc;
}

/* Add the options of the best layout to *chosen. */
static enum mds_rc choose_planned_layout(const struct mds_launch *l,
                                         const struct mds_config_run *run,
                                         struct mds_argv *chosen)
{
    struct mds_plan_request r;
    struct mds_diag diag = {0};
    struct mds_plan p;
    struct mds_str text = {0};
    enum mds_rc rc = mds_launch_request(l, run, &r);

    if (!rc)
        rc = mds_plan_search(&r, &diag, &p);
    mds_diag_fini(&diag);
    if (rc)
        return rc;
    if (p.fit_count == 0) {
        mds_plan_advise(&r, &p, stderr);
        rc = mds_plan_refuse(&r, &p);
    } else {
        int from = p.origin[0] && !p.row_fault[0];
        char step[32];

        mds_layout_describe(&p.fits[0].layout, r.world, &text);
        mds_info("plan: %s; %s a step%s%s", text.s ? text.s : "",
                 mds_format_step(p.fits[0].estimate.step_s, step, sizeof step),
                 from ? ", from " : "", from ? p.origin : "");
        mds_str_fini(&text);
        mds_layout_options(&p.fits[0].layout, run->config.train.activation_memory,
                           p.fixed, &text);
        mds_argv_add_split(chosen, text.s);
    }
    mds_str_fini(&text);
    mds_plan_fini(&p);
    return rc;
}

static enum mds_rc predict_step(const struct mds_launch *l,
                                const struct mds_config_run *run,
                                struct mds_estimate *e)
{
    struct mds_config c = run->config;

    int level;

    c.train.eval_iters = 0;
    return mds_predict_level(&c, (int)l->ranks, (int)l->per_node, l->machine, e,
                             &level);
}

/* step_s: of the largest step.  Where steps have unlike sizes a second prediction, of
 * the smallest, says what each sample adds to a step. */
static enum mds_rc predict_training(struct mds_launch *l, const struct mds_config *c,
                                    double step_s)
{
    struct mds_outlook *o = &l->outlook;
    struct mds_config small = *c;
    struct mds_estimate e;
    double sample_s;

    o->train_s = (double)o->steps * step_s;
    if (c->batch.schedule.n == 0 || o->steps == 0)
        return MDS_OK;
    small.batch.global = mds_batch_smallest(&c->batch.schedule);
    small.batch.accumulation =
        small.batch.global / (c->batch.global / c->batch.accumulation);
    if (small.batch.global == c->batch.global)
        return MDS_OK;
    MDS_TRY(mds_predict(&small, (int)l->ranks, (int)l->per_node, l->machine, &e));
    sample_s = (step_s - e.step_s) / (double)(c->batch.global - small.batch.global);
    o->train_s += sample_s * (double)(o->trained - o->steps * c->batch.global);
    return MDS_OK;
}

enum mds_rc mds_launch_predict_times(struct mds_launch *l, const struct mds_config *c,
                                     const struct mds_estimate *e)
{
    struct mds_config evaluation = *c;
    struct mds_outlook *o = &l->outlook;
    struct mds_estimate batch;

    MDS_TRY(predict_training(l, c, e->step_s));
    o->batch_s = e->step_s;
    if (o->batches == 0 || c->train.skip_train)
        return MDS_OK;
    evaluation.train.skip_train = 1;
    MDS_TRY(
        mds_predict(&evaluation, (int)l->ranks, (int)l->per_node, l->machine, &batch));
    o->batch_s = batch.step_s;
    return MDS_OK;
}

/* Print the layouts that fit with the options that are set.  Returns whether there are
 * any. */
static int print_layouts_that_fit(const struct mds_launch *l)
{
    struct mds_config_run *asked = NULL;
    struct mds_plan_request r;
    struct mds_diag diag = {0};
    struct mds_plan p = {0};
    int any = 0;

    if (mds_launch_config(l, NULL, 0, &asked))
        return 0;
    if (!mds_launch_request(l, asked, &r) && !mds_plan_search(&r, &diag, &p)) {
        mds_plan_advise(&r, &p, stderr);
        any = p.fit_count > 0;
        mds_plan_fini(&p);
    }
    mds_diag_fini(&diag);
    mds_config_run_destroy(asked);
    return any;
}

/* Whether the layout fits, by the profile; mds_pretrain asks again on the nodes. */
static enum mds_rc check_memory(const struct mds_launch *l,
                                const struct mds_estimate *e)
{
    char need[32], have[32];
    int any;

    if (e->fits)
        return MDS_OK;
    any = print_layouts_that_fit(l);
    mds_estimate_memory_text(e, need, have);
    return mds_fail(
        MDS_EUSER,
        "this does not fit on %lld node%s of %s (%lld rank%s): a rank needs %s of %s; "
        "%s; --no-check-memory starts it anyway",
        (long long)l->nodes, mds_plural(l->nodes), l->machine->name,
        (long long)l->ranks, mds_plural(l->ranks), need, have,
        any ? "layouts that fit are listed above"
            : "no layout with these options fits: use more nodes or a shorter "
              "sequence");
}

/* Whether to compare with a plan, which takes some seconds: only if a person is likely
 * to read the result, so not with --print, for the runs of a sweep, or inside a job. */
static int is_worth_comparing(const struct mds_launch *l)
{
    const struct mds_scheduler *d = mds_scheduler_at(l->machine->batch.scheduler);
    const struct mds_launch_options *o = l->options;
    int in_job = d->id && getenv(d->id);

    return o->layout == MDS_LAYOUT_AUTO && !o->print && !o->tag && !in_job &&
           l->machine->node.gpus > 0 && l->ranks > 1;
}

/* For layouts that the user set, unless with --layout given. */
static void compare_with_plan(const struct mds_launch *l, const struct mds_estimate *e)
{
    struct mds_config_run *asked = NULL;
    struct mds_plan_request r;
    struct mds_diag diag = {0};
    struct mds_plan p = {0};
    struct mds_str text = {0};
    char set[32], best[32];

    if (!is_worth_comparing(l) || mds_launch_config(l, NULL, 0, &asked))
        return;
    if (!mds_launch_request(l, asked, &r)) {
        r.freed = ~0u;
        r.budget_s = fmin(r.budget_s, 5);
        if (!mds_plan_search(&r, &diag, &p) && p.fit_count > 0 &&
            p.fits[0].estimate.tokens_s > 1.05 * e->tokens_s) {
            mds_layout_describe(&p.fits[0].layout, r.world, &text);
            mds_info("the layout you set is predicted to reach %s tokens/s per rank; a "
                     "planned one would reach %s, %.1f times as many: %s",
                     mds_format_count(e->tokens_s, set, sizeof set),
                     mds_format_count(p.fits[0].estimate.tokens_s, best, sizeof best),
                     p.fits[0].estimate.tokens_s / e->tokens_s, text.s ? text.s : "");
        }
    }
    mds_str_fini(&text);
    mds_plan_fini(&p);
    mds_diag_fini(&diag);
    mds_config_run_destroy(asked);
}

/* Resolve for the ranks.  A line that is only printed needs no data.  The nodes' disks
 * are not here: each rank looks at its own, this is a dry run. */
static enum mds_rc resolve_for_ranks(const struct mds_launch *l,
                                     struct mds_config_run *run)
{
    struct mds_diag diag = {0};
    int printed = l->options->print;
    enum mds_rc rc;

    if (printed && !mds_config_data_paths(&run->config.data))
        mds_warn("no data: DATA_PATH (--data-path) is not set");
    if (printed && mds_extent_unit(&run->config.train.length) == MDS_UNITS &&
        !run->config.train.skip_train)
        mds_warn("no length of the run: TRAIN_ITERS (--train-iters) is not set");
    run->config.train.dry_run = 1;
    rc = mds_config_resolve(run, l->ranks, &diag);
    if (!rc && !printed) {
        mds_config_need_data(run, &diag);
        rc = mds_diag_result(&diag);
    }
    if (!rc)
        mds_diag_log(&diag);
    if (!rc)
        rc = mds_launch_check_paths(&run->config.data);
    mds_diag_fini(&diag);
    return rc;
}

/* A rank that computes is as silent as one that hangs.  In a pipeline it may do so for
 * as long as all others need for a micro-batch, there and back, elsewhere for a block:
 * at long sequences more than the limit that serves otherwise.  Then that is twice what
 * is predicted. */
static void add_timeout(const struct mds_config_run *run, const struct mds_estimate *e,
                        struct mds_argv *arguments)
{
    const struct mds_config *c = &run->config;
    double passes = e->compute_s + e->tensor_s + e->sequence_s + e->pipeline_s;
    double one = passes / (double)c->batch.accumulation;
    double quiet =
        c->parallel.pipeline > 1 ? e->idle_s + one : one / (double)c->model.layers;
    double minutes = ceil(2 * (quiet + e->host_s) / 60);

    if (60 * minutes <= c->parallel.timeout_s ||
        mds_is_set_by_user(run, "parallel.timeout"))
        return;
    mds_argv_add_option(arguments, "--distributed-timeout-minutes", "%.0f", minutes);
}

/* A plan's layout has other data-parallel ranks than that of a script, and so another
 * batch where nobody sets it. */
static void log_batch_of_plan(const struct mds_config_run *run)
{
    long long global = run->config.batch.global;

    mds_info("plan: a step has %lld sequence%s: GLOBAL_BATCH (--global-batch-size) is "
             "not set, so it follows from the layout's %lld data-parallel rank%s",
             global, mds_plural(global), (long long)run->config.parallel.data,
             mds_plural(run->config.parallel.data));
}

enum mds_rc mds_launch_choose_layout(struct mds_launch *l, struct mds_argv *arguments,
                                     struct mds_estimate *out)
{
    struct mds_config_run *run = NULL;
    struct mds_argv chosen = {0};
    enum mds_rc rc;
    int open, sized;

    MDS_TRY(mds_launch_config(l, NULL, 1, &run));
    mds_launch_read_data(l, run);
    open = is_layout_open(l, run);
    sized = mds_is_set_by_user(run, "batch.global");
    if (open) {
        rc = choose_planned_layout(l, run, &chosen);
        mds_config_run_destroy(run);
        if (!rc)
            rc = mds_launch_config(l, &chosen, 0, &run);
        if (rc)
            goto fini_chosen;
    }
    rc = resolve_for_ranks(l, run);
    if (!rc && l->for_later)
        rc = mds_launch_look_ahead(l, run);
    if (!rc && open && !sized)
        log_batch_of_plan(run);
    if (!rc)
        rc = predict_step(l, run, out);
    if (!rc && l->for_later)
        rc = mds_launch_predict_times(l, &run->config, out);
    if (!rc && l->options->check_memory)
        rc = check_memory(l, out);
    if (!rc && !open)
        compare_with_plan(l, out);
    if (!rc)
        rc = mds_launch_arguments(l, run, arguments);
    if (!rc)
        add_timeout(run, out, arguments);
    mds_config_run_destroy(run);
fini_chosen:
    mds_argv_fini(&chosen);
    return rc;
}
