/* SPDX-License-Identifier: BSD-3-Clause */
#include "metrics/metrics_impl.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "io/jsonl.h"
#include "metrics/console.h"
#include "metrics/outputs.h"
#include "metrics/tensorboard.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* A failed write does not end the run; it is reported now, and again at the end. */
static void record_write_failure(struct mds_metrics *m)
{
    if (m->opened)
        mds_warn("%s; the run continues and writes nothing more there",
                 mds_fail_text());
    if (m->rc)
        return;
    m->rc = MDS_EIO;
    snprintf(m->why, sizeof m->why, "%s", mds_fail_text());
}

void mds_metrics_print(struct mds_metrics *m, struct mds_str *text)
{
    enum mds_rc rc = text->failed ? MDS_EMEM : MDS_OK;

    if (!rc && !m->mute &&
        (printf("%s%s", m->on_terminal ? "\r\033[K" : "", text->s) < 0 ||
         fflush(stdout) != 0))
        rc = mds_fail(MDS_EIO, "standard output: %s", strerror(errno));
    mds_str_fini(text);
    if (rc) {
        m->mute = 1;
        record_write_failure(m);
    }
}

int mds_metrics_begin_record(struct mds_metrics *m, const char *event)
{
    if (!m->json)
        return 0;
    mds_jsonl_begin(m->json);
    mds_jsonl_add_string(m->json, "event", event);
    mds_jsonl_add_real(m->json, "wall_time_s", mds_clock_wall_s());
    return 1;
}

static void close_failed_json(struct mds_metrics *m)
{
    record_write_failure(m);
    (void)mds_jsonl_close(m->json);
    m->json = NULL;
}

void mds_metrics_end_record(struct mds_metrics *m)
{
    if (mds_jsonl_end(m->json))
        close_failed_json(m);
}

static void close_failed_tensorboard(struct mds_metrics *m)
{
    record_write_failure(m);
    (void)mds_tensorboard_close(m->tb);
    m->tb = NULL;
}

void mds_metrics_scalar(struct mds_metrics *m, const char *tag, int64_t iteration,
                        double value)
{
    if (m->tb && mds_tensorboard_scalar(m->tb, tag, iteration, value))
        close_failed_tensorboard(m);
}

static void flush_tensorboard(struct mds_metrics *m)
{
    if (m->tb && mds_tensorboard_flush(m->tb))
        close_failed_tensorboard(m);
}

void mds_metrics_sync(struct mds_metrics *m)
{
    if (m && m->json && mds_jsonl_sync(m->json))
        close_failed_json(m);
    if (m && m->tb && mds_tensorboard_sync(m->tb))
        close_failed_tensorboard(m);
}

static void add_model_fields(struct mds_jsonl *j, const struct mds_flops_model *model)
{
    mds_jsonl_add_int(j, "layers", model->layers);
    mds_jsonl_add_int(j, "hidden_size", model->hidden);
    mds_jsonl_add_int(j, "heads", model->heads);
    mds_jsonl_add_int(j, "kv_heads", model->kv_heads);
    mds_jsonl_add_int(j, "head_dim", model->head_dim);
    mds_jsonl_add_int(j, "ffn_hidden_size", model->ffn);
    if (model->experts > 0) {
        mds_jsonl_add_int(j, "experts", model->experts);
        mds_jsonl_add_int(j, "experts_active", model->active);
        mds_jsonl_add_int(j, "shared_expert_hidden_size", model->shared);
        mds_jsonl_add_int(j, "layers_without_experts", model->dense_layers);
        mds_jsonl_add_int(j, "dense_ffn_hidden_size", model->dense_ffn);
    }
    for (int k = 1; k < MDSK_ACTIVATION_KINDS; k++)
        mds_jsonl_add_int(j, mdsk_activation_of(k)->name, (int)model->activation == k);
    mds_jsonl_add_int(j, "seq_length", model->seq);
    mds_jsonl_add_int(j, "padded_vocab", model->padded_vocab);
}

