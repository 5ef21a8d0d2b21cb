/* SPDX-License-Identifier: BSD-3-Clause */
/* Loss over a held-out split: each of its samples is evaluated once, or the first ones
 * of each file, if --eval-iters asks for less. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/units.h"
#include "train/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const split_names[] = {"training", "validation", "test"};

/* ---- which samples ---- */

/* Goes through the files of a split. */
struct walk {
    const struct mds_dataset *data;
    enum mds_split split;
    int file;             /* -1: before the first */
    int64_t first, n;     /* samples of that file to evaluate, counted in the split */
    int64_t left, behind; /* in later files: samples to evaluate, samples there are */
    int64_t end;          /* of the file's samples, whether evaluated or not */
};

static struct walk walk_split(const struct run *r, enum mds_split split)
{
    int64_t there = mds_dataset_samples(r->spec->data, split);
    int64_t most = mds_dataset_evaluated(r->spec->data, split, r->config);

    return (struct walk){r->spec->data, split, .file = -1, .left = most,
                         .behind = there};
}

/* To the next file, which gets its share of the samples left.  Returns 0 behind the
 * last. */
static int next_file(struct walk *w)
{
    int64_t all;

    if (w->file + 1 == mds_dataset_files(w->data, w->split))
        return 0;
    w->file++;
    all = mds_dataset_file_samples(w->data, w->split, w->file);
    w->first = w->end;
    w->end += all;
    w->n = llround((double)w->left * ((double)all / (double)w->behind));
    w->left -= w->n;
    w->behind -= all;
    return 1;
}

/* The next samples of one file, at most `most`.  *n 0: there are no more. */
static void next_samples(struct walk *w, int64_t most, int64_t *first, int64_t *n)
{
    while (w->n == 0 && next_file(w))
        ;
    *first = w->first;
    *n = mds_min(w->n, most);
    w->first += *n;
    w->n -= *n;
}

/* ---- what has to be there ---- */

static int has_samples(const struct run *r, enum mds_split split)
{
    return mds_dataset_samples(r->spec->data, split) > 0;
}

static enum mds_rc refuse_no_targets(const struct run *r, enum mds_split split,
                                     int64_t samples)
{
    return mds_fail(MDS_EUSER,
                    "%s: no token counts in the loss, of %" PRId64
                    " samples of %" PRId64
                    " tokens: each is the first of a document%s; use other data, or "
                    "another --split",
                    split_names[split], samples, r->config->model.seq_length + 1,
                    r->config->data.kinds.n > 0 ? " or of a kind of weight 0" : "");
}

static enum mds_rc check_training_targets(const struct run *r)
{
    int64_t samples = mds_min(mds_dataset_samples(r->spec->data, MDS_SPLIT_TRAIN),
                              all_samples(r) - r->samples);
    int found;

    MDS_TRY(mds_run_find_target(r, MDS_SPLIT_TRAIN, r->samples, samples, &found));
    return found ? MDS_OK : refuse_no_targets(r, MDS_SPLIT_TRAIN, samples);
}

static enum mds_rc check_held_out_targets(const struct run *r, enum mds_split split)
{
    struct walk w = walk_split(r, split);
    int64_t samples = w.left;
    int found = 0;

    while (!found && next_file(&w))
        MDS_TRY(mds_run_find_target(r, split, w.first, w.n, &found));
    return found ? MDS_OK : refuse_no_targets(r, split, samples);
}

enum mds_rc mds_run_check_targets(const struct run *r)
{
    const struct mds_config *c = r->config;

    if (!c->train.skip_train && steps_left(r) > 0)
        MDS_TRY(check_training_targets(r));
    for (int s = MDS_SPLIT_VALID; s < MDS_SPLITS && c->train.eval_iters > 0; s++)
        if (has_samples(r, (enum mds_split)s))
            MDS_TRY(check_held_out_targets(r, (enum mds_split)s));
    return MDS_OK;
}

/* ---- evaluation ---- */

struct evaluation {
    struct walk walk;
    int64_t samples; /* to evaluate */
    struct mds_progress progress;
    int files;
    struct mds_kind_losses *by_file; /* [files] */
    /* What the engine evaluates in one call.  Each micro-batch is of one file. */
    int64_t micro_batches;
    int *file;                      /* [accumulation] */
    struct mds_kind_losses *losses; /* [accumulation] */
};

static enum mds_rc start_evaluation(const struct run *r, enum mds_split split,
                                    struct evaluation *e)
{
    size_t most = (size_t)r->config->batch.accumulation;

    e->walk = walk_split(r, split);
    e->samples = e->walk.left;
    e->files = mds_dataset_files(r->spec->data, split);
    e->by_file = mds_zalloc((size_t)e->files, sizeof *e->by_file);
    e->file = mds_zalloc(most, sizeof *e->file);
    e->losses = mds_zalloc(most, sizeof *e->losses);
    return e->by_file && e->file && e->losses ? MDS_OK : MDS_EMEM;
}

static void free_evaluation(struct evaluation *e)
{
    free(e->by_file);
    free(e->file);
    free(e->losses);
}

