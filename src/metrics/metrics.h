/* SPDX-License-Identifier: BSD-3-Clause */
/* The run's reports: console lines, JSON lines and TensorBoard events.  Only rank 0 has
 * one.
 *
 * If one of the three can no longer be written, a warning says so and nothing more is
 * written there.  The run continues, and mds_metrics_close returns the error. */
#ifndef MDS_METRICS_METRICS_H
#define MDS_METRICS_METRICS_H

#include "base/status.h"
#include "config/kinds.h"
#include "metrics/experts.h"
#include "metrics/flops.h"
#include "metrics/stragglers.h"

#include <stdint.h>

/* Facts about the whole run.  The struct is copied; its strings must live until
 * mds_metrics_open returns. */
struct mds_metrics_run {
    const char *version;            /* of the program */
    const char *size_key;           /* row of the model table, or NULL */
    const char *device;             /* "cpu" */
    const char *dtype, *fp8_format; /* "bf16", "none" */
    const char *data_path;          /* or NULL */
    const char *save, *load;        /* folders of checkpoints, or NULL */
    int overwrite;                  /* replace another run's records */
    struct mds_flops_model model;
    int64_t vocab; /* words of the data; the model pads them to padded_vocab */
    int64_t parameters;
    enum mds_recompute recompute;      /* mds_recompute_of */
    const char *recompute_modules;     /* "layernorm,mlp_act", "" */
    int64_t ranks;                     /* all processes: rates "per gpu" divide by it */
    int64_t data_parallel;             /* replicas */
    int64_t threads;                   /* per rank */
    int64_t micro_batch, global_batch; /* global: of the next step */
    int64_t largest_batch;             /* that it comes to, or global_batch */
    int64_t first_iteration;           /* done before this run: 0 unless resumed */
    int evaluation;       /* alone: sinks are added to, and nothing is dropped */
    int64_t iters;        /* the last iteration to run to; steps may move it */
    int64_t log_interval; /* iterations per console line, >= 1 */
    int short_lines;      /* 1: lines for people, 0: Megatron's, -1: as stdout is */
    int64_t seed;
    double unigram_entropy_nats; /* of the training tokens; NAN: not known */
    struct mds_kind_table kinds; /* of tokens; must live as long as the reports */
    struct mds_router_names router_names;
};

struct mds_metrics_step {
    int64_t iteration;                         /* from 1 */
    int64_t last_iteration;                    /* of the run: a rollback may move it */
    int64_t samples, samples_left;             /* in this step; in those to come */
    int64_t consumed_samples, consumed_tokens; /* after this step, over all ranks */
    double elapsed_s;                          /* of this step */
    double lr;
    double loss; /* nats per token, mean over the global batch */
    const struct mds_kind_losses *by_kind; /* or NULL: tokens have no kinds */
    struct mds_pairs seen;                 /* shares, as in struct mds_flops_model */
    double grad_norm;
    const double *logit_bound;   /* [layers] of attention's logits, or NULL */
    int64_t clipped_heads;       /* -1: without --qk-clip */
    const double *expert_load;   /* [layers, experts] tokens; NULL without experts */
    const double *router_losses; /* [layers, 2] as in engine.h; NULL: blocks are not
                                    logged */
    double loss_scale; /* that the step's gradients were made with; 0: none, no fp16 */
    int skipped;       /* the update was left out (overflow, or not finite) */
};

/* A step whose loss or gradient is not finite, and what was done about it. */
struct mds_metrics_nonfinite {
    int64_t iteration;
    double loss, grad_norm;
    const char *action; /* "stop", "skip", "rollback" */
    int64_t back_to;    /* the iteration the run goes on from; -1: no rollback */
};

struct mds_metrics_summary {
    const char *reason; /* "iterations", "duration", "signal": why the run ended */
    int64_t iteration;  /* the last one done */
    double train_s;     /* wall time of the loop */
    double train_loss;  /* of the last step; NAN: none */
    double valid_loss;  /* last evaluation; NAN: none */
    double test_loss;   /* NAN: none */
};

struct mds_metrics;

/* Print a description of the run to standard output and open the outputs (NULL: none).
 * A new run replaces what is in jsonl_path; a run resumed at first_iteration removes
 * later records and appends.  tensorboard_dir is created if needed and gets one new
 * file.  MDS_EUSER if what is in jsonl_path is not of this run and `overwrite` is not
 * set; that or MDS_EIO if one cannot be written. */
