/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/launch.h"
#include "base/host.h"
#include "base/log.h"
#include "base/units.h"
#include "ckpt/configuration.h"
#include "data/inspect.h"
#include "launch/batch_syntax.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- machine, nodes and ranks ---- */

/* Ranks on each node. */
static enum mds_rc count_ranks_per_node(struct mds_launch *l)
{
    const struct mds_launch_options *o = l->options;
    const struct mds_placement *p = &l->placement;

    l->per_node = o->ranks_per_node ? o->ranks_per_node : p->slots;
    if (l->per_node)
        return MDS_OK;
    if (l->machine->node.gpus == 0)
        l->per_node = mds_machine_ranks_per_node(l->machine);
    else if (p->gpus > 0)
        l->per_node = p->gpus;
    else
        return mds_fail(
            MDS_EUSER,
            "no GPU: %s says there is none on a node of %s; correct that, or "
            "give --ranks-per-node (NGPU_PER_HOST)",
            p->gpus_from, l->machine->name);
    return MDS_OK;
}

/* Before a job the number of ranks says how many nodes to ask for. */
static int64_t nodes_to_ask_for(const struct mds_launch *l, int job)
{
    const struct mds_launch_options *o = l->options;
    const struct mds_placement *p = &l->placement;

    if (job && o->nodes_asked)
        return o->nodes_asked;
    if (o->nodes)
        return o->nodes;
    if (job && o->ranks && !mds_placement_hosts(p) &&
        l->machine->batch.scheduler != MDS_SCHEDULER_NONE)
        return (o->ranks + l->per_node - 1) / l->per_node;
    if (!job && o->spare_nodes > 0)
        return p->nodes + (int64_t)p->excluded - o->spare_nodes;
    return p->nodes;
}

static enum mds_rc count_nodes(struct mds_launch *l, int job)
{
    const struct mds_placement *p = &l->placement;
    int64_t there = p->nodes, excluded = (int64_t)p->excluded;

    l->nodes = nodes_to_ask_for(l, job);
    if (l->nodes > l->machine->node.count &&
        l->machine->batch.scheduler != MDS_SCHEDULER_NONE)
        mds_warn("%lld nodes, but %s has %lld by its profile (node.count)",
                 (long long)l->nodes, l->machine->name,
                 (long long)l->machine->node.count);
    if (job)
        return MDS_OK;
    if (l->nodes < 1)
        return mds_fail(MDS_EUSER,
                        "--spare-nodes %lld: %s has %lld node%s, so none is "
                        "left for the run",
                        (long long)l->options->spare_nodes, p->nodes_from,
                        (long long)(there + excluded), mds_plural(there + excluded));
    if (!mds_placement_hosts(p) || l->nodes <= there)
        return MDS_OK;
    if (excluded > 0)
        return mds_fail(MDS_EUSER,
                        "%lld nodes asked for, but %s has %lld, of which %lld %s "
                        "excluded",
                        (long long)l->nodes, p->nodes_from,
                        (long long)(there + excluded), (long long)excluded,
                        excluded == 1 ? "is" : "are");
    return mds_fail(MDS_EUSER, "%lld nodes asked for, but %s has %lld",
                    (long long)l->nodes, p->nodes_from, (long long)there);
}

/* A number of ranks decides how many nodes are needed, or how full one is. */
static enum mds_rc count_ranks(struct mds_launch *l)
{
    int64_t asked = l->options->ranks;

    l->ranks = l->nodes * l->per_node;
    if (!asked || asked == l->ranks)
        return MDS_OK;
    if (asked > l->ranks && (mds_placement_hosts(&l->placement) || l->options->nodes) &&
        l->options->ranks_per_node)
        return mds_fail(MDS_EUSER,
                        "%lld ranks (NGPUS, --ranks) are more than %lld nodes x %lld "
                        "ranks on each; leave one out",
                        (long long)asked, (long long)l->nodes, (long long)l->per_node);
    if (asked > l->ranks) {
        if (mds_placement_hosts(&l->placement) || l->machine->node.gpus > 0)
            return mds_fail(MDS_EUSER,
                            "%lld rank%s (NGPUS, --ranks), but %lld node%s with %lld "
                            "on each; give more --nodes",
                            (long long)asked, mds_plural(asked), (long long)l->nodes,
                            mds_plural(l->nodes), (long long)l->per_node);
        l->per_node = asked;
    }
    if (asked < l->per_node)
        l->per_node = asked;
    l->nodes = (asked + l->per_node - 1) / l->per_node;
    l->ranks = asked;
    return MDS_OK;
}

