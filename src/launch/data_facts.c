/* SPDX-License-Identifier: BSD-3-Clause */
/* What can be known of a run from data and checkpoints that are here, before it waits
 * in a queue. */
#include "base/log.h"
#include "base/minmax.h"
#include "base/units.h"
#include "ckpt/configuration.h"
#include "ckpt/fit.h"
#include "ckpt/index.h"
#include "ckpt/lineage.h"
#include "data/dataset.h"
#include "data/inspect.h"
#include "data/paths.h"
#include "data/source.h"
#include "launch/launch.h"
#include "metrics/flops.h"
#include "metrics/outputs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- before a layout is chosen ---- */

int64_t mds_launch_scanned_words(const struct mds_launch *l)
{
    return l->scan.share == 1 ? l->scan.largest + 1 : 0;
}

/* What cannot be read is the job's to say: other hosts may have it. */
static void scan_ids(struct mds_launch *l, struct mds_config_run *run)
{
    char limit[32];

    if (mds_data_scan(&run->config.data, l->options->plan_s, &l->scan))
        return;
    if (l->scan.share == 1)
        mds_data_inspect(run, mds_launch_scanned_words(l), 1);
    else
        mds_info("vocabulary: %.0f %% of Megatron's files were read in %s, with ids up "
                 "to %lld; the job reads all, and --plan-seconds gives more time here",
                 100 * l->scan.share,
                 mds_format_seconds(l->options->plan_s, limit, sizeof limit),
                 (long long)l->scan.largest);
}

void mds_launch_read_data(struct mds_launch *l, struct mds_config_run *run)
{
    struct mds_config *c = &run->config;
    struct mds_flops_model model;
    double share;

    if (l->for_later)
        scan_ids(l, run);
    l->seen = c->data.seen =
        mds_data_seen(&c->data, c->model.seq_length, c->model.window);
    model = mds_flops_model_of(c);
    share = mds_flops_documents_share(&model);
    if (share < 1)
        mds_info("documents: attention computes %.3g %% of what it would across them",
                 100 * share);
}

/* ---- paths ---- */

static void warn_if_path_missing(const char *path)
{
    if (mds_source_is_there(path))
        return;
    mds_fail_open(MDS_EUSER, path);
    mds_warn("data not found on this host: %s; the run fails at once if its nodes do "
             "not have it",
             mds_fail_text());
}

static enum mds_rc check_path_list(const char *option, const char *text)
{
    struct mds_paths paths;
    enum mds_rc rc = MDS_OK;

    if (!text)
        return MDS_OK;
    MDS_TRY(mds_paths_parse(option, text, &paths));
    for (int i = 0; i < paths.n && !rc; i++)
        if (strchr(paths.path[i], '\n'))
            rc = mds_fail(MDS_EUSER,
                          "%s: the name of a file has a newline, which a command line "
                          "cannot pass on",
                          option);
        else
            warn_if_path_missing(paths.path[i]);
    mds_paths_fini(&paths);
    return rc;
}

enum mds_rc mds_launch_check_paths(const struct mds_data_config *d)
{
    MDS_TRY(check_path_list("--data-path", d->paths));
    MDS_TRY(check_path_list("--train-data-path", d->train_paths));
    MDS_TRY(check_path_list("--valid-data-path", d->valid_paths));
    return check_path_list("--test-data-path", d->test_paths);
}

static int are_here(const char *option, const char *text)
{
    struct mds_paths paths;
    int here = 1;

    if (!text)
        return 1;
    if (mds_paths_parse(option, text, &paths))
        return 0;
    for (int i = 0; i < paths.n; i++)
        here &= mds_source_is_there(paths.path[i]);
    mds_paths_fini(&paths);
    return here;
}

static int is_all_here(const struct mds_data_config *d)
{
    return mds_config_data_paths(d) && are_here("--data-path", d->paths) &&
           are_here("--train-data-path", d->train_paths) &&
           are_here("--valid-data-path", d->valid_paths) &&
           are_here("--test-data-path", d->test_paths);
}

/* ---- checkpoints ---- */

/* The checkpoint that the run begins from; "" if it begins anew. */
static enum mds_rc find_start(const struct mds_config *c, char path[MDS_PATH_SIZE],
                              int64_t *newest)
{
    const struct mds_checkpoint_config *k = &c->checkpoint;
    char *text;

    *newest = -1;
    path[0] = '\0';
    if (!k->load)
        return mds_ckpt_find_own(c, NULL, newest);
    MDS_TRY(mds_ckpt_find_named(k->load, path));
    if (path[0])
        MDS_TRY(mds_ckpt_find_own(c, path, newest));
    else if (k->finetune || !k->save || !mds_path_is_same(k->load, k->save))
        return mds_ckpt_refuse_empty(c);
    MDS_TRY(mds_ckpt_find_configuration(c, path, &text));
    if (!text)
        path[0] = '\0';
    free(text);
    return MDS_OK;
}

/* What the job would replace of another run.  newest: as of mds_ckpt_find_own. */
static enum mds_rc check_outputs(const struct mds_launch *l, const struct mds_config *c,
                                 int64_t newest)
{
    const struct mds_checkpoint_config *k = &c->checkpoint;
    int64_t done = l->done.in[MDS_STEPS];
    int goes_on = newest >= 0 || (done > 0 && k->load && k->save &&
                                  mds_path_is_same(k->load, k->save));

    if (c->train.skip_train)
        return MDS_OK;
    if (c->output.metrics_jsonl)
        MDS_TRY(mds_metrics_check_own(c->output.metrics_jsonl, k->save, k->load, done,
                                      c->output.overwrite));
    return goes_on ? MDS_OK : mds_outputs_check_new(&c->output);
}