/* Deal a micro-batch to each data-parallel rank; it is number i of the call.  Where the
 * split ends, later ranks get an empty one.  *any 0: it had ended before. */
static enum mds_rc deal_micro_batch(const struct run *r, struct evaluation *e,
                                    int64_t i, int *any)
{
    int own = mds_groups_rank(&r->groups, MDS_AXIS_DATA);

    *any = 0;
    for (int rank = 0; rank < mds_groups_size(&r->groups, MDS_AXIS_DATA); rank++) {
        int64_t first, n;

        next_samples(&e->walk, r->config->batch.micro, &first, &n);
        *any |= n > 0;
        if (rank != own || !*any)
            continue;
        e->file[i] = e->walk.file;
        MDS_TRY(mds_run_read_micro_batch(r, e->walk.split, first, n, i));
    }
    return MDS_OK;
}

/* All ranks get as many micro-batches. */
static enum mds_rc deal_batch(const struct run *r, struct evaluation *e)
{
    int any = 1;

    e->micro_batches = 0;
    while (e->micro_batches < r->config->batch.accumulation) {
        MDS_TRY(deal_micro_batch(r, e, e->micro_batches, &any));
        if (!any)
            break;
        e->micro_batches++;
    }
    return MDS_OK;
}

/* How much of it is done: 0 .. 1. */
static double progress(const struct evaluation *e)
{
    return 1 - (double)(e->walk.n + e->walk.left) / (double)e->samples;
}

/* After 10 s, 20 s, 40 s and so on. */
static void report_progress(struct evaluation *e)
{
    if (mds_progress_is_due(&e->progress))
        mds_info("evaluating %s: %.0f %% after %.0f s", split_names[e->walk.split],
                 100 * progress(e), mds_clock_s() - e->progress.began_s);
}

static enum mds_rc evaluate_files(struct run *r, enum mds_split split,
                                  struct evaluation *e, const char **stop)
{
    struct mds_engine_rows rows = mds_run_rows(r);

    for (;;) {
        MDS_TRY(mds_run_stops_evaluation(r, split, progress(e), stop));
        if (*stop)
            return MDS_OK;
        MDS_TRY(deal_batch(r, e));
        if (e->micro_batches == 0)
            return MDS_OK;
        report_progress(e);
        MDS_TRY(mds_engine_eval(r->engine, &rows, e->micro_batches, e->losses));
        for (int64_t i = 0; i < e->micro_batches; i++)
            mds_kind_losses_add(&e->by_file[e->file[i]], &e->losses[i]);
    }
}

/* The mean over all files, and of each if there are several; rank 0 reports them. */
static double report_losses(const struct run *r, enum mds_split split,
                            const struct evaluation *e)
{
    struct mds_kind_losses all = {{0}, {0}};
    struct mds_metrics_eval m = {.split = split_names[split],
                                 .iteration = r->iteration,
                                 .samples = e->samples,
                                 .samples_there =
                                     mds_dataset_samples(r->spec->data, split)};

    for (int k = 0; k < e->files; k++)
        mds_kind_losses_add(&all, &e->by_file[k]);
    m.losses = &all;
    if (is_rank0(r))
        mds_metrics_eval(r->metrics, &m);
    for (int k = 0; k < e->files && e->files > 1 && is_rank0(r); k++)
        if (mds_kind_losses_targets(&e->by_file[k], &r->config->data.kinds) > 0)
            mds_metrics_eval_file(r->metrics, &m,
                                  mds_dataset_file(r->spec->data, split, k),
                                  &e->by_file[k]);
    return mds_kind_losses_mean(&all, &r->config->data.kinds);
}

/* What evaluating them will take: as the last time, or, as it has no backward pass, a
 * third of a training step; NAN: there was neither yet. */
static double expected_s(const struct run *r, enum mds_split split, int64_t samples)
{
    if (r->eval_s[split] > 0)
        return r->eval_s[split];
    return r->sample_s > 0 ? (double)samples * r->sample_s / 3 : NAN;
}

static void announce(const struct run *r, enum mds_split split, struct evaluation *e)
{
    const double first_report_s = 10;
    double s = expected_s(r, split, e->samples);
    char about[32], takes[48] = "";

    e->progress = mds_progress_doubling(first_report_s);
    mds_run_event_evaluating(r, split, e->samples, s);
    if (s >= 1)
        snprintf(takes, sizeof takes, ", about %s",
                 mds_format_seconds(s, about, sizeof about));
    mds_info("evaluating %s: %" PRId64 " window%s%s", split_names[split], e->samples,
             mds_plural(e->samples), takes);
}

enum mds_rc mds_run_evaluate(struct run *r, enum mds_split split, double *loss,
                             const char **stop)
{
    struct evaluation e = {.files = 0};
    enum mds_rc rc = start_evaluation(r, split, &e);

    if (!rc) {
        announce(r, split, &e);
        rc = evaluate_files(r, split, &e, stop);
    }
    if (!rc && !*stop)
        rc = mds_engine_sum_losses(r->engine, e.by_file, e.files);
    if (!rc && !*stop) {
        *loss = report_losses(r, split, &e);
        mds_run_event_evaluated(r, split, *loss);
    }
    free_evaluation(&e);
    return rc;
}
