/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/train.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/units.h"
#include "ckpt/folder.h"
#include "ckpt/hf.h"
#include "config/options.h"
#include "device/profile.h"
#include "io/output.h"
#include "metrics/outputs.h"
#include "optim/schedule.h"
#include "train/run.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* ---- set-up ---- */

/* The device, and host memory beside it. */
static enum mds_rc open_device(struct run *r)
{
    struct mds_dev_spec spec = mds_engine_device(r->config, r->spec->world);

    MDS_TRY(mds_dev_create(&spec, &r->dev));
    spec.host_side = 1;
    MDS_TRY(mds_dev_create(&spec, &r->host));
    if (is_rank0(r))
        mds_info("device: %s", mds_dev_describe(r->dev));
    if (is_rank0(r) && !r->config->train.flash_attn)
        mds_info("attention: unfused math");
    return MDS_OK;
}

static enum mds_rc build_engine(struct run *r)
{
    struct mds_engine_spec spec = {
        .dev = r->dev,
        .host = r->host,
        .groups = &r->groups,
        .need = &r->need,
        .threads = mds_engine_device(r->config, r->spec->world).threads};
    int64_t peak;

    MDS_TRY(mds_run_measure(r));
    spec.config = r->config;
    MDS_TRY(mds_run_check_memory(r));
    MDS_TRY(mds_comm_barrier(world_of(r))); /* others may still measure free memory */
    mds_host_memory_used(&r->memory_before, &peak);
    MDS_TRY(mds_engine_create(&spec, &r->engine));
    mds_engine_report_to(r->engine, mds_run_report_block, r);
    MDS_TRY(mds_run_open_background(r));
    return mds_run_load_or_start(r);
}

/* Entropy of single tokens in nats; NAN if counting the whole split would take long. */
static double unigram_entropy(const struct run *r)
{
    const int64_t worth_reading_tokens = INT64_C(1) << 28;
    double nats = NAN;

    if (mds_dataset_tokens(r->spec->data, MDS_SPLIT_TRAIN) > worth_reading_tokens ||
        mds_dataset_entropy(r->spec->data, MDS_SPLIT_TRAIN, &nats))
        return NAN;
    return nats;
}

/* Of a run that is shorter than ten steps more than the last one is shown. */
static int64_t choose_log_interval(const struct run *r)
{
    const int64_t usual = 10, lines = 5;

    return r->config->train.log_interval > 0
               ? r->config->train.log_interval
               : mds_max(1, mds_min(usual, steps_left(r) / lines));
}

static enum mds_rc open_metrics(struct run *r)
{
    const struct mds_config *c = r->config;
    struct mds_metrics_run m = {
        .version = r->spec->version,
        .size_key = c->model.size_key,
        .device = mds_dev_name(r->dev),
        .dtype = mds_number_type_names[c->train.type],
        .fp8_format = mds_fp8_format_names[c->model.fp8.format],
        .data_path = mds_config_data_paths(&c->data),
        .save = c->train.skip_train ? NULL : c->checkpoint.save,
        .load = c->checkpoint.load,
        .overwrite = c->output.overwrite,
        .model = mds_flops_model_of(c),
        .vocab = c->model.vocab,
        .recompute = mds_recompute_of(&c->train.act),
        .recompute_modules = mds_recompute_modules_name(c->train.act.recompute_modules),
        .ranks = r->groups.grid.world,
        .data_parallel = mds_groups_size(&r->groups, MDS_AXIS_DATA),
        .micro_batch = c->batch.micro,
        .global_batch = next_step(r).in[MDS_SAMPLES],
        .largest_batch = c->batch.global,
        .first_iteration = r->iteration,
        .evaluation = c->train.skip_train,
        .iters = r->iteration + steps_left(r),
        .log_interval = r->log_interval,
        .short_lines = c->output.log_format - MDS_LOG_MEGATRON,
        .seed = c->train.seed,
        .kinds = c->data.kinds,
        .router_names = mds_router_names_of(&c->model.experts)};

    if (!is_rank0(r))
        return MDS_OK;
    m.parameters = mds_model_params(&c->model);
    m.threads = mds_engine_device(r->config, r->spec->world).threads;
    m.unigram_entropy_nats = unigram_entropy(r);
    return mds_metrics_open(&m, c->output.metrics_jsonl, c->output.tensorboard_dir,
                            &r->metrics);
}

/* Find out now, not after the last step, that an output cannot be written. */
static enum mds_rc check_outputs(const struct run *r)
{
    struct mds_output probe = {0};

    if (!is_rank0(r) || r->config->train.skip_train)
        return MDS_OK;
    MDS_TRY(mds_run_check_save(r));
    if (!r->config->output.export_weights)
        return MDS_OK;
    MDS_TRY(mds_output_open(r->config->output.export_weights, &probe));
    mds_output_abandon(&probe);
    return MDS_OK;
}

