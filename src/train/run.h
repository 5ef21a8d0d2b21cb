/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of the training loop share.  For train/ alone. */
#ifndef MDS_TRAIN_RUN_H
#define MDS_TRAIN_RUN_H

#include "ckpt/background.h"
#include "engine/engine.h"
#include "metrics/metrics.h"
#include "metrics/spikes.h"
#include "parallel/groups.h"
#include "train/train.h"

#include <stdio.h>

struct run {
    const struct mds_train_spec *spec;
    const struct mds_config *config; /* spec's, or `chosen` */
    struct mds_config chosen; /* --activation-memory auto: with the level that fits */
    struct mds_groups groups;
    struct mds_dev *dev, *host;
    struct mds_engine *engine;
    struct mds_engine_need need;
    int64_t memory_before;         /* of this process, before the engine took any */
    struct mds_metrics *metrics;   /* rank 0's; else NULL */
    int32_t *rows;                 /* [accumulation * micro, S+1] */
    double start_s;                /* of the loop */
    double valid_loss, train_loss; /* latest; NAN: none */
    int64_t iteration;             /* done */
    int64_t samples;               /* consumed by then */
    int profiling;                 /* now */
    int64_t profiled;              /* steps before the first that was; -1: none was */
    int64_t saved; /* iteration of the newest complete checkpoint; or -1 */
    int64_t good;  /* of the one that this run marked so; or -1 */
    int64_t from;  /* of the one of --save that it began with, or of the last one that
                        it could mark; or -1; rank 0 */
    const char *load; /* folder to begin from: --load, or --save if it has more of this
                         run; or NULL */
    int64_t origin;   /* for what is saved, as in struct mds_ckpt_state */
    int64_t begun;
    int64_t skipped; /* steps in a row that were not finite */
    int64_t returns; /* to the checkpoint of iteration `returned_to` */
    int64_t returned_to;
    struct mds_spikes spikes;
    struct mds_ckpt_background *background; /* NULL: saves stop the run */
    int64_t saving;                         /* iteration of the save under way there */
    double save_began_s, save_waited_s;     /* of it */
};

static inline int speaks(const struct run *r)
{
    return r->spec->world->rank == 0;
}

static inline struct mds_comm *world_of(const struct run *r)
{
    return mds_group(&r->groups, MDS_AXES_ALL);
}

/* Rows of this replica in one global batch, and their first sample's number where
 * `before` samples came before the batch. */
static inline int64_t local_rows(const struct run *r)
{
    return r->config->batch.micro * r->config->batch.accumulation;
}

static inline int64_t first_sample(const struct run *r, int64_t before)
{
    return before + mds_groups_place(&r->groups, MDS_AXIS_DATA) * local_rows(r);
}

/* ---- memory.c: does it fit? ---- */

/* Threads of this rank, and memory it may take. */
struct mds_dev_spec mds_run_device(const struct run *r);

/* Set r->need.  With --activation-memory auto r->config becomes that of the first level
 * that fits on all ranks, or of the last one.  Collective. */
enum mds_rc mds_run_measure(struct run *r);

/* MDS_EMEM after printing the need by purpose and what would lower it. */
enum mds_rc mds_run_check_memory(const struct run *r);

/* Host memory that an engine takes, whatever its device is. */
int64_t mds_run_host_bytes(const struct mds_engine_need *n);

/* Host memory for reading checkpoints: before the first step, and beside a step if the
 * run may go back; 0 if it reads none.  file: that, or what whole tensors take
 * (--export-weights, --trace-dir) if it is more: the run never has both. */
int64_t mds_run_load_bytes(const struct mds_config *c);
int64_t mds_run_file_bytes(const struct mds_config *c, const struct mds_engine_need *n);

/* What rank 0 had, by purpose, on standard output. */
void mds_run_print_memory(const struct run *r);
void mds_run_memory_table(const struct mds_mem_account *m, FILE *f);

/* ---- evaluate.c ---- */

/* Mean loss over a split, the same for any number of ranks; reported. */
enum mds_rc mds_run_evaluate(struct run *r, enum mds_split split, double *loss);

/* There is data for what is to be evaluated. */
enum mds_rc mds_run_check_evaluation(const struct run *r);