static void record_run(struct mds_metrics *m)
{
    const struct mds_metrics_run *run = &m->run;
    const int64_t step_tokens = run->global_batch * run->model.seq;

    if (!mds_metrics_begin_record(m, "run"))
        return;
    mds_jsonl_add_string(m->json, "version", run->version);
    mds_jsonl_add_string(m->json, "model_size_key", run->size_key);
    mds_jsonl_add_string(m->json, "device", run->device);
    mds_jsonl_add_string(m->json, "dtype", run->dtype);
    mds_jsonl_add_string(m->json, "fp8_format", run->fp8_format);
    mds_jsonl_add_string(m->json, "data_path", run->data_path);
    mds_jsonl_add_string(m->json, "save", run->save);
    mds_jsonl_add_int(m->json, "vocab", run->vocab);
    mds_jsonl_add_int(m->json, "parameters", run->parameters);
    add_model_fields(m->json, &run->model);
    mds_jsonl_add_string(m->json, "recompute", mds_recompute_names[run->recompute]);
    mds_jsonl_add_string(m->json, "recompute_modules", run->recompute_modules);
    mds_jsonl_add_int(m->json, "ranks", run->ranks);
    mds_jsonl_add_int(m->json, "data_parallel_size", run->data_parallel);
    mds_jsonl_add_int(m->json, "threads_per_rank", run->threads);
    mds_jsonl_add_int(m->json, "micro_batch_size", run->micro_batch);
    mds_jsonl_add_int(m->json, "global_batch_size", run->global_batch);
    mds_jsonl_add_int(m->json, "first_iteration", run->first_iteration);
    mds_jsonl_add_int(m->json, "train_iters", run->iters);
    mds_jsonl_add_int(m->json, "seed", run->seed);
    mds_jsonl_add_real(m->json, "causal_flops_per_step",
                       mds_flops_causal(&run->model, step_tokens));
    mds_jsonl_add_real(m->json, "megatron_flops_per_step",
                       mds_flops_megatron(&run->model, step_tokens, run->recompute));
    mds_jsonl_add_real(m->json, "unigram_entropy_nats", run->unigram_entropy_nats);
    mds_metrics_end_record(m);
}

static enum mds_rc open_json(struct mds_metrics *m, const char *path, int64_t done)
{
    int append = done > 0 || m->run.evaluation;

    if (!m->run.evaluation)
        MDS_TRY(mds_metrics_check_own(path, m->run.save, m->run.load, done,
                                      m->run.overwrite));
    if (done > 0)
        MDS_TRY(mds_jsonl_truncate(path, "iteration", done));
    return mds_jsonl_open(path, append, &m->json);
}

static enum mds_rc open_sinks(struct mds_metrics *m, const char *jsonl_path,
                              const char *tensorboard_dir)
{
    int64_t done = m->run.evaluation ? 0 : m->run.first_iteration;
    struct mds_str text = {0};

    if (jsonl_path)
        MDS_TRY(open_json(m, jsonl_path, done));
    if (tensorboard_dir)
        MDS_TRY(mds_tensorboard_open(tensorboard_dir, done, &m->tb));
    record_run(m);
    mds_console_run(&text, &m->run);
    mds_metrics_print(m, &text);
    return m->rc ? mds_fail(m->rc, "%s", m->why) : MDS_OK;
}

/* Open MPI's ranks write to a terminal of no size, even if mpirun's output is a file.
 */
static int is_terminal(int fd)
{
    struct winsize size;

    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
}

enum mds_rc mds_metrics_open(const struct mds_metrics_run *run, const char *jsonl_path,
                             const char *tensorboard_dir, struct mds_metrics **out)
{
    struct mds_metrics *m;
    enum mds_rc rc;

    if (run->log_interval < 1 || run->ranks < 1 || run->global_batch < 1)
        return mds_fail(MDS_EBUG, "metrics: log interval, ranks or batch below 1");
    m = mds_zalloc(1, sizeof *m);
    if (!m)
        return MDS_EMEM;
    if (run->model.experts > 0) /* without memory nobody is warned */
        m->idle = mds_zalloc((size_t)(run->model.layers * run->model.experts),
                             sizeof *m->idle);
    m->run = *run;
    m->on_terminal = is_terminal(STDOUT_FILENO);
    m->valid_loss = NAN;
    if (run->short_lines < 0)
        m->run.short_lines = m->on_terminal;
    rc = open_sinks(m, jsonl_path, tensorboard_dir);
    if (rc) {
        mds_metrics_close(m, NULL);
        return rc;
    }
    m->opened = 1;
    m->run.version = m->run.size_key = m->run.device = m->run.data_path = NULL;
    m->run.dtype = m->run.fp8_format = NULL;
    *out = m;
    return MDS_OK;
}

