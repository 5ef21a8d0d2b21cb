/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints of a run: which state it is, and when it is saved. */
#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/str.h"
#include "base/units.h"
#include "ckpt/agree.h"
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

/* ---- room ---- */

enum mds_rc mds_run_checkpoint_bytes(const struct mds_config *c, double *bytes)
{
    struct mds_params *whole = NULL;

    MDS_TRY(mds_engine_whole_params(c, &whole));
    *bytes = mds_ckpt_bytes((double)mds_params_count(whole));
    mds_params_destroy(whole);
    return MDS_OK;
}

/* Of this run, the one at its end included. */
static int64_t saves_to_come(const struct run *r)
{
    int64_t every = r->config->checkpoint.interval;
    int64_t left = r->config->train.iters - r->iteration;

    return every > 0 ? (left + every - 1) / every : 1;
}

enum mds_rc mds_run_tell_room(const struct run *r)
{
    const struct mds_checkpoint_config *c = &r->config->checkpoint;
    double bytes, there;
    char each[32], all[32];
    int64_t more;

    if (!c->save || r->config->train.skip_train)
        return MDS_OK;
    there = mds_folder_free_bytes(c->save);
    MDS_TRY(mds_run_checkpoint_bytes(r->config, &bytes));
    MDS_TRY(mds_ckpt_to_come(c->save, c->keep_last, saves_to_come(r), &more));
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

static struct mds_ckpt_state state_of(const struct run *r)
{
    struct mds_loss_scale scale = mds_engine_loss_scale(r->engine);
    struct mds_vocabulary words = mds_dataset_vocabulary(r->spec->data);

    return (struct mds_ckpt_state){.iteration = r->iteration,
                                   .samples = r->samples,
                                   .updates =
                                       mds_zero_updates(mds_engine_zero(r->engine)),
                                   .loss_scale = scale.scale,
                                   .scale_dynamic = scale.dynamic,
                                   .scale_good = scale.good,
                                   .scale_left = scale.left,
                                   .vocab = r->config->model.vocab,
                                   .padded_vocab = r->config->model.padded_vocab,
                                   .origin = r->origin,
                                   .begun = r->begun,
                                   .tokenizer = 1 + words.tokenizer,
                                   .eod = words.eod};
}

static void share(void *ctx, int unit, int64_t *first, int64_t *n)
{
    mds_zero_own_shard(ctx, unit, first, n);
}

static enum mds_rc read_share(void *ctx, enum mds_ckpt_what what, int unit,
                              int64_t first, int64_t n, float *out)
{
    return mds_zero_read_shard(ctx, zero_what[what], unit, first, n, out);
}

/* ---- after a save ---- */

/* waited_s: of s, what the run stood still; negative: all of it. */
static void report(const struct run *r, int64_t iteration, int64_t bytes, double s,
                   double waited_s)
{
    char size[32], rate[32], waited[64] = "", path[MDS_PATH_SIZE];

    if (!speaks(r) || mds_ckpt_path(r->config->checkpoint.save, iteration, 0, path))
        return;
    if (waited_s >= 0)
        snprintf(waited, sizeof waited, "; training waited %.3f s for it", waited_s);
    mds_info("saved %s: %s in %.2f s, %s/s%s", path,
             mds_format_bytes((double)bytes, size, sizeof size), s,
             mds_format_bytes((double)bytes / (s > 0 ? s : 1e-9), rate, sizeof rate),
             waited);
}

/* A rest that cannot be removed is no reason to fail: the checkpoint is there. */
static void prune(const struct run *r)
{
    const struct mds_checkpoint_config *c = &r->config->checkpoint;

    if (speaks(r) &&
        mds_ckpt_prune(c->save, c->keep_last, c->keep_every, 0, NULL, NULL))
        mds_warn("%s", mds_fail_text());
}

static void saved(struct run *r, int64_t iteration, int64_t bytes, double s,
                  double waited_s)
{
    r->saved = iteration;
    report(r, iteration, bytes, s, waited_s);
    prune(r);
}

/* Files can fail, and the run goes on; but not without states of the optimizer that are
 * lost in one, which a save may be the first to meet. */
static enum mds_rc forgive(const struct run *r, int64_t iteration, enum mds_rc rc)
{
    char why[2048];

    if (!mds_ckpt_is_of_files(rc))
        return rc;
    snprintf(why, sizeof why, "%s", mds_fail_text());
    MDS_TRY(
        mds_ckpt_agree(world_of(r), mds_zero_check_update(mds_engine_zero(r->engine))));
    if (speaks(r))
        mds_warn("no checkpoint at iteration %" PRId64 ", the run goes on: %s",
                 iteration, why);
    return MDS_OK;
}

/* ---- saving ---- */

static enum mds_rc start(struct run *r, const struct mds_ckpt_save *s)
{
    double begin = mds_clock_s();
    enum mds_rc rc = mds_ckpt_background_start(r->background, s);

    r->save_began_s = begin;
    r->save_waited_s = mds_clock_s() - begin;
    r->saving = r->iteration;
    return rc;
}

static enum mds_rc save_now(struct run *r, const struct mds_ckpt_save *s)
{
    double begin = mds_clock_s();
    int64_t bytes = 0;

    MDS_TRY(mds_ckpt_save(s, &bytes));
    saved(r, r->iteration, bytes, mds_clock_s() - begin, -1);
    return MDS_OK;
}

static enum mds_rc save(struct run *r, int in_background)
{
    struct mds_params *whole = NULL;
    struct mds_str provenance = {0};
    struct mds_ckpt_save s = {.dir = r->config->checkpoint.save,
                              .world = world_of(r),
                              .local = mds_engine_params(r->engine),
                              .source = {mds_engine_zero(r->engine), share, read_share},
                              .state = state_of(r),
                              .configuration = r->spec->configuration};
    enum mds_rc rc;

    MDS_TRY(mds_engine_whole_params(r->config, &whole));
    mds_ckpt_provenance("mds_pretrain", r->spec->version, r->spec->world->host,
                        r->spec->world->ranks, &r->config->parallel, &provenance);
    s.whole = whole;
    s.provenance = provenance.s ? provenance.s : "";
    rc = in_background ? start(r, &s) : save_now(r, &s);
    mds_str_fini(&provenance);
    mds_params_destroy(whole);
    return rc;
}

/* The save in the background, a step further; wait: to its end. */
static enum mds_rc look_after(struct run *r, int wait)
{
    double begin = mds_clock_s();
    int64_t iteration, bytes = 0;
    enum mds_rc rc;

    if (!r->background || !mds_ckpt_background_busy(r->background))
        return MDS_OK;
    rc = mds_ckpt_background_poll(r->background, wait, &iteration, &bytes);
    if (rc)
        return forgive(r, r->saving, rc);
    r->save_waited_s += mds_clock_s() - begin;
    if (iteration >= 0)
        saved(r, iteration, bytes, mds_clock_s() - r->save_began_s, r->save_waited_s);
    return MDS_OK;
}

enum mds_rc mds_run_settle_save(struct run *r)
{
    return look_after(r, 1);
}

enum mds_rc mds_run_checkpoint(struct run *r, int at_end)
{
    const struct mds_checkpoint_config *c = &r->config->checkpoint;
    int due = at_end || (c->interval > 0 && r->iteration % c->interval == 0);
    enum mds_rc rc;

    if (!c->save)
        return MDS_OK;
    MDS_TRY(look_after(r, due)); /* one at a time */
    if (!due || r->saved == r->iteration)
        return MDS_OK;
    rc = save(r, r->background && !at_end);
    return at_end ? rc : forgive(r, r->iteration, rc);
}
