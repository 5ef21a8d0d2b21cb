/* SPDX-License-Identifier: BSD-3-Clause */
/* Loss over a held-out split. */
#include "train/run.h"
#include "base/log.h"
#include "base/minmax.h"

#include <inttypes.h>

static const char *const split_names[] = {"training", "validation", "test"};

static int has_samples(const struct run *r, enum mds_split split)
{
    return mds_dataset_samples(r->spec->data, split) > 0;
}

enum mds_rc mds_run_check_evaluation(const struct run *r)
{
    const struct mds_config *c = r->config;

    if (c->train.eval_iters == 0)
        return MDS_OK;
    if (!c->train.skip_train)
        return mds_dataset_require(r->spec->data, MDS_SPLIT_VALID);
    if (has_samples(r, MDS_SPLIT_VALID) || has_samples(r, MDS_SPLIT_TEST))
        return MDS_OK;
    if (!c->data.paths)
        return mds_dataset_require(r->spec->data, c->data.valid_paths ? MDS_SPLIT_VALID
                                                                      : MDS_SPLIT_TEST);
    return mds_fail(MDS_EUSER,
                    "--skip-train: --split %s leaves neither validation nor test data "
                    "enough for one sequence of %" PRId64
                    " tokens and its target; --split 0,1,0 evaluates all of a file",
                    c->data.split, c->model.seq_length);
}

/* Global batches to evaluate: --eval-iters, or fewer if the split is smaller. */
static int64_t eval_batches(const struct run *r, enum mds_split split)
{
    int64_t there = mds_dataset_samples(r->spec->data, split) / r->config->batch.global;
    int64_t asked = r->config->train.eval_iters;

    if (there < 1)
        there = 1;
    return mds_min(asked, there);
}

static enum mds_rc check_targets_of(const struct run *r, enum mds_split split,
                                    int64_t samples)
{
    int found;

    MDS_TRY(mds_run_find_target(r, split, samples, &found));
    if (found)
        return MDS_OK;
    return mds_fail(MDS_EUSER,
                    "%s: no token counts in the loss, of %" PRId64
                    " samples of %" PRId64
                    " tokens: each is the first of a document%s; use other data, or "
                    "another --split",
                    split_names[split], samples, r->config->model.seq_length + 1,
                    r->config->data.kinds.n > 0 ? " or of a kind of weight 0" : "");
}

enum mds_rc mds_run_check_targets(const struct run *r)
{
    const struct mds_config *c = r->config;
    int64_t epoch = mds_dataset_samples(r->spec->data, MDS_SPLIT_TRAIN);

    if (!c->train.skip_train && steps_left(r) > 0)
        MDS_TRY(check_targets_of(r, MDS_SPLIT_TRAIN,
                                 mds_min(epoch, steps_left(r) * c->batch.global)));
    for (int s = MDS_SPLIT_VALID; s < MDS_SPLITS && c->train.eval_iters > 0; s++)
        if (has_samples(r, (enum mds_split)s))
            MDS_TRY(
                check_targets_of(r, (enum mds_split)s,
                                 eval_batches(r, (enum mds_split)s) * c->batch.global));
    return MDS_OK;
}

enum mds_rc mds_run_evaluate(struct run *r, enum mds_split split, double *loss,
                             const char **stop)
{
    int64_t batches = eval_batches(r, split);
    struct mds_kind_losses total = {{0}, {0}};
    double sum, weight;

    for (int64_t i = 0; i < batches; i++) {
        struct mds_engine_rows rows;

        MDS_TRY(mds_run_stops_evaluation(r, split, (double)i / (double)batches, stop));
        if (*stop)
            return MDS_OK;
        MDS_TRY(mds_run_read_rows(r, split, i * r->config->batch.global, &rows));
        MDS_TRY(mds_engine_eval(r->engine, &rows, &total));
    }
    MDS_TRY(mds_run_stops_evaluation(r, split, 1, stop));
    mds_kind_losses_total(&total, &r->config->data.kinds, &sum, &weight);
    *loss = sum / weight;
    if (is_rank0(r))
        mds_metrics_eval(r->metrics, split_names[split], r->iteration, *loss, &total);
    return MDS_OK;
}