/* A run that goes on from its own checkpoint replaces its own files. */
static enum mds_rc check_replaced_files(const struct run *r)
{
    if (!is_rank0(r) || r->from >= 0)
        return MDS_OK;
    return mds_outputs_check_new(&r->config->output);
}

/* Say now, not after the last step, that the model cannot be exported. */
static void warn_export_unsupported(const struct run *r)
{
    const struct mds_config *c = r->config;
    enum mds_hf_kind kind;

    if (is_rank0(r) && c->checkpoint.save && !c->train.skip_train &&
        mds_hf_choose(&c->model, &kind))
        mds_info("mds_ckpt export --format hf will refuse this model: %s",
                 mds_fail_text());
}

static enum mds_rc look_at_data(const struct run *r)
{
    if (r->config->checkpoint.save)
        MDS_TRY(mds_dataset_describe(r->spec->data));
    return mds_dataset_log_epochs(r->spec->data, all_samples(r));
}

static enum mds_rc set_up_run(struct run *r)
{
    MDS_TRY(check_outputs(r));
    MDS_TRY(open_device(r));
    MDS_TRY(mds_groups_create(&r->config->parallel, r->spec->world->ranks,
                              r->spec->world->rank, r->dev, &r->groups));
    MDS_TRY(build_engine(r));
    if (is_rank0(r) && !r->config->train.skip_train)
        MDS_TRY(look_at_data(r));
    MDS_TRY(check_replaced_files(r));
    if (is_rank0(r))
        mds_run_prune_surplus(r);
    if (is_rank0(r) && mds_run_report_disk_space(r))
        mds_warn("cannot tell whether checkpoints fit: %s", mds_fail_text());
    MDS_TRY(mds_run_alloc_rows(r));
    MDS_TRY(mds_run_check_targets(r));
    MDS_TRY(mds_run_trace_start(r));
    warn_export_unsupported(r);
    r->log_interval = choose_log_interval(r);
    MDS_TRY(open_metrics(r));
    MDS_TRY(mds_run_event_started(r));
    mds_run_event_data(r);
    return MDS_OK;
}

static void tear_down_run(struct run *r)
{
    mds_run_free_rows(r);
    mds_ckpt_background_destroy(r->background);
    mds_engine_destroy(r->engine);
    mds_groups_fini(&r->groups);
    mds_dev_destroy(r->host);
    mds_dev_destroy(r->dev);
}

/* ---- the loop ---- */

/* samples: of the step. */
static void report_step(struct run *r, const struct mds_step_result *s, int taken,
                        int64_t samples, double lr, double elapsed_s)
{
    int fp16 = r->config->train.type == MDS_TYPE_F16;
    const struct mds_extent end = end_of(r);
    struct mds_metrics_step m = {.iteration = r->iteration,
                                 .last_iteration = end.in[MDS_STEPS],
                                 .samples = samples,
                                 .samples_left = end.in[MDS_SAMPLES] - r->samples,
                                 .consumed_samples = r->samples,
                                 .consumed_tokens = r->tokens,
                                 .elapsed_s = elapsed_s,
                                 .lr = lr,
                                 .loss = s->loss,
                                 .by_kind = &s->by_kind,
                                 .seen = s->seen,
                                 .grad_norm = s->grad_norm,
                                 .expert_load = s->expert_load,
                                 .logit_bound = s->logit_bound,
                                 .clipped_heads =
                                     r->config->optim.qk_clip ? s->clipped_heads : -1,
                                 .router_losses = s->router_losses,
                                 .loss_scale = fp16 ? s->loss_scale : 0,
                                 .skipped = s->overflow || !taken};

    if (taken)
        r->train_loss = s->loss;
    r->sample_s = elapsed_s / (double)samples;
    if (!is_rank0(r))
        return;
    if (s->router_losses)
        mds_metrics_experts(r->metrics, &m);
    mds_metrics_step(r->metrics, &m);
}

/* before: sequences of the last step. */
static void report_batch_change(const struct run *r, int64_t before)
{
    int64_t now = next_step(r).in[MDS_SAMPLES];

    if (now == before || steps_left(r) == 0 || !is_rank0(r))
        return;
    mds_info("from iteration %" PRId64 " on a step has %" PRId64 " sequence%s; so far "
             "%" PRId64,
             r->iteration + 1, now, mds_plural(now), before);
    mds_run_event_batch(r, now);
}

static enum mds_rc train_step(struct run *r)
{
    const struct mds_extent done = progress_of(r), size = next_step(r);
    const struct mds_extent after = mds_extent_after(&done, &size, 1);
    int64_t step = r->iteration + 1, first = first_sample(r, r->samples);
    double lr = mds_lr_at(&r->config->optim, &after);
    double begin = mds_clock_s();
    struct mds_step_result result;
    struct mds_engine_rows rows = mds_run_rows(r);
    enum mds_run_decision decision;