/* localhost's profile says nothing of GPUs: what this host has is taken from nvidia-smi
 * and the profile that knows such GPUs, unless all are hidden. */
static enum mds_rc use_detected_gpus(struct mds_launch *l, const struct mds_gpus *here,
                                     struct mds_diag *diag)
{
    const struct mds_machine *was = l->machine;

    if (!mds_machine_is_local(was) || was->node.gpus > 0 || here->count == 0 ||
        mds_gpus_count_visible() == 0)
        return MDS_OK;
    MDS_TRY(mds_machine_merge_gpus(here, diag, &l->machine));
    if (l->machine == was)
        mds_warn("no profile has gpu.names for '%s': ranks compute on the cpu",
                 here->name);
    else
        mds_info("found %d %s; plans use the speeds in %s", here->count, here->name,
                 l->machine->path);
    return MDS_OK;
}

enum mds_rc mds_launch_open(const struct mds_launch_options *options, int job, int argc,
                            char *const *argv, struct mds_launch *out)
{
    struct mds_launch l = {
        .options = options, .for_later = job, .scan = {.largest = -1}};
    struct mds_diag diag = {0};
    struct mds_gpus here;
    int known = mds_gpus_detect(&here);
    const struct mds_exclusions exclude = {options->exclude, options->exclude_file,
                                           options->nodes, options->spare_nodes};
    char host[MDS_HOST_SIZE];
    enum mds_rc rc;

    mds_host_name(host);
    rc = mds_machine_find(options->machine, host, &diag, &l.machine);
    if (!rc)
        rc = use_detected_gpus(&l, &here, &diag);
    mds_diag_fini(&diag);
    if (!rc)
        rc = mds_placement_find(l.machine, options->hostfile, job ? NULL : &exclude,
                                known ? &here : NULL, &l.placement);
    if (rc)
        goto destroy_machine;
    rc = count_ranks_per_node(&l);
    if (!rc)
        rc = count_nodes(&l, job);
    if (!rc)
        rc = count_ranks(&l);
    if (rc)
        goto fini_placement;
    for (int i = 0; i < argc; i++)
        mds_argv_add(&l.asked, "%s", argv[i]);
    *out = l;
    return MDS_OK;

fini_placement:
    mds_placement_fini(&l.placement);
destroy_machine:
    mds_machine_destroy(l.machine);
    return rc;
}

void mds_launch_close(struct mds_launch *l)
{
    mds_argv_fini(&l->asked);
    mds_placement_fini(&l->placement);
    mds_machine_destroy(l->machine);
}

/* ---- configuration ---- */

/* A GPU for each rank; ranks on CPUs may be as many as they like.  Where a list of
 * visible GPUs is wrong the profile counts. */
static enum mds_rc check_gpus(const struct mds_launch *l,
                              const struct mds_config_run *run)
{
    int64_t there = l->machine->node.gpus;

    if (l->placement.gpus > there)
        there = l->placement.gpus;
    if (there == 0 || l->per_node <= there ||
        strcmp(run->config.output.device, "cpu") == 0)
        return MDS_OK;
    return mds_fail(
        MDS_EUSER,
        "%lld ranks a node (NGPU_PER_HOST, --ranks-per-node), but a node of "
        "%s has %lld GPU%s; give %lld at most, or --device cpu",
        (long long)l->per_node, l->machine->name, (long long)there, mds_plural(there),
        (long long)there);
}

static enum mds_rc check_dtype(const struct mds_launch *l,
                               const struct mds_config_run *run)
{
    const struct mds_machine *m = l->machine;

    if (mds_machine_supports_type(m, run->config.train.type) ||
        strcmp(run->config.output.device, "cpu") == 0)
        return MDS_OK;
    return mds_fail(MDS_EUSER,
                    "%s: bf16 needs GPUs of compute capability 8.0, and %s of %s has "
                    "%.1f; give --fp16 (DTYPE=fp16)",
                    mds_settings_of(&run->settings, "model.dtype")->origin, m->gpu.kind,
                    m->name, m->gpu.capability);
}

/* Optimizer states that are to be on disk, without --nvme-path: they go to what the
 * profile calls a node's own disk, as with the ALCF scripts. */
static void default_nvme_path(const struct mds_launch *l, struct mds_config_run *run,
                              int log, struct mds_diag *diag)
{
    const char *scratch = l->machine->node.scratch;
    struct mds_settings *s = &run->settings;

    if (run->config.parallel.offload_optimizer != MDS_PLACE_NVME ||
        run->config.parallel.nvme_path || !scratch)
        return;
    mds_settings_put(s, mds_settings_row(s, "parallel.nvme_path"), scratch,
                     MDS_LEVEL_MACHINE,
                     mds_settings_of(&l->machine->facts, "node.scratch")->origin,
                     "node.scratch", diag);
    if (log)
        mds_info("optimizer states go to %s, scratch of %s's nodes; --nvme-path "
                 "(NVME_PATH) chooses another folder",
                 scratch, l->machine->name);
}