/* What the job will check of it, but for its weights.  d: NULL if data are not here. */
static enum mds_rc check_start(const struct mds_launch *l,
                               const struct mds_config_run *run, struct mds_dataset *d,
                               const char *path)
{
    const struct mds_config *c = &run->config;
    char *settings = mds_settings_text(&run->settings), *position;
    struct mds_ckpt_state s;
    enum mds_rc rc;
    int other_model;
    int64_t save;

    if (!settings)
        return MDS_EMEM;
    rc =
        mds_ckpt_check_options(path, &(struct mds_ckpt_run){c, settings}, &other_model);
    free(settings);
    MDS_TRY(rc);
    if (!d)
        return MDS_OK;
    MDS_TRY(mds_ckpt_state_read(path, &s, &save));
    MDS_TRY(mds_tokenizer_check(path, s.tokenizer, mds_dataset_vocabulary(d).tokenizer,
                                c->checkpoint.override_model));
    MDS_TRY(mds_ckpt_check_vocabulary(path, s.vocab, c));
    if (l->done.in[MDS_SAMPLES] == 0 || c->train.skip_train || l->scan.share < 1)
        return MDS_OK;
    MDS_TRY(mds_ckpt_index_data(path, &position));
    rc = mds_dataset_resume(d, position, path, s.samples);
    free(position);
    return rc;
}

static enum mds_rc check_checkpoint(const struct mds_launch *l,
                                    const struct mds_config_run *run,
                                    struct mds_dataset *d)
{
    const char *load = run->config.checkpoint.load;
    char path[MDS_PATH_SIZE];
    int64_t newest;

    if (load && access(load, F_OK)) {
        if (!run->config.checkpoint.save ||
            strcmp(load, run->config.checkpoint.save) != 0)
            mds_warn("checkpoint not found on this host: %s; the run fails at once if "
                     "its nodes do not have it",
                     load);
        return check_outputs(l, &run->config, -1);
    }
    MDS_TRY(find_start(&run->config, path, &newest));
    MDS_TRY(check_outputs(l, &run->config, newest));
    return path[0] ? check_start(l, run, d, path) : MDS_OK;
}

/* ---- what is left of a run ---- */

/* Iterations with validation among those behind which another step follows. */
static int64_t count_validations(const struct mds_config *c, int64_t first,
                                 int64_t steps)
{
    int64_t every = c->train.eval_interval;

    return (first + mds_max(steps, 1) - 1) / every - mds_max(first - 1, 0) / every;
}

/* d: NULL if data are not here; then samples are as many as --eval-iters asks for. */
static void add_evaluations(const struct mds_config *c, const struct mds_dataset *d,
                            enum mds_split split, int64_t times, struct mds_outlook *o)
{
    int64_t batch = c->batch.global;
    int64_t samples = d ? mds_dataset_evaluated(d, split, c)
                        : mds_min(c->train.eval_iters, INT32_MAX) * batch;

    if (samples == 0)
        return;
    o->evaluations += times;
    o->samples += times * samples;
    o->batches += times * mds_ceil_div(samples, batch);
}

static void count_what_is_left(const struct mds_launch *l, const struct mds_config *c,
                               const struct mds_dataset *d, struct mds_outlook *o)
{
    const struct mds_extent end = mds_config_end(c, &c->train.length, &l->done);
    int64_t first = l->done.in[MDS_STEPS], validations = 0;

    *o = (struct mds_outlook){0};
    if (!c->train.skip_train) {
        o->steps = end.in[MDS_STEPS] - l->done.in[MDS_STEPS];
        o->trained = end.in[MDS_SAMPLES] - l->done.in[MDS_SAMPLES];
    }
    if (o->steps == 0 && !c->train.skip_train)
        return;
    if (o->steps > 0)
        validations = count_validations(c, first, o->steps);
    add_evaluations(c, d, MDS_SPLIT_VALID, validations + 1, o);
    add_evaluations(c, d, MDS_SPLIT_TEST, 1, o);
}

static enum mds_rc check_dataset(struct mds_launch *l, struct mds_dataset *d,
                                 struct mds_config_run *run)
{
    const struct mds_config *c = &run->config;

    MDS_TRY(mds_dataset_check(d, c));
    MDS_TRY(mds_dataset_set_vocab(d, l->scan.largest));
    MDS_TRY(mds_config_set_vocab(run, mds_dataset_vocab(d)));
    MDS_TRY(mds_dataset_log(d, !c->train.skip_train));
    MDS_TRY(check_checkpoint(l, run, d));
    count_what_is_left(l, c, d, &l->outlook);
    return c->train.skip_train ? MDS_OK
                               : mds_dataset_log_epochs(d, l->done.in[MDS_SAMPLES] +
                                                               l->outlook.trained);
}

enum mds_rc mds_launch_look_ahead(struct mds_launch *l, struct mds_config_run *run)
{
    const struct mds_config *c = &run->config;
    struct mds_dataset *d = NULL;
    enum mds_rc rc;

    MDS_TRY(mds_ckpt_find_progress(c, &l->done));
    if (!is_all_here(&c->data)) {
        count_what_is_left(l, c, NULL, &l->outlook);
        return check_checkpoint(l, run, NULL);
    }
    MDS_TRY(
        mds_dataset_open(&c->data, c->model.seq_length, (uint64_t)c->train.seed, &d));
    rc = check_dataset(l, d, run);
    mds_dataset_close(d);
    return rc;
}
