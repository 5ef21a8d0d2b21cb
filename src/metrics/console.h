/* SPDX-License-Identifier: BSD-3-Clause */
/* The console output as text; metrics.c decides when to print it. */
#ifndef MDS_METRICS_CONSOLE_H
#define MDS_METRICS_CONSOLE_H

#include "base/str.h"
#include "metrics/experts.h"
#include "metrics/metrics.h"

/* Means over the steps between two console lines, and what follows from them. */
struct mds_interval {
    int64_t steps, skipped, nan_steps;
    double elapsed_s;               /* per step */
    struct mds_pairs seen;          /* as in struct mds_flops_model */
    struct mds_expert_load experts; /* of the last step */
    double loss; /* mean over the steps that count: not skipped, not NaN */
    struct mds_kind_losses by_kind; /* over these steps */
    double samples_per_s, tokens_per_s;
    double tokens_per_s_per_rank;
    double megatron_flops_per_s_per_rank, causal_flops_per_s_per_rank;
    double eta_s; /* for the samples that are left */
};

/* Append three lines that describe the model, the ranks and the data. */
void mds_console_run(struct mds_str *out, const struct mds_metrics_run *run);

/* The largest of a step's bounds of attention's logits, and whose it is unless NULL. */
double mds_logit_bound(const struct mds_metrics_step *s, int64_t layers,
                       int64_t *layer);

/* Megatron-DeepSpeed's line, field for field (megatron/training.py, training_log; loss
 * scale is for 16-bit runs), then ours: causal TFLOPs, tokens per second of the whole
 * run, the time left, and the loss of each kind of token. */
void mds_console_step(struct mds_str *out, const struct mds_metrics_run *run,
                      const struct mds_metrics_step *s,
                      const struct mds_interval *mean);

/* "step 120/600  loss 4.0050  val 4.0210  14.10 k tokens/s  ETA 2 min 20 s" and the
 * loss of each kind of token, without a line end.  valid_loss: NAN if there is none
 * yet.  of: the means since the last line, or one step. */
void mds_console_short_step(struct mds_str *out, const struct mds_metrics_run *run,
                            const struct mds_metrics_step *s,
                            const struct mds_interval *of, double valid_loss);

/* "validation at step 120: loss 4.0210, perplexity 55.76, 321 of 400 windows" */
void mds_console_short_eval(struct mds_str *out, const struct mds_metrics_run *run,
                            const struct mds_metrics_eval *e);

/* Megatron's evaluation line between rules, with bits per token besides, the number of
 * targets and of samples, and the loss of each kind of token. */
void mds_console_eval(struct mds_str *out, const struct mds_metrics_run *run,
                      const struct mds_metrics_eval *e);

/* The line of one of its files. */
void mds_console_eval_file(struct mds_str *out, const struct mds_metrics_run *run,
                           const struct mds_metrics_eval *e, const char *file,
                           const struct mds_kind_losses *losses);

/* Three tables: steps, operations, communication. */
void mds_console_profile(struct mds_str *out, const struct mds_metrics_profile *p);

void mds_console_summary(struct mds_str *out, const struct mds_metrics_run *run,
                         const struct mds_metrics_summary *summary);

#endif