/* Rates from samples in elapsed_s; the ETA assumes them for the samples that are left.
 */
static void fill_rates(const struct mds_metrics *m, int64_t samples, double elapsed_s,
                       int64_t samples_left, struct mds_interval *mean)
{
    const struct mds_metrics_run *run = &m->run;
    struct mds_flops_model model = run->model;
    double rank_s = elapsed_s * (double)run->ranks;
    int64_t tokens = samples * model.seq;

    model.seen = mean->seen;
    mean->samples_per_s = (double)samples / elapsed_s;
    mean->tokens_per_s = (double)tokens / elapsed_s;
    mean->tokens_per_s_per_rank = (double)tokens / rank_s;
    mean->megatron_flops_per_s_per_rank =
        mds_flops_megatron(&model, tokens, run->recompute) / rank_s;
    mean->causal_flops_per_s_per_rank = mds_flops_causal(&model, tokens) / rank_s;
    mean->eta_s = elapsed_s / (double)samples * (double)samples_left;
}

static void finish_interval(struct mds_metrics *m, int64_t samples_left,
                            struct mds_interval *mean)
{
    int64_t counted = m->steps - m->nan_steps;

    *mean = (struct mds_interval){
        .steps = m->steps,
        .skipped = m->skipped,
        .nan_steps = m->nan_steps,
        .elapsed_s = m->elapsed_s / (double)m->steps,
        .loss = counted ? m->loss_sum / (double)counted : NAN,
        .by_kind = m->by_kind,
    };
    mds_pairs_add(&mean->seen, 1 / (double)m->steps, m->seen);
    fill_rates(m, m->samples, m->elapsed_s, samples_left, mean);
    m->steps = m->samples = m->skipped = m->nan_steps = 0;
    m->elapsed_s = m->loss_sum = 0;
    m->seen = (struct mds_pairs){0, 0};
    m->by_kind = (struct mds_kind_losses){{0}, {0}};
}

static void count_step(struct mds_metrics *m, const struct mds_metrics_step *s)
{
    m->steps++;
    m->samples += s->samples;
    m->elapsed_s += s->elapsed_s;
    mds_pairs_add(&m->seen, 1, s->seen);
    if (!isfinite(s->loss)) {
        m->nan_steps++;
        return;
    }
    m->skipped += s->skipped;
    m->loss_sum += s->loss;
    if (s->by_kind)
        mds_kind_losses_add(&m->by_kind, s->by_kind);
}

/* ---- loss by kind of token: of kinds that have targets ---- */

static void record_kinds(struct mds_metrics *m, const struct mds_kind_losses *l)
{
    char key[sizeof "lm_loss_" + MDS_KIND_NAME_SIZE];

    for (int k = 0; l && k < m->run.kinds.n; k++) {
        snprintf(key, sizeof key, "lm_loss_%s", m->run.kinds.kind[k].name);
        if (l->count[k] > 0)
            mds_jsonl_add_real(m->json, key, l->sum[k] / l->count[k]);
    }
}

/* group: "training", "validation" */
static void write_kind_scalars(struct mds_metrics *m, const char *group,
                               int64_t iteration, const struct mds_kind_losses *l)
{
    char tag[96 + MDS_KIND_NAME_SIZE];

    for (int k = 0; l && k < m->run.kinds.n; k++) {
        snprintf(tag, sizeof tag, "lm-loss-%s/lm loss of %s", group,
                 m->run.kinds.kind[k].name);
        if (l->count[k] > 0)
            mds_metrics_scalar(m, tag, iteration, l->sum[k] / l->count[k]);
    }
}

/* ---- experts ---- */

