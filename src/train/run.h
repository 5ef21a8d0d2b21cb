/* SPDX-License-Identifier: BSD-3-Clause */
/* State of one training run, and what the files of train/ call in each other.  Private
 * to train/. */
#ifndef MDS_TRAIN_RUN_H
#define MDS_TRAIN_RUN_H

#include "base/progress.h"
#include "ckpt/background.h"
#include "data/balance.h"
#include "engine/engine.h"
#include "metrics/metrics.h"
#include "metrics/spikes.h"
#include "metrics/stragglers.h"
#include "parallel/groups.h"
#include "train/train.h"

#include <stdio.h>

struct run {
    const struct mds_train_spec *spec;
    const struct mds_config *config; /* spec's, or `chosen` */
    struct mds_config chosen; /* --activation-memory auto: the config with its level */
    struct mds_groups groups;
    struct mds_dev *dev, *host;
    struct mds_engine *engine;
    struct mds_engine_need need;
    int64_t memory_before;       /* bytes this process used before the engine */
    struct mds_metrics *metrics; /* rank 0's; else NULL */
    struct mds_sample rows; /* [accumulation * micro, S+1]; starts NULL: documents are
                               joined; kinds NULL: tokens have none */
    struct mds_balance *balance;   /* of packed rows of unlike cost, or NULL */
    double start_s;                /* mds_clock_s at the start of the loop */
    struct mds_progress progress;  /* of the current step */
    double valid_loss, train_loss; /* latest; NAN if none */
    double test_loss;              /* the same */
    double sample_s;         /* what the latest step took for a sample; 0: none yet */
    int64_t log_interval;    /* steps between log lines */
    int64_t iteration;       /* iterations completed */
    int64_t samples, tokens; /* consumed so far */
    int profiling;           /* 1 while steps are being profiled */
    int timing_waits;        /* 1 while a step's waits are being measured */
    struct mds_straggler_history stragglers;
    int64_t profiled; /* iteration before the first profiled step; -1 if none was */
    /* Iterations of checkpoints; -1 if none. */
    int64_t saved;     /* the newest complete one */
    int64_t good;      /* the one this run last marked good */
    int64_t evaluated; /* whose validation loss is known, of this job or of another */
    int64_t from; /* rank 0: the newest in --save that a rollback may use: the one the
                      run resumed from, then each one marked good */
    const char *load; /* folder to load from: --load, or --save if that is further along
                         in the same run; NULL if none */
    int64_t origin;   /* saved with checkpoints, see struct mds_ckpt_state */
    int64_t begun;
    int64_t tokenizer, eod; /* of the checkpoint loaded, unless the data say others */
    int64_t skipped;   /* consecutive steps whose loss or gradient was not finite */
    int64_t rollbacks; /* consecutive ones, to iteration `rolled_back_to` */
    int64_t rolled_back_to;
    struct mds_spikes spikes;
    struct mds_ckpt_background *background; /* NULL: training waits for saves */
    int64_t saving;                         /* iteration being saved in background */
    double save_began_s, save_waited_s; /* when that began; how long training waited */
    int signal;                         /* that a rank has received: leave; 0: none */
    int has_trained;                    /* this job has made a step */
    double eval_began_s;                /* mds_clock_s */
    double eval_s[MDS_SPLITS]; /* what the latest whole evaluation took; 0: none yet */
};

static inline int is_rank0(const struct run *r)
{
    return r->spec->world->rank == 0;
}

static inline struct mds_comm *world_of(const struct run *r)
{
    return mds_group(&r->groups, MDS_AXES_ALL);
}

/* How far the run has come. */
static inline struct mds_extent progress_of(const struct run *r)
{
    return (struct mds_extent){{r->iteration, r->samples, r->tokens}};
}

/* What the next step adds. */
static inline struct mds_extent next_step(const struct run *r)
{
    const struct mds_extent done = progress_of(r);

    return mds_config_step(r->config, &done);
}

/* How far it comes; where it is, if it has reached its end. */
static inline struct mds_extent end_of(const struct run *r)
{
    const struct mds_extent done = progress_of(r);

    return mds_config_end(r->config, &r->config->train.length, &done);
}

/* Steps that are left of the run: 0 if it has reached its end. */
static inline int64_t steps_left(const struct run *r)
{
    return end_of(r).in[MDS_STEPS] - r->iteration;
}

/* Samples that the whole run reads, from its first iteration to its end. */
static inline int64_t all_samples(const struct run *r)
{
    return end_of(r).in[MDS_SAMPLES];
}

static inline void set_progress(struct run *r, const struct mds_extent *done)
{
    r->iteration = done->in[MDS_STEPS];
    r->samples = done->in[MDS_SAMPLES];
    r->tokens = done->in[MDS_TOKENS];
}

