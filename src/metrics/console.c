/* SPDX-License-Identifier: BSD-3-Clause */
#include "metrics/console.h"

#include "base/units.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void mds_console_run(struct mds_str *out, const struct mds_metrics_run *run)
{
    const struct mds_flops_model *m = &run->model;
    char params[32], tokens[32], flops[32], largest[48] = "";
    int64_t step_tokens = run->global_batch * m->seq;
    int fp8 = strcmp(run->fp8_format, "none") != 0;

    mds_str_add(out, "mds %s: %s%s%s parameters on %s in %s%s%s\n", run->version,
                run->size_key ? run->size_key : "", run->size_key ? ", " : "",
                mds_format_count((double)run->parameters, params, sizeof params),
                run->device, run->dtype, fp8 ? " and FP8 " : "",
                fp8 ? run->fp8_format : "");
    mds_str_add(out,
                "  layers %" PRId64 ", hidden %" PRId64 ", heads %" PRId64
                " (key/value %" PRId64 "), ffn %" PRId64 "%s%s, vocabulary %" PRId64
                " (padded), sequence %" PRId64,
                m->layers, m->hidden, m->heads, m->kv_heads, m->ffn,
                m->activation ? " " : "",
                m->activation ? mdsk_activation_of(m->activation)->name : "",
                m->padded_vocab, m->seq);
    if (m->experts > 0)
        mds_str_add(out, ", experts %" PRId64 " (%" PRId64 " active)", m->experts,
                    m->active);
    if (m->shared > 0)
        mds_str_add(out, ", shared expert %" PRId64, m->shared);
    if (m->dense_layers > 0)
        mds_str_add(out, ", %" PRId64 " layers with an MLP of %" PRId64 " instead",
                    m->dense_layers, m->dense_ffn);
    if (m->local_layers > 0)
        mds_str_add(out, ", window %" PRId64 " in %" PRId64 " layers", m->window,
                    m->local_layers);
    if (run->largest_batch > run->global_batch)
        snprintf(largest, sizeof largest, ", later up to %" PRId64, run->largest_batch);
    mds_str_add(
        out,
        "\n  ranks %" PRId64 " (data parallel %" PRId64 ") x threads %" PRId64
        ", batch %" PRId64 " (micro %" PRId64 "%s), %s tokens and %sFLOP per step\n",
        run->ranks, run->data_parallel, run->threads, run->global_batch,
        run->micro_batch, largest,
        mds_format_count((double)step_tokens, tokens, sizeof tokens),
        mds_format_count(mds_flops_causal(m, step_tokens), flops, sizeof flops));
}

/* Kinds that weigh nothing are no losses: nothing is learnt from them. */
static void append_kinds(struct mds_str *out, const struct mds_kind_table *kinds,
                         const struct mds_kind_losses *l, int is_short)
{
    for (int k = 0; k < kinds->n; k++)
        if (l->count[k] > 0 && kinds->kind[k].weight > 0)
            mds_str_add(out, is_short ? "  %s %.4f" : " lm loss of %s: %.6E |",
                        kinds->kind[k].name, l->sum[k] / l->count[k]);
}

double mds_logit_bound(const struct mds_metrics_step *s, int64_t layers, int64_t *layer)
{
    int64_t at = 0;

    for (int64_t i = 1; i < layers; i++)
        if (s->logit_bound[i] > s->logit_bound[at])
            at = i;
    if (layer)
        *layer = at;
    return s->logit_bound[at];
}

static void append_logits(struct mds_str *out, const struct mds_metrics_run *run,
                          const struct mds_metrics_step *s)
{
    int64_t layer;
    double bound = mds_logit_bound(s, run->model.layers, &layer);

    mds_str_add(out, " attention logits up to: %.2f (layer %" PRId64 ") |", bound,
                layer);
    if (s->clipped_heads >= 0)
        mds_str_add(out, " clipped heads: %" PRId64 " |", s->clipped_heads);
}

static void append_router_losses(struct mds_str *out, const struct mds_metrics_run *run,
                                 const struct mds_metrics_step *s)
{
    double mean[2];

    if (!s->router_losses)
        return;
    mds_expert_mean_losses(s->expert_load, s->router_losses, run->model.layers,
                           run->model.experts, mean);
    for (int k = 0; k < 2; k++)
        if (run->router_names.of[k])
            mds_str_add(out, " %s: %.6E |", run->router_names.of[k], mean[k]);
}

void mds_console_step(struct mds_str *out, const struct mds_metrics_run *run,
                      const struct mds_metrics_step *s, const struct mds_interval *mean)
{
    char eta[32];

    mds_str_add(out, " iteration %8" PRId64 "/%8" PRId64 " |", s->iteration,
                run->iters);
    mds_str_add(out, " consumed samples: %12" PRId64 " |", s->consumed_samples);
    mds_str_add(out, " consumed tokens: %12" PRId64 " |", s->consumed_tokens);
    mds_str_add(out, " elapsed time per iteration (ms): %.1f |", mean->elapsed_s * 1e3);
    mds_str_add(out, " learning rate: %.3E |", s->lr);
    mds_str_add(out, " global batch size: %5" PRId64 " |", s->samples);
    mds_str_add(out, " lm loss: %.6E |", mean->loss);
    append_router_losses(out, run, s);
    if (s->loss_scale > 0)
        mds_str_add(out, " loss scale: %.1f |", s->loss_scale);
    mds_str_add(out, " grad norm: %.3f |", s->grad_norm);
    if (s->expert_load)
        mds_str_add(out, " busiest expert: %.2f |", mean->experts.most);
    if (s->logit_bound)
        append_logits(out, run, s);
    mds_str_add(out, " number of skipped iterations: %3" PRId64 " |", mean->skipped);
    mds_str_add(out, " number of nan iterations: %3" PRId64 " |", mean->nan_steps);
    mds_str_add(out, " samples per second: %.3f |", mean->samples_per_s);
    mds_str_add(out, " tokens per gpu per second (tgs): %.3f |",
                mean->tokens_per_s_per_rank);
    mds_str_add(out, " TFLOPs: %.4f |", mean->megatron_flops_per_s_per_rank / 1e12);
    mds_str_add(out, " causal TFLOPs: %.4f |",
                mean->causal_flops_per_s_per_rank / 1e12);
    mds_str_add(out, " tokens per second: %.0f |", mean->tokens_per_s);
    mds_str_add(out, " ETA: %s |", mds_format_seconds(mean->eta_s, eta, sizeof eta));
    append_kinds(out, &run->kinds, &mean->by_kind, 0);
    mds_str_add(out, "\n");
}