static void record_load(struct mds_metrics *m, const struct mds_expert_load *l)
{
    mds_jsonl_add_real(m->json, "expert_load_most", l->most);
    mds_jsonl_add_real(m->json, "expert_entropy", l->entropy);
    mds_jsonl_add_int(m->json, "experts_idle", l->idle);
}

static void write_load_scalars(struct mds_metrics *m, int64_t iteration,
                               const struct mds_expert_load *l)
{
    mds_metrics_scalar(m, "experts/load of the busiest", iteration, l->most);
    mds_metrics_scalar(m, "experts/entropy", iteration, l->entropy);
    mds_metrics_scalar(m, "experts/idle", iteration, (double)l->idle);
}

/* ---- attention's logits ---- */

static void record_logits(struct mds_metrics *m, const struct mds_metrics_step *s)
{
    mds_jsonl_add_reals(m->json, "attention_logit_bounds", s->logit_bound,
                        m->run.model.layers);
    if (s->clipped_heads >= 0)
        mds_jsonl_add_int(m->json, "qk_clipped_heads", s->clipped_heads);
}

static void write_logit_scalars(struct mds_metrics *m, const struct mds_metrics_step *s)
{
    mds_metrics_scalar(m, "attention/bound of logits", s->iteration,
                       mds_logit_bound(s, m->run.model.layers, NULL));
    if (s->clipped_heads >= 0)
        mds_metrics_scalar(m, "attention/clipped heads", s->iteration,
                           (double)s->clipped_heads);
}

static void record_step(struct mds_metrics *m, const struct mds_metrics_step *s,
                        const struct mds_interval *now)
{
    struct mds_jsonl *j = m->json;

    if (!mds_metrics_begin_record(m, "step"))
        return;
    mds_jsonl_add_int(j, "iteration", s->iteration);
    mds_jsonl_add_int(j, "consumed_samples", s->consumed_samples);
    mds_jsonl_add_int(j, "consumed_tokens", s->consumed_tokens);
    mds_jsonl_add_real(j, "elapsed_s", s->elapsed_s);
    mds_jsonl_add_real(j, "learning_rate", s->lr);
    mds_jsonl_add_int(j, "global_batch_size", s->samples);
    mds_jsonl_add_real(j, "lm_loss", s->loss);
    record_kinds(m, s->by_kind);
    mds_jsonl_add_real(j, "grad_norm", s->grad_norm);
    if (s->expert_load)
        record_load(m, &now->experts);
    if (s->logit_bound)
        record_logits(m, s);
    if (s->loss_scale > 0)
        mds_jsonl_add_real(j, "loss_scale", s->loss_scale);
    mds_jsonl_add_int(j, "skipped", s->skipped);
    mds_jsonl_add_real(j, "samples_per_s", now->samples_per_s);
    mds_jsonl_add_real(j, "tokens_per_s", now->tokens_per_s);
    mds_jsonl_add_real(j, "tokens_per_s_per_rank", now->tokens_per_s_per_rank);
    mds_jsonl_add_real(j, "megatron_flops_per_s_per_rank",
                       now->megatron_flops_per_s_per_rank);
    mds_jsonl_add_real(j, "causal_flops_per_s_per_rank",
                       now->causal_flops_per_s_per_rank);
    mds_metrics_end_record(m);
}

/* The tags are Megatron-DeepSpeed's, so that curves of both appear in one chart. */
static void write_step_scalars(struct mds_metrics *m, const struct mds_metrics_step *s,
                               const struct mds_interval *now)
{
    const struct {
        const char *tag;
        double value;
    } points[] = {
        {"lm-loss-training/lm loss", s->loss},
        {"learning-rate/learning-rate", s->lr},
        {"grad-norm/grad-norm", s->grad_norm},
        {"batch-size/batch-size", (double)s->samples},
        {"iteration-time/iteration-time", s->elapsed_s},
        {"iteration-time/tokens per second", now->tokens_per_s},
        {"iteration-time/causal TFLOPs", now->causal_flops_per_s_per_rank / 1e12},
    };

    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        mds_metrics_scalar(m, points[i].tag, s->iteration, points[i].value);
    write_kind_scalars(m, "training", s->iteration, s->by_kind);
    if (s->expert_load)
        write_load_scalars(m, s->iteration, &now->experts);
    if (s->logit_bound)
        write_logit_scalars(m, s);
    if (s->loss_scale > 0)
        mds_metrics_scalar(m, "loss-scale/loss-scale", s->iteration, s->loss_scale);
}

