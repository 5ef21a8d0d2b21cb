/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing a run's checkpoints: what goes into them, and when. */
#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/str.h"
#include "base/units.h"
#include "ckpt/error_sync.h"
#include "ckpt/background.h"
#include "ckpt/folder.h"
#include "ckpt/provenance.h"
#include "train/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const enum mds_zero_what zero_what[] = {[MDS_CKPT_WEIGHT] = MDS_ZERO_WEIGHT,
                                               [MDS_CKPT_M] = MDS_ZERO_M,
                                               [MDS_CKPT_V] = MDS_ZERO_V};

enum mds_rc mds_run_check_save(const struct run *r)
{
    return r->config->checkpoint.save ? mds_ckpt_prepare(r->config->checkpoint.save)
                                      : MDS_OK;
}

/* ---- disk space ---- */

enum mds_rc mds_run_checkpoint_bytes(const struct mds_config *c, double *bytes)
{
    struct mds_params *whole = NULL;

    MDS_TRY(mds_engine_whole_params(c, &whole));
    *bytes = mds_ckpt_bytes((double)mds_params_count(whole));
    mds_params_destroy(whole);
    return MDS_OK;
}

/* Checkpoints that this run will still write, including the one at its end. */
static int64_t remaining_saves(const struct run *r)
{
    int64_t every = r->config->checkpoint.interval;
    int64_t left = steps_left(r);

    return every > 0 ? mds_ceil_div(left, every) : 1;
}

enum mds_rc mds_run_report_disk_space(const struct run *r)
{
    const struct mds_checkpoint_config *c = &r->config->checkpoint;
    double bytes, there;
    char each[32], all[32];
    int64_t more;

    if (!c->save || r->config->train.skip_train)
        return MDS_OK;
    there = mds_folder_free_bytes(c->save);
    MDS_TRY(mds_run_checkpoint_bytes(r->config, &bytes));
    MDS_TRY(mds_ckpt_count_to_store(c->save, c->keep_last, remaining_saves(r), &more));
    mds_format_bytes(bytes, each, sizeof each);
    mds_format_bytes(there, all, sizeof all);
    if (there < 0)
        mds_info("a checkpoint takes %s", each);
    else if (there < bytes * (double)more)
        mds_warn("a checkpoint takes %s, and %s has room for %.0f more (%s); this run "
                 "needs room for %" PRId64 ": free some, keep fewer (--keep-last), or "
                 "give another --save",
                 each, c->save, floor(there / bytes), all, more);
    else
        mds_info("a checkpoint takes %s; %s has %s free, quotas aside", each, c->save,
                 all);
    return MDS_OK;
}

enum mds_rc mds_run_open_background(struct run *r)
{
    int64_t bytes;
    void *memory = mds_engine_copy_memory(r->engine, &bytes);

    return memory ? mds_ckpt_background_create(memory, bytes, &r->background) : MDS_OK;
}

/* ---- what is saved ---- */

static struct mds_ckpt_state checkpoint_state(const struct run *r)
{
    struct mds_loss_scale scale = mds_engine_loss_scale(r->engine);
    struct mds_vocabulary words = mds_dataset_vocabulary(r->spec->data);
    int unnamed = words.tokenizer == MDS_TOKENIZER_IDS && r->tokenizer > 0;
    int64_t biases;
    const double *bias = mds_engine_expert_bias(r->engine, &biases);

    return (struct mds_ckpt_state){
        .iteration = r->iteration,
        .samples = r->samples,
        .tokens = r->tokens,
        .updates = mds_zero_updates(mds_engine_zero(r->engine)),
        .loss_scale = scale.scale,
        .scale_dynamic = scale.dynamic,
        .scale_good = scale.good,
        .scale_left = scale.left,
        .vocab = r->config->model.vocab,
        .padded_vocab = r->config->model.padded_vocab,
        .origin = r->origin,
        .begun = r->begun,
        .tokenizer = unnamed ? r->tokenizer : 1 + words.tokenizer,
        .eod = unnamed ? r->eod : words.eod,
        .expert_biases = biases,
        .expert_bias = bias};
}

static void get_shard(void *ctx, int unit, int64_t *first, int64_t *n)
{
    mds_zero_own_shard(ctx, unit, first, n);
}

static enum mds_rc read_shard(void *ctx, enum mds_ckpt_what what, int unit,
                              int64_t first, int64_t n, float *out)
{
    return mds_zero_read_shard(ctx, zero_what[what], unit, first, n, out);
}

/* ---- after a save ---- */

/* s: seconds that the save took; waited_s: of these, how long training waited; negative
 * if it waited all the time. */
static void report_save(const struct run *r, int64_t iteration, int64_t bytes, double s,
                        double waited_s)
{
    char size[32], rate[32], waited[64] = "", path[MDS_PATH_SIZE];

    if (!is_rank0(r) || mds_ckpt_path(r->config->checkpoint.save, iteration, 0, path))
        return;
    if (waited_s >= 0)
        snprintf(waited, sizeof waited, "; training waited %.3f s for it", waited_s);
    mds_info("saved %s: %s in %.2f s, %s/s%s", path,
             mds_format_bytes((double)bytes, size, sizeof size), s,
             mds_format_bytes((double)bytes / (s > 0 ? s : 1e-9), rate, sizeof rate),
             waited);
    mds_run_event_saved(r, iteration, path, bytes, s);
}