    mds_run_progress_begin(r);
    MDS_TRY(mds_run_profile_begin(r));
    MDS_TRY(mds_run_straggler_begin(r));
    MDS_TRY(mds_run_read_rows(r));
    MDS_TRY(
        mds_engine_backward(r->engine, step, first, micro_batches(r), &rows, &result));
    MDS_TRY(mds_run_straggler_end(r));
    MDS_TRY(mds_run_check_step(r, &result, &decision));
    if (decision == MDS_RUN_ROLLED_BACK)
        return mds_run_profile_end(r, 0);
    MDS_TRY(mds_run_trace_grads(r, step));
    if (decision == MDS_RUN_APPLY)
        MDS_TRY(mds_engine_update(r->engine, lr));
    set_progress(r, &after);
    r->has_trained = 1;
    report_step(r, &result, decision == MDS_RUN_APPLY, size.in[MDS_SAMPLES], lr,
                mds_clock_s() - begin);
    report_batch_change(r, size.in[MDS_SAMPLES]);
    return mds_run_profile_end(r, 0);
}

/* Before its end, because of the time or a signal. */
static int must_leave(const char *reason)
{
    return strcmp(reason, "duration") == 0 || strcmp(reason, "signal") == 0;
}

static int validation_is_due(const struct run *r)
{
    const struct mds_train_config *t = &r->config->train;

    return t->eval_iters > 0 && t->eval_interval > 0 && r->iteration > 0 &&
           r->iteration % t->eval_interval == 0 && r->iteration != r->evaluated;
}

static void report_nothing_left(const struct run *r)
{
    const struct mds_extent done = progress_of(r);

    for (int u = 0; u < MDS_UNITS; u++) {
        struct mds_extent only = {{0}};

        only.in[u] = r->config->train.length.in[u];
        if (only.in[u] &&
            mds_config_end(r->config, &only, &done).in[MDS_STEPS] == done.in[MDS_STEPS])
            mds_info("nothing to train: %" PRId64 " of %" PRId64 " %s are done%s",
                     done.in[u], only.in[u], mds_unit_names[u],
                     done.in[u] < only.in[u] ? ", and less than a batch is left" : "");
    }
}

/* A job that goes on from this iteration need not evaluate it again; if the mark cannot
 * be written, it does. */
static void mark_evaluated(struct run *r)
{
    const char *save = r->config->checkpoint.save;

    r->evaluated = r->iteration;
    if (is_rank0(r) && save && !r->config->train.skip_train &&
        r->saved == r->iteration && mds_ckpt_mark_evaluated(save, r->iteration))
        mds_warn("%s", mds_fail_text());
}

/* *reason: if the evaluation has to be put off to the next job, why.  If it would take
 * longer than a whole job, it would be put off for ever. */
static enum mds_rc evaluate(struct run *r, enum mds_split split, double *loss,
                            const char **reason)
{
    const char *stop;

    MDS_TRY(mds_run_evaluate(r, split, loss, &stop));
    if (!stop && split == MDS_SPLIT_VALID)
        mark_evaluated(r);
    if (!stop)
        return MDS_OK;
    if (r->signal || r->has_trained || r->config->train.skip_train)
        *reason = stop;
    if (*reason)
        mds_run_event_walltime(r, stop);
    if (!is_rank0(r))
        return MDS_OK;
    if (*reason)
        mds_info("evaluation at iteration %" PRId64 " is left to the next job: %s",
                 r->iteration, stop);
    else
        mds_warn("no evaluation at iteration %" PRId64
                 ": it would take longer than the whole time of this job "
                 "(--exit-duration-in-mins); lower --eval-iters",
                 r->iteration);
    return MDS_OK;
}

/* Where a job leaves at an iteration with validation, the next one begins with that,
 * unless it is the end of the run. */
static enum mds_rc train_loop(struct run *r, const char **reason)
{
    if (r->config->train.skip_train) {
        *reason = "evaluation";
        if (is_rank0(r))
            mds_info("--skip-train: evaluating iteration %" PRId64
                     "; nothing is trained or saved",
                     r->iteration);
        return MDS_OK;
    }
    if (steps_left(r) == 0) {
        *reason = "iterations";
        if (is_rank0(r))
            report_nothing_left(r);
        return mds_run_checkpoint(r, 1); /* --save may be another folder */
    }
    for (;;) {
        if (validation_is_due(r))
            MDS_TRY(evaluate(r, MDS_SPLIT_VALID, &r->valid_loss, reason));
        if (*reason)
            return mds_run_checkpoint(r, 1);
        mds_range_begin_step(r->iteration + 1);
        MDS_TRY(train_step(r));
        mds_range_end();
        MDS_TRY(mds_run_should_stop(r, reason));
        if (*reason && must_leave(*reason))
            mds_run_event_walltime(r, *reason);
        MDS_TRY(mds_run_checkpoint(r, *reason != NULL));
        if (*reason)
            return MDS_OK;
    }
}