static void log_interval(struct mds_metrics *m, const struct mds_metrics_step *s,
                         const struct mds_interval *now)
{
    struct mds_str text = {0};
    struct mds_interval mean;

    finish_interval(m, s->samples_left, &mean);
    mean.experts = now->experts;
    if (m->run.short_lines) {
        mds_console_short_step(&text, &m->run, s, &mean, m->valid_loss);
        mds_str_add(&text, "\n");
    } else {
        mds_console_step(&text, &m->run, s, &mean);
    }
    mds_metrics_print(m, &text);
    flush_tensorboard(m);
}

void mds_metrics_step(struct mds_metrics *m, const struct mds_metrics_step *s)
{
    struct mds_interval now = {
        .elapsed_s = s->elapsed_s, .loss = s->loss, .seen = s->seen};
    struct mds_str text = {0};

    m->run.iters = s->last_iteration;
    if (s->expert_load)
        now.experts = mds_expert_load_of(s->expert_load, m->run.model.layers,
                                         m->run.model.experts);
    fill_rates(m, s->samples, s->elapsed_s, s->samples_left, &now);
    count_step(m, s);
    record_step(m, s, &now);
    write_step_scalars(m, s, &now);
    if (s->expert_load && m->idle)
        mds_expert_warn_of_idle(s->iteration, s->expert_load, m->run.model.layers,
                                m->run.model.experts, m->idle);
    if (s->iteration % m->run.log_interval == 0 || s->iteration == m->run.iters) {
        log_interval(m, s, &now);
    } else if (m->on_terminal) {
        mds_console_short_step(&text, &m->run, s, &now, m->valid_loss);
        mds_metrics_print(m, &text);
    }
}

void mds_metrics_nonfinite(struct mds_metrics *m, const struct mds_metrics_nonfinite *n)
{
    if (!mds_metrics_begin_record(m, "nonfinite"))
        return;
    mds_jsonl_add_int(m->json, "iteration", n->iteration);
    mds_jsonl_add_real(m->json, "lm_loss", n->loss);
    mds_jsonl_add_real(m->json, "grad_norm", n->grad_norm);
    mds_jsonl_add_string(m->json, "action", n->action);
    if (n->back_to >= 0)
        mds_jsonl_add_int(m->json, "back_to", n->back_to);
    mds_metrics_end_record(m);
}

void mds_metrics_spike(struct mds_metrics *m, int64_t iteration, double loss,
                       double limit)
{
    if (!mds_metrics_begin_record(m, "loss_spike"))
        return;
    mds_jsonl_add_int(m->json, "iteration", iteration);
    mds_jsonl_add_real(m->json, "lm_loss", loss);
    mds_jsonl_add_real(m->json, "limit", limit);
    mds_metrics_end_record(m);
}

void mds_metrics_straggler(struct mds_metrics *m, int64_t iteration,
                           const struct mds_straggler *s, const char *host)
{
    mds_metrics_scalar(m, "iteration-time/slowest rank above median", iteration,
                       s->excess);
    if (!mds_metrics_begin_record(m, "straggler"))
        return;
    mds_jsonl_add_int(m->json, "iteration", iteration);
    mds_jsonl_add_int(m->json, "rank", s->rank);
    mds_jsonl_add_string(m->json, "host", host);
    mds_jsonl_add_real(m->json, "measured_s", s->step_s);
    mds_jsonl_add_real(m->json, "wait_s", s->wait_s);
    mds_jsonl_add_real(m->json, "own_s", s->step_s - s->wait_s);
    mds_jsonl_add_real(m->json, "median_own_s", s->median_own_s);
    mds_jsonl_add_real(m->json, "excess", s->excess);
    mds_jsonl_add_real(m->json, "most_wait_s", s->most_wait_s);
    mds_metrics_end_record(m);
}