/* Of the next step: micro-batches, and sequences of this data-parallel rank. */
static inline int64_t micro_batches(const struct run *r)
{
    const struct mds_extent done = progress_of(r);

    return mds_config_micro_batches(r->config, &done);
}

static inline int64_t local_rows(const struct run *r)
{
    return r->config->batch.micro * micro_batches(r);
}

/* Number of the first of them, if the global batch begins with sample `before`. */
static inline int64_t first_sample(const struct run *r, int64_t before)
{
    return before + mds_groups_rank(&r->groups, MDS_AXIS_DATA) * local_rows(r);
}

/* ---- rows.c: what the engine gets ---- */

/* Memory for this rank's rows of the largest global batch. */
enum mds_rc mds_run_alloc_rows(struct run *r);
void mds_run_free_rows(struct run *r);

struct mds_engine_rows mds_run_rows(const struct run *r);

/* Read them: of the next step's global batch. */
enum mds_rc mds_run_read_rows(const struct run *r);

/* Read n samples of a split, from sample `first` on, into a micro-batch; the rows
 * behind them stay empty. */
enum mds_rc mds_run_read_micro_batch(const struct run *r, enum mds_split split,
                                     int64_t first, int64_t n, int64_t micro_batch);

/* Whether any target of n samples of a split, from `first` on, counts. */
enum mds_rc mds_run_find_target(const struct run *r, enum mds_split split,
                                int64_t first, int64_t n, int *found);

/* ---- memory.c: does the run fit into memory? ---- */

/* Set r->need by a dry run of one step.  With --activation-memory auto, also point
 * r->config to the config of the first level that fits on all ranks (the last level if
 * none does).  Collective. */
enum mds_rc mds_run_measure(struct run *r);

/* MDS_EMEM if r->need does not fit, after printing the need by purpose and the settings
 * that would lower it. */
enum mds_rc mds_run_check_memory(const struct run *r);

/* Host memory in bytes that an engine uses, whatever its device. */
int64_t mds_run_host_bytes(const struct mds_engine_need *n);

/* Host memory in bytes for reading checkpoints, also during training if the run may
 * roll back; 0 if it reads none.  file_bytes: the larger of that and what whole tensors
 * take (--export-weights, --trace-dir), since the run never holds both. */
int64_t mds_run_load_bytes(const struct mds_config *c);
int64_t mds_run_file_bytes(const struct mds_config *c, const struct mds_engine_need *n);

/* Print to standard output what rank 0 used, by purpose. */
void mds_run_print_memory(const struct run *r);
void mds_run_memory_table(const struct mds_mem_account *m, FILE *f);

/* ---- evaluate.c ---- */

/* Mean loss over the targets of a split, or of --eval-iters batches of it, whatever the
 * layout and the batch; it goes to the metrics, too, with the loss of each file.
 * *stop: why the run has to leave before the end of it (mds_run_stops_evaluation), or
 * NULL; then *loss stays as it was.  Collective. */
enum mds_rc mds_run_evaluate(struct run *r, enum mds_split split, double *loss,
                             const char **stop);

/* MDS_EUSER if no target counts of all that this run trains or evaluates on: the loss
 * would be the mean over nothing. */
enum mds_rc mds_run_check_targets(const struct run *r);

/* ---- nonfinite.c: steps whose loss or gradient is not finite ---- */

enum mds_run_decision {
    MDS_RUN_APPLY,       /* apply the update */
    MDS_RUN_SKIP,        /* skip the update */
    MDS_RUN_ROLLED_BACK, /* an earlier checkpoint was loaded; go on with new data */
};

/* Decide what to do with the step whose backward pass has just ended; the same on all
 * ranks.  Fails if --on-nonfinite says to stop.  Collective. */
enum mds_rc mds_run_check_step(struct run *r, const struct mds_step_result *s,
                               enum mds_run_decision *decision);

/* ---- stop.c: reasons to stop before the last iteration ---- */

void mds_run_watch_signals(const struct run *r);

/* For a run that has saved and is about to exit: a late signal must not change its exit
 * status. */
void mds_run_ignore_signals(const struct run *r);

/* *reason: "iterations", "exit interval", "signal" or "duration" if all ranks have to
 * stop now, else NULL.  Collective. */
enum mds_rc mds_run_should_stop(struct run *r, const char **reason);

/* Call before each batch of an evaluation, of which this share (0..1) is done, and at
 * its end, with 1.  *reason: "signal" or "duration" if the run has to leave, or would
 * have to before the evaluation is over; else NULL.  Collective. */
enum mds_rc mds_run_stops_evaluation(struct run *r, enum mds_split split, double share,
                                     const char **reason);