/* Whether the run has done all that it was to do, but for its last evaluation. */
static int is_complete(const char *reason)
{
    return strcmp(reason, "iterations") == 0 || strcmp(reason, "evaluation") == 0;
}

static enum mds_rc evaluate_at_end(struct run *r, const char **reason)
{
    double *const losses[] = {
        [MDS_SPLIT_VALID] = &r->valid_loss, [MDS_SPLIT_TEST] = &r->test_loss};

    for (enum mds_split s = MDS_SPLIT_VALID; s <= MDS_SPLIT_TEST; s++)
        if (is_complete(*reason) && r->config->train.eval_iters > 0 &&
            mds_dataset_samples(r->spec->data, s) > 0)
            MDS_TRY(evaluate(r, s, losses[s], reason));
    return MDS_OK;
}

/* Not if the run has to leave at once, and has saved. */
static enum mds_rc export_at_end(const struct run *r, const char *reason)
{
    const char *weights = r->config->output.export_weights;

    if (!weights)
        return MDS_OK;
    if (is_complete(reason) || r->saved < 0 || strcmp(reason, "exit interval") == 0)
        return mds_run_export(r, MDS_ZERO_WEIGHT, weights);
    if (is_rank0(r))
        mds_warn("%s: not written, since the run was ended by %s", weights, reason);
    return MDS_OK;
}

static enum mds_rc finish_run(struct run *r, const char **reason)
{
    struct mds_metrics_summary summary = {.iteration = r->iteration,
                                          .train_s = mds_clock_s() - r->start_s,
                                          .train_loss = r->train_loss};
    struct mds_metrics *m = r->metrics;

    MDS_TRY(mds_run_profile_end(r, 1));
    MDS_TRY(evaluate_at_end(r, reason));
    MDS_TRY(export_at_end(r, *reason));
    if (r->config->train.skip_train) /* which the evaluation was all of */
        summary.train_s = mds_clock_s() - r->start_s;
    summary.valid_loss = r->valid_loss;
    summary.test_loss = r->test_loss;
    summary.reason = *reason;
    if (!is_rank0(r))
        return MDS_OK;
    mds_run_print_memory(r);
    r->metrics = NULL;
    return mds_metrics_close(m, &summary);
}

/* As mds_train says. */
static int exit_status(const struct run *r, const char *reason)
{
    if (is_complete(reason))
        return MDS_EXIT_DONE;
    if (r->saved >= 0 || r->config->train.skip_train)
        return r->signal == SIGTERM ? MDS_EXIT_TERMINATED : MDS_EXIT_UNFINISHED;
    if (r->signal)
        return MDS_EXIT_SIGNAL + r->signal;
    if (is_rank0(r))
        mds_error("ended by %s before the run is done, and nothing was saved to go on "
                  "from; give --save, or end the run by --train-iters",
                  reason);
    return MDS_EXIT_REPEATS;
}

/* Free nothing: messages may still arrive in our buffers until the process ends. */
static enum mds_rc abandon_run(struct run *r, enum mds_rc rc)
{
    char why[2048];

    snprintf(why, sizeof why, "%s", mds_fail_text());
    (void)mds_metrics_close(r->metrics, NULL);
    return mds_fail(rc, "%s", why);
}

enum mds_rc mds_train(const struct mds_train_spec *spec, int *status)
{
    struct run r = {.spec = spec,
                    .config = spec->config,
                    .valid_loss = NAN,
                    .train_loss = NAN,
                    .test_loss = NAN,
                    .saved = -1,
                    .good = -1,
                    .evaluated = -1,
                    .from = -1,
                    .profiled = -1};
    const char *reason = NULL;
    enum mds_rc rc;

    rc = set_up_run(&r);
    if (!rc) {
        mds_run_watch_signals(&r);
        r.start_s = mds_clock_s();
        rc = train_loop(&r, &reason);
    }
    if (!rc)
        rc = finish_run(&r, &reason);
    if (!rc) /* has a time limit; MPI_Finalize would wait for a stuck rank forever */
        rc = mds_comm_barrier(world_of(&r));
    if (rc)
        return abandon_run(&r, rc);
    *status = exit_status(&r, reason);
    mds_run_event_finished(&r, reason, *status);
    mds_run_ignore_signals(&r);
    tear_down_run(&r);
    return MDS_OK;
}