enum mds_rc mds_metrics_open(const struct mds_metrics_run *run, const char *jsonl_path,
                             const char *tensorboard_dir, struct mds_metrics **out);

/* Write a JSON record and TensorBoard scalars for the step.  Every log_interval-th
 * iteration and the last also print the console line, Megatron's or a short one for
 * people: the mean time per step since the previous line, and the mean loss over those
 * steps whose loss is finite, including steps whose update was skipped.  A terminal
 * shows a progress line in between. */
void mds_metrics_step(struct mds_metrics *m, const struct mds_metrics_step *s);

/* Of a step with router_losses, before it is reported: a JSON record and TensorBoard
 * scalars for each block with experts. */
void mds_metrics_experts(struct mds_metrics *m, const struct mds_metrics_step *s);

/* Let what was written to files so far survive a power failure: call before a
 * checkpoint counts, or a run that resumes from it lacks records.  NULL is fine. */
void mds_metrics_sync(struct mds_metrics *m);

/* Write a JSON record of a non-finite step. */
void mds_metrics_nonfinite(struct mds_metrics *m,
                           const struct mds_metrics_nonfinite *n);

/* Write a JSON record of a loss spike: the step's loss is above limit. */
void mds_metrics_spike(struct mds_metrics *m, int64_t iteration, double loss,
                       double limit);

/* Write a JSON record and a TensorBoard scalar of the rank that the others waited for
 * in a measured step, and of its host. */
void mds_metrics_straggler(struct mds_metrics *m, int64_t iteration,
                           const struct mds_straggler *s, const char *host);

/* An evaluation of a split, "validation" or "test". */
struct mds_metrics_eval {
    const char *split;
    int64_t iteration;
    int64_t samples, samples_there; /* evaluated; in the split */
    const struct mds_kind_losses *losses;
};

void mds_metrics_eval(struct mds_metrics *m, const struct mds_metrics_eval *e);

/* Of its targets, those of one of its files. */
void mds_metrics_eval_file(struct mds_metrics *m, const struct mds_metrics_eval *e,
                           const char *file, const struct mds_kind_losses *losses);

/* The results of --profile: seconds per step, by part. */
enum mds_metrics_profile_part {
    MDS_METRICS_PROFILE_TOTAL, /* of a step on the device's stream: the next four */
    MDS_METRICS_PROFILE_COMPUTE,
    MDS_METRICS_PROFILE_EXPOSED, /* it waits for communication */
    MDS_METRICS_PROFILE_COPY,    /* from and to the host */
    MDS_METRICS_PROFILE_IDLE,    /* nothing was queued */
    MDS_METRICS_PROFILE_MOVE,    /* all communication, on other streams */
    MDS_METRICS_PROFILE_HOST,    /* the host waited for the device */
    MDS_METRICS_PROFILE_PARTS,
};

struct mds_metrics_profile_step {
    int64_t iteration;
    /* over the ranks */
    double mean_s[MDS_METRICS_PROFILE_PARTS], most_s[MDS_METRICS_PROFILE_PARTS];
};

/* An operation (of one number of FLOPs), or a kind of communication, over all measured
 * steps. */
struct mds_metrics_profile_row {
    const char *name;
    int64_t calls;
    double s, flops, bytes;
    /* communication: how often and how long the device waited for it */
    int64_t waits;
    double exposed_s;
};

struct mds_metrics_profile {
    int64_t ranks;
    int steps, operations, hosted_operations, transfers;
    const struct mds_metrics_profile_step *step;
    /* of rank 0; hosted: done by the host */
    const struct mds_metrics_profile_row *operation, *hosted, *transfer;
};

/* Print the tables, and write a JSON record for each of their rows. */
void mds_metrics_profile(struct mds_metrics *m, const struct mds_metrics_profile *p);

/* Write the closing record and lines; frees m in any case.  MDS_EIO if not all of this
 * run's records could be written.  summary NULL: the run failed, close the files
 * without a closing record.  m NULL is fine. */
enum mds_rc mds_metrics_close(struct mds_metrics *m,
                              const struct mds_metrics_summary *summary);

#endif