/* Options that only print would do so on every rank. */
static enum mds_rc check_action(const struct mds_launch *l,
                                const struct mds_config_run *run)
{
    if (run->config.train.dry_run)
        return mds_fail(MDS_EUSER,
                        "--dry-run: use `mds_launch plan`, or call mds_pretrain "
                        "itself, with --world-size %lld",
                        (long long)l->ranks);
    if (run->action != MDS_ACTION_RUN)
        return mds_fail(MDS_EUSER, "options that only print, such as --show-config, "
                                   "need no launcher: call mds_pretrain itself");
    return MDS_OK;
}

enum mds_rc mds_launch_config(const struct mds_launch *l, const struct mds_argv *extra,
                              int log, struct mds_config_run **out)
{
    struct mds_argv argv = {0};
    struct mds_diag diag = {0};
    enum mds_rc rc;

    *out = NULL;
    mds_argv_add_split(&argv, "mds_pretrain --machine");
    mds_argv_add(&argv, "%s", l->machine->path);
    for (size_t i = 0; i < l->asked.n; i++)
        mds_argv_add(&argv, "%s", l->asked.v[i]);
    for (size_t i = 0; extra && i < extra->n; i++)
        mds_argv_add(&argv, "%s", extra->v[i]);
    rc = argv.failed || l->asked.failed
             ? mds_fail(MDS_EMEM, "no host memory for arguments")
             : mds_config_read((int)argv.n, argv.v, &diag, out);
    if (!rc)
        rc = check_action(l, *out);
    if (!rc)
        rc = mds_ckpt_inherit_model(*out, &diag);
    if (!rc) {
        default_nvme_path(l, *out, log, &diag);
        mds_data_inspect(*out, mds_launch_scanned_words(l), log);
        (*out)->config.data.seen = l->seen;
    }
    if (!rc && log)
        mds_diag_log(&diag);
    if (!rc)
        rc = check_gpus(l, *out);
    if (!rc)
        rc = check_dtype(l, *out);
    if (!rc)
        rc = mds_machine_check_fp8(l->machine, &(*out)->config);
    if (rc && *out) {
        mds_config_run_destroy(*out);
        *out = NULL;
    }
    mds_diag_fini(&diag);
    mds_argv_fini(&argv);
    return rc;
}

/* ---- layout ---- */

/* Whether a plan chooses the layout. */
static int is_layout_open(const struct mds_launch *l, const struct mds_config_run *run)
{
    const struct mds_settings *s = &run->settings;

    if (l->options->layout != MDS_LAYOUT_AUTO)
        return l->options->layout == MDS_LAYOUT_PLAN;
    if (l->machine->node.gpus == 0 || l->ranks == 1)
        return 0; /* plain data parallelism, as without this program */
    for (const struct mds_axis *a = mds_axes; a->name; a++)
        if (a->key && mds_settings_of(s, a->key)->level > MDS_LEVEL_DERIVED)
            return 0;
    return mds_settings_of(s, "parallel.sp_type")->level <= MDS_LEVEL_DERIVED;
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
        mds_layout_options(&p.fits[0].layout, p.fixed, &text);
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
    mds_format_bytes((double)e->device_bytes, need, sizeof need);
    mds_format_bytes((double)e->device_limit, have, sizeof have);
    if (e->device_bytes <= e->device_limit) {
        mds_format_bytes((double)e->host_need, need, sizeof need);
        mds_format_bytes((double)e->host_limit, have, sizeof have);
    }
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
    const struct mds_batch_syntax *d = mds_batch_syntax_of(l->machine->batch.scheduler);
    const struct mds_launch_options *o = l->options;
    int is_sweep_run = o->write && o->tag, in_job = d && d->id && getenv(d->id);

    return o->layout == MDS_LAYOUT_AUTO && !o->print && !is_sweep_run && !in_job &&
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
        mds_settings_of(&run->settings, "parallel.timeout")->level > MDS_LEVEL_DERIVED)
        return;
    mds_argv_add(arguments, "--distributed-timeout-minutes");
    mds_argv_add(arguments, "%.0f", minutes);
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
    sized = mds_settings_of(&run->settings, "batch.global")->level > MDS_LEVEL_DERIVED;
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