/* If an old checkpoint cannot be removed, only warn: the new one is complete. */
static void prune_old_checkpoints(const struct run *r)
{
    const struct mds_checkpoint_config *c = &r->config->checkpoint;

    if (is_rank0(r) &&
        mds_ckpt_prune(c->save, c->keep_last, c->keep_every, 0, NULL, NULL))
        mds_warn("%s", mds_fail_text());
}

void mds_run_prune_surplus(const struct run *r)
{
    const struct mds_checkpoint_config *c = &r->config->checkpoint;
    int64_t newest;

    if (!c->save || c->keep_last == 0 || r->config->train.skip_train)
        return;
    if (mds_ckpt_previous(c->save, INT64_MAX, &newest))
        mds_warn("%s", mds_fail_text());
    else if (newest >= 0 && newest == r->saved)
        prune_old_checkpoints(r);
}

static void after_save(struct run *r, int64_t iteration, int64_t bytes, double s,
                       double waited_s)
{
    r->saved = iteration;
    report_save(r, iteration, bytes, s, waited_s);
    prune_old_checkpoints(r);
}

/* Turn file errors into a warning: training continues without this checkpoint.  But
 * fail if optimizer states on disk were lost, which a save may be the first to notice.
 */
static enum mds_rc warn_and_continue(const struct run *r, int64_t iteration,
                                     enum mds_rc rc)
{
    char why[2048];

    if (!mds_ckpt_is_file_error(rc))
        return rc;
    snprintf(why, sizeof why, "%s", mds_fail_text());
    MDS_TRY(mds_ckpt_sync_error(world_of(r),
                                mds_zero_check_update(mds_engine_zero(r->engine))));
    if (is_rank0(r))
        mds_warn("no checkpoint at iteration %" PRId64 ", training continues: %s",
                 iteration, why);
    return MDS_OK;
}

/* ---- saving ---- */

static enum mds_rc start_background_save(struct run *r, const struct mds_ckpt_save *s)
{
    double begin = mds_clock_s();
    enum mds_rc rc = mds_ckpt_background_start(r->background, s);

    r->save_began_s = begin;
    r->save_waited_s = mds_clock_s() - begin;
    r->saving = r->iteration;
    return rc;
}

static enum mds_rc save_and_wait(struct run *r, const struct mds_ckpt_save *s)
{
    double begin = mds_clock_s();
    int64_t bytes = 0;

    MDS_TRY(mds_ckpt_save(s, &bytes));
    after_save(r, r->iteration, bytes, mds_clock_s() - begin, -1);
    return MDS_OK;
}

static enum mds_rc save_checkpoint(struct run *r, int in_background)
{
    struct mds_params *whole = NULL;
    struct mds_str provenance = {0}, data = {0};
    struct mds_ckpt_save s = {
        .dir = r->config->checkpoint.save,
        .world = world_of(r),
        .local = mds_engine_params(r->engine),
        .source = {mds_engine_zero(r->engine), get_shard, read_shard},
        .state = checkpoint_state(r),
        .configuration = r->spec->configuration};
    enum mds_rc rc;

    MDS_TRY(mds_engine_whole_params(r->config, &whole));
    mds_ckpt_provenance("mds_pretrain", r->spec->version, r->spec->world->host,
                        r->spec->world->ranks, &r->config->parallel, &provenance);
    mds_metrics_sync(r->metrics); /* NULL but on rank 0 */
    s.whole = whole;
    s.provenance = provenance.s ? provenance.s : "";
    if (is_rank0(r)) {
        mds_dataset_warn_changed(r->spec->data);
        mds_dataset_position(r->spec->data, &data);
    }
    s.data = data.s;
    rc = in_background ? start_background_save(r, &s) : save_and_wait(r, &s);
    mds_str_fini(&data);
    mds_str_fini(&provenance);
    mds_params_destroy(whole);
    return rc;
}

/* Advance the save in the background; wait: until it has finished. */
static enum mds_rc poll_background_save(struct run *r, int wait)
{
    double begin = mds_clock_s();
    int64_t iteration, bytes = 0;
    enum mds_rc rc;

    if (!r->background || !mds_ckpt_background_busy(r->background))
        return MDS_OK;
    rc = mds_ckpt_background_poll(r->background, wait, &iteration, &bytes);
    if (rc)
        return warn_and_continue(r, r->saving, rc);
    r->save_waited_s += mds_clock_s() - begin;
    if (iteration >= 0)
        after_save(r, iteration, bytes, mds_clock_s() - r->save_began_s,
                   r->save_waited_s);
    return MDS_OK;
}

enum mds_rc mds_run_wait_for_save(struct run *r)
{
    return poll_background_save(r, 1);
}

enum mds_rc mds_run_checkpoint(struct run *r, int at_end)
{
    const struct mds_checkpoint_config *c = &r->config->checkpoint;
    int due = at_end || (c->interval > 0 && r->iteration % c->interval == 0);
    enum mds_rc rc;

    if (!c->save)
        return MDS_OK;
    MDS_TRY(poll_background_save(r, due)); /* one at a time */
    if (!due || r->saved == r->iteration)
        return MDS_OK;
    rc = save_checkpoint(r, r->background && !at_end);
    return at_end ? rc : warn_and_continue(r, r->iteration, rc);
}