void mds_console_short_step(struct mds_str *out, const struct mds_metrics_run *run,
                            const struct mds_metrics_step *s,
                            const struct mds_interval *of, double valid_loss)
{
    char rate[32], eta[32];

    mds_str_add(out, "step %" PRId64 "/%" PRId64 "  loss %.4f", s->iteration,
                run->iters, of->loss);
    if (!isnan(valid_loss))
        mds_str_add(out, "  val %.4f", valid_loss);
    mds_str_add(out, "  %s tokens/s  ETA %s",
                mds_format_count(of->tokens_per_s, rate, sizeof rate),
                mds_format_seconds(of->eta_s, eta, sizeof eta));
    if (of->skipped + of->nan_steps > 0)
        mds_str_add(out, "  skipped %" PRId64, of->skipped + of->nan_steps);
    append_kinds(out, &run->kinds, &of->by_kind, 1);
}

void mds_console_short_eval(struct mds_str *out, const struct mds_metrics_run *run,
                            const struct mds_metrics_eval *e)
{
    double loss = mds_kind_losses_mean(e->losses, &run->kinds);

    mds_str_add(out, "%s at step %" PRId64 ": loss %.4f, perplexity %.4g, %" PRId64,
                e->split, e->iteration, loss, exp(fmin(loss, 20)), e->samples);
    if (e->samples < e->samples_there)
        mds_str_add(out, " of %" PRId64, e->samples_there);
    mds_str_add(out, " windows");
    append_kinds(out, &run->kinds, e->losses, 1);
    mds_str_add(out, "\n");
}

void mds_console_eval(struct mds_str *out, const struct mds_metrics_run *run,
                      const struct mds_metrics_eval *e)
{
    double loss = mds_kind_losses_mean(e->losses, &run->kinds);
    struct mds_str line = {0};

    mds_str_add(&line, " %s loss at iteration %" PRId64 " |", e->split, e->iteration);
    mds_str_add(&line, " lm loss value: %.6E |", loss);
    mds_str_add(&line, " lm loss PPL: %.6E |",
                exp(fmin(loss, 20))); /* Megatron's cap */
    mds_str_add(&line, " bits per token: %.4f |", loss / M_LN2);
    mds_str_add(&line, " targets: %.0f |",
                mds_kind_losses_targets(e->losses, &run->kinds));
    mds_str_add(&line, " samples: %" PRId64, e->samples);
    if (e->samples < e->samples_there)
        mds_str_add(&line, " of %" PRId64, e->samples_there);
    mds_str_add(&line, " |");
    append_kinds(&line, &run->kinds, e->losses, 0);
    for (int rule = 2; rule--;) {
        for (size_t i = 0; i < line.len; i++)
            mds_str_add(out, "-");
        mds_str_add(out, "\n%s%s", rule ? line.s : "", rule ? "\n" : "");
    }
    mds_str_fini(&line);
}

void mds_console_eval_file(struct mds_str *out, const struct mds_metrics_run *run,
                           const struct mds_metrics_eval *e, const char *file,
                           const struct mds_kind_losses *losses)
{
    mds_str_add(out,
                " %s loss at iteration %" PRId64 " in %s | lm loss value: %.6E |"
                " targets: %.0f |",
                e->split, e->iteration, file, mds_kind_losses_mean(losses, &run->kinds),
                mds_kind_losses_targets(losses, &run->kinds));
    append_kinds(out, &run->kinds, losses, 0);
    mds_str_add(out, "\n");
}

static void append_loss(struct mds_str *out, const char *what, double loss)
{
    if (!isnan(loss))
        mds_str_add(out, ", %s loss %.4f", what, loss);
}

void mds_console_summary(struct mds_str *out, const struct mds_metrics_run *run,
                         const struct mds_metrics_summary *summary)
{
    char time[32];

    mds_format_seconds(summary->train_s, time, sizeof time);
    if (run->evaluation)
        mds_str_add(out, "done: iteration %" PRId64 " evaluated in %s",
                    summary->iteration, time);
    else
        mds_str_add(out, "done: iteration %" PRId64 " of %" PRId64 " in %s",
                    summary->iteration, run->iters, time);
    if (strcmp(summary->reason, run->evaluation ? "evaluation" : "iterations") != 0)
        mds_str_add(out, " (ended by %s)", summary->reason);
    append_loss(out, "training", summary->train_loss);
    append_loss(out, "validation", summary->valid_loss);
    append_loss(out, "test", summary->test_loss);
    if (!isnan(run->unigram_entropy_nats))
        mds_str_add(out, "; unigram entropy %.4f", run->unigram_entropy_nats);
    mds_str_add(out, " (nats per token)\n");
}