static void record_eval(struct mds_metrics *m, const struct mds_metrics_eval *e,
                        const char *file, const struct mds_kind_losses *losses)
{
    double loss = mds_kind_losses_mean(losses, &m->run.kinds);

    if (!mds_metrics_begin_record(m, file ? "eval_file" : "eval"))
        return;
    mds_jsonl_add_string(m->json, "split", e->split);
    mds_jsonl_add_int(m->json, "iteration", e->iteration);
    if (file)
        mds_jsonl_add_string(m->json, "file", file);
    mds_jsonl_add_real(m->json, "lm_loss", loss);
    record_kinds(m, losses);
    mds_jsonl_add_real(m->json, "perplexity", exp(loss));
    mds_jsonl_add_real(m->json, "targets",
                       mds_kind_losses_targets(losses, &m->run.kinds));
    mds_metrics_end_record(m);
}

void mds_metrics_eval(struct mds_metrics *m, const struct mds_metrics_eval *e)
{
    double loss = mds_kind_losses_mean(e->losses, &m->run.kinds);
    struct mds_str text = {0};
    char tag[96];

    record_eval(m, e, NULL, e->losses);
    snprintf(tag, sizeof tag, "lm-loss-%s/lm loss %s", e->split, e->split);
    mds_metrics_scalar(m, tag, e->iteration, loss);
    snprintf(tag, sizeof tag, "lm-loss-%s/lm loss %s ppl", e->split, e->split);
    mds_metrics_scalar(m, tag, e->iteration, exp(loss));
    write_kind_scalars(m, e->split, e->iteration, e->losses);
    flush_tensorboard(m);
    if (strcmp(e->split, "validation") == 0)
        m->valid_loss = loss;
    (m->run.short_lines ? mds_console_short_eval : mds_console_eval)(&text, &m->run, e);
    mds_metrics_print(m, &text);
}

void mds_metrics_eval_file(struct mds_metrics *m, const struct mds_metrics_eval *e,
                           const char *file, const struct mds_kind_losses *losses)
{
    struct mds_str text = {0}, tag = {0};

    record_eval(m, e, file, losses);
    mds_str_add(&tag, "lm-loss-%s/lm loss in %s", e->split, file);
    if (tag.s)
        mds_metrics_scalar(m, tag.s, e->iteration,
                           mds_kind_losses_mean(losses, &m->run.kinds));
    mds_str_fini(&tag);
    mds_console_eval_file(&text, &m->run, e, file, losses);
    mds_metrics_print(m, &text);
}

static void record_summary(struct mds_metrics *m, const struct mds_metrics_summary *s)
{
    if (!mds_metrics_begin_record(m, "end"))
        return;
    mds_jsonl_add_string(m->json, "reason", s->reason);
    mds_jsonl_add_int(m->json, "iteration", s->iteration);
    mds_jsonl_add_real(m->json, "train_s", s->train_s);
    mds_jsonl_add_real(m->json, "train_lm_loss", s->train_loss);
    mds_jsonl_add_real(m->json, "validation_lm_loss", s->valid_loss);
    mds_jsonl_add_real(m->json, "test_lm_loss", s->test_loss);
    mds_jsonl_add_real(m->json, "unigram_entropy_nats", m->run.unigram_entropy_nats);
    mds_metrics_end_record(m);
}

enum mds_rc mds_metrics_close(struct mds_metrics *m,
                              const struct mds_metrics_summary *summary)
{
    enum mds_rc rc;
    struct mds_str text = {0};

    if (!m)
        return MDS_OK;
    if (summary) {
        record_summary(m, summary);
        mds_console_summary(&text, &m->run, summary);
        mds_metrics_print(m, &text);
    }
    m->opened = 0; /* from here on the caller reports failures */
    if (mds_tensorboard_close(m->tb))
        record_write_failure(m);
    if (mds_jsonl_close(m->json))
        record_write_failure(m);
    free(m->idle);
    rc = m->rc && summary ? mds_fail(m->rc, "%s", m->why) : MDS_OK;
    free(m);
    return rc;
}