/* --skip-train, in place of the loop: validation data, if there are any. */
enum mds_rc mds_run_evaluate_alone(struct run *r);

/* ---- nonfinite.c: steps whose loss or gradient is not finite ---- */

enum mds_run_verdict {
    MDS_RUN_TAKE, /* the update may be made */
    MDS_RUN_SKIP, /* not this one */
    MDS_RUN_BACK, /* the run is at an earlier iteration now, with data that are new */
};

/* What becomes of the step that backward has just ended, the same on all ranks.  A
 * failure, if the run is to stop.  Collective. */
enum mds_rc mds_run_judge(struct run *r, const struct mds_step_result *s,
                          enum mds_run_verdict *verdict);

/* ---- stop.c: reasons to leave before the last iteration ---- */

void mds_run_watch_signals(const struct run *r);

/* For a run that has saved and is about to leave: nothing may change its status now. */
void mds_run_ignore_signals(const struct run *r);

/* "iterations" and so on once all ranks are to leave, else NULL.  Collective. */
enum mds_rc mds_run_should_stop(const struct run *r, const char **reason);

/* ---- weights.c: whole tensors in and out ---- */

/* Start values, or those of --init-weights. */
enum mds_rc mds_run_start_weights(const struct run *r);

/* Write all weights (or gradients, moments) as one safetensors file, by rank 0.
 * Collective. */
enum mds_rc mds_run_export(const struct run *r, enum mds_zero_what what,
                           const char *path);

/* ---- checkpoint.c: going on ---- */

/* Weights and all else to begin with: from --load, or as mds_run_start_weights. */
enum mds_rc mds_run_begin(struct run *r);

/* The last good checkpoint of --save, of this run or of the jobs that it goes on from;
 * -1: there is none.  For rank 0. */
enum mds_rc mds_run_good(const struct run *r, int64_t *iteration);

/* Load that one: all of it, whatever else --load was told to leave out; samples go on
 * from where they are.  *iteration: its own, or -1: there is none, and nothing was
 * done.  Collective. */
enum mds_rc mds_run_go_back(struct run *r, int64_t *iteration);

/* ---- lineage.c: which run is in --save? ---- */

/* What --no-load-optim and --finetune say. */
enum mds_ckpt_begun mds_run_begun_by(const struct run *r);

/* path: the checkpoint that --load names; NULL: there is no --load.  *newest: iteration
 * of --save's newest one if its run began as this one does, so that this one goes on
 * from there: with that checkpoint, taking as much of it; else -1, with a warning where
 * this run will replace what others saved.  For rank 0. */
enum mds_rc mds_run_find_own(const struct run *r, const char *path, int64_t *newest);

/* ---- save.c: leaving something to go on from ---- */

/* The folder of --save can be written.  For rank 0. */
enum mds_rc mds_run_check_save(const struct run *r);

/* What the numbers of a checkpoint take, of all ranks together. */
enum mds_rc mds_run_checkpoint_bytes(const struct mds_config *c, double *bytes);

/* That, and for how many there is room in --save; a warning if the run will need more.
 * For rank 0, once the run is where it begins. */
enum mds_rc mds_run_tell_room(const struct run *r);

/* With --async-save, what that needs. */
enum mds_rc mds_run_open_background(struct run *r);

/* Wait for the save in the background, if there is one.  Its failure is a warning. */
enum mds_rc mds_run_settle_save(struct run *r);

/* Write a checkpoint, if one is due: after a step, or `at_end`; and look after the one
 * being written in the background, which at the end is waited for.  A failure of files
 * is a failure at the end alone: before, it is a warning, and the next interval tries
 * again. */
enum mds_rc mds_run_checkpoint(struct run *r, int at_end);

/* ---- profile.c: what --profile measures ---- */

/* Before and after each step; at_end: after all of them.  Collective. */
enum mds_rc mds_run_profile_begin(struct run *r);
enum mds_rc mds_run_profile_end(struct run *r, int at_end);

/* ---- trace.c: what --trace-dir writes, for comparisons with other programs ---- */

enum mds_rc mds_run_trace_start(const struct run *r);
enum mds_rc mds_run_trace_grads(const struct run *r, int64_t step);

#endif