/* ---- weights.c: whole tensors, read and written ---- */

/* Set the weights to random initial values, or to those of --init-weights. */
enum mds_rc mds_run_start_weights(const struct run *r);

/* Write all weights (or gradients, or moments) to one safetensors file on rank 0.
 * Collective. */
enum mds_rc mds_run_export(const struct run *r, enum mds_zero_what what,
                           const char *path);

/* ---- checkpoint.c: resuming ---- */

/* Load the state to begin with from --load, or set initial weights.  Collective. */
enum mds_rc mds_run_load_or_start(struct run *r);

/* The last good checkpoint in --save that belongs to this run or to a job it continues;
 * -1 if there is none.  Rank 0 only. */
enum mds_rc mds_run_last_good(const struct run *r, int64_t *iteration);

/* Load that checkpoint: all of it, whatever options said to leave out of --load; the
 * data position does not go back.  *iteration: the one loaded, or -1 if there was none
 * and nothing was done.  Collective. */
enum mds_rc mds_run_roll_back(struct run *r, int64_t *iteration);

/* ---- save.c: writing checkpoints ---- */

/* Check that --save can be written.  Rank 0 only. */
enum mds_rc mds_run_check_save(const struct run *r);

/* Bytes of weights and moments in a checkpoint, of all ranks together. */
enum mds_rc mds_run_checkpoint_bytes(const struct mds_config *c, double *bytes);

/* Remove what exceeds --keep-last before this run needs the space: an earlier job kept
 * more, or could not remove them.  Not if this run started from an older checkpoint
 * than the newest: until its first save, the older one is needed.  Rank 0 only, after
 * mds_run_load_or_start. */
void mds_run_prune_surplus(const struct run *r);

/* Log that size and the free space in --save; a warning if the run will need more.
 * Rank 0 only, after mds_run_load_or_start. */
enum mds_rc mds_run_report_disk_space(const struct run *r);

/* Set up saving in the background, if --async-save asks for it. */
enum mds_rc mds_run_open_background(struct run *r);

/* Wait for the save in the background, if there is one; if it failed, warn.
 * Collective. */
enum mds_rc mds_run_wait_for_save(struct run *r);

/* Call after each step, and with `at_end` after the last.  Write a checkpoint if one is
 * due, and advance the one being written in the background (at_end: wait for it).  File
 * errors are only warnings before the end: the next interval tries again.  Collective.
 */
enum mds_rc mds_run_checkpoint(struct run *r, int at_end);

/* ---- events.c: what other programs read (--events) ----
 *
 * Rank 0 writes them.  started: fails if the file cannot be written; later that is a
 * warning.  expected_s: NAN if unknown.  walltime: the run will leave before its end.
 */
enum mds_rc mds_run_event_started(const struct run *r);
void mds_run_event_data(const struct run *r);
void mds_run_event_evaluating(const struct run *r, enum mds_split split,
                              int64_t samples, double expected_s);
void mds_run_event_evaluated(const struct run *r, enum mds_split split, double loss);
void mds_run_event_saved(const struct run *r, int64_t iteration, const char *path,
                         int64_t bytes, double took_s);
void mds_run_event_spike(const struct run *r, double loss, double limit);
void mds_run_event_batch(const struct run *r, int64_t samples);
void mds_run_event_rolled_back(const struct run *r, int64_t from, int64_t to);
void mds_run_event_walltime(const struct run *r, const char *reason);
void mds_run_event_finished(const struct run *r, const char *reason, int status);

/* ---- profile.c: what --profile measures ---- */

/* Call begin before and end after each step, and end with `at_end` after the last.
 * Collective. */
enum mds_rc mds_run_profile_begin(struct run *r);
enum mds_rc mds_run_profile_end(struct run *r, int at_end);

/* ---- stragglers.c: the rank that the others wait for ----
 *
 * begin: before a step.  end: after its backward pass; in the steps that are measured,
 * one of each log interval, it writes a JSON record, and warns if a rank is slow.  Both
 * collective. */
enum mds_rc mds_run_straggler_begin(struct run *r);
enum mds_rc mds_run_straggler_end(struct run *r);

/* ---- progress.c: how far a long step has got ----
 *
 * A line after one minute, two, four and so on; with --log-level debug for each block.
 */
void mds_run_progress_begin(struct run *r); /* before a step */
void mds_run_report_block(void *run, const struct mds_step_position *at);

/* ---- trace.c: what --trace-dir writes, for comparisons with other programs ---- */

enum mds_rc mds_run_trace_start(const struct run *r);
enum mds_rc mds_run_trace_grads(const struct run *r, int64_t step);

#endif
