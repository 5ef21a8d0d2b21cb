/* SPDX-License-Identifier: BSD-3-Clause */
/* Going on from a checkpoint: which one, and what to do about a bad one. */
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "ckpt/agree.h"
#include "ckpt/folder.h"
#include "ckpt/reader.h"
#include "config/options.h"
#include "config/tree.h"
#include "train/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct filling {
    struct mds_ckpt_reader *reader;
    const struct mds_params *local;
    uint64_t seed;
};

static enum mds_rc fill(void *ctx, enum mds_zero_what what, int unit, int64_t first,
                        int64_t n, float *out)
{
    const struct filling *f = ctx;
    enum mds_ckpt_what kind = what == MDS_ZERO_M   ? MDS_CKPT_M
                              : what == MDS_ZERO_V ? MDS_CKPT_V
                                                   : MDS_CKPT_WEIGHT;

    return mds_ckpt_reader_fill(f->reader, f->local, f->seed, kind, unit, first, n,
                                out);
}

/* The run's place, with values that are in already. */
static void take_state(struct run *r, const struct mds_ckpt_state *s)
{
    const struct mds_loss_scale scale = {.scale = s->loss_scale,
                                         .dynamic = (int)s->scale_dynamic,
                                         .good = s->scale_good,
                                         .left = s->scale_left};

    r->iteration = s->iteration;
    r->samples = s->samples;
    mds_engine_resume_loss_scale(r->engine, &scale);
}

/* What is taken over of a checkpoint besides the weights. */
struct taking {
    int moments, place;
    int origin; /* what the run began from: this, or what the checkpoint's run did */
};

/* Whether the run goes on from a checkpoint of its own. */
static int goes_on(const struct run *r)
{
    return r->load && r->load == r->config->checkpoint.save;
}

static void take_origin(struct run *r, const struct mds_ckpt_index *ix)
{
    r->origin = goes_on(r) ? ix->state.origin : ix->save;
    r->begun = goes_on(r) ? ix->state.begun : mds_run_begun_by(r);
}

static enum mds_rc load_values(struct run *r, const struct mds_ckpt_index *ix,
                               int moments)
{
    struct mds_zero *zero = mds_engine_zero(r->engine);
    struct filling f = {.local = mds_engine_params(r->engine),
                        .seed = (uint64_t)r->config->train.seed};
    int alone =
        mds_zero_is_sharded(zero) || mds_groups_size(&r->groups, MDS_AXES_TOKENS) == 1;
    enum mds_rc rc;

    MDS_TRY(mds_ckpt_reader_create(ix, alone, &f.reader));
    rc = mds_zero_load(zero, fill, &f, moments ? ix->state.updates : 0);
    mds_ckpt_reader_destroy(f.reader);
    return rc;
}

/* Padding may hide that ids mean something else now. */
static void warn_of_words(const struct run *r, const struct mds_ckpt_index *ix)
{
    if (ix->state.iteration > 0 && ix->state.vocab != r->config->model.vocab)
        mds_warn("%s was trained on data of %" PRId64
                 " words, and this run's has %" PRId64
                 ": the data of another tokenizer?",
                 ix->path, ix->state.vocab, r->config->model.vocab);
}

/* That this run's model computes what the one that was saved does. */
static enum mds_rc judge_changes(const struct run *r, const char *path,
                                 const struct mds_config_changes *changes)
{
    const char *function = changes->function.s;

    if (function && !r->config->checkpoint.override_model)
        return mds_fail(MDS_EUSER,
                        "%s: was saved with %s: another function of the same weights; "
                        "leave these options out to take the checkpoint's, or give "
                        "--override-model-config",
                        path, function);
    if (function)
        mds_warn("%s: was saved with %s, and --override-model-config is given", path,
                 function);
    if (changes->others.s && !r->config->train.skip_train)
        mds_info("%s: was saved with %s", path, changes->others.s);
    return MDS_OK;
}

static enum mds_rc check_configuration(const struct run *r, const char *path,
                                       int *other)
{
    struct mds_config_changes changes;
    char *configuration, *provenance;
    enum mds_rc rc;

    MDS_TRY(mds_ckpt_index_texts(path, &configuration, &provenance));
    rc = mds_config_compare(configuration, path, r->spec->configuration, &changes);
    if (!rc) {
        rc = judge_changes(r, path, &changes);
        *other = rc == MDS_EUSER;
        mds_config_changes_fini(&changes);
    }
    free(configuration);
    free(provenance);
    return rc;
}

/* The index, found to be whole and of this model; on the first rank.  *other: it is
 * whole, but of another model. */
static enum mds_rc open_index(const struct run *r, const char *path,
                              struct mds_ckpt_index **ix, int *other)
{
    const struct mds_model_config *m = &r->config->model;
    struct mds_params *whole = NULL;
    enum mds_rc rc;

    MDS_TRY(mds_ckpt_index_read(path, ix));
    MDS_TRY(mds_ckpt_index_check_files(*ix));
    MDS_TRY(check_configuration(r, path, other));
    MDS_TRY(mds_engine_whole_params(r->config, &whole));
    warn_of_words(r, *ix);
    rc = mds_ckpt_index_check_model(*ix, whole, m->vocab, m->padded_vocab);
    *other = rc == MDS_EUSER;
    mds_params_destroy(whole);
    return rc;
}

/* The global batch of the run that saved it, out of its configuration; 0: it does not
 * tell. */
static int64_t batch_before(const struct mds_ckpt_index *ix)
{
    char *configuration, *provenance;
    struct mds_tree *tree = NULL;
    const struct mds_node *global;
    int64_t batch = 0;

    if (mds_ckpt_index_texts(ix->path, &configuration, &provenance))
        return 0;
    if (!mds_tree_parse(configuration, strlen(configuration), ix->path, &tree)) {
        global = mds_node_get(mds_node_get(tree->root, "batch"), "global");
        batch = global && global->text ? strtoll(global->text, NULL, 10) : 0;
    }
    mds_tree_destroy(tree);
    free(configuration);
    free(provenance);
    return batch;
}

/* Where the batch follows from the ranks, other ranks change it. */
static void tell_batch(const struct run *r, const struct mds_ckpt_index *ix)
{
    int64_t before = batch_before(ix), now = r->config->batch.global;

    if (ix->state.iteration > 0 && before > 0 && before != now)
        mds_info("a step had %" PRId64 " sequence%s before, and has %" PRId64
                 " now; --global-batch-size sets it",
                 before, mds_plural(before), now);
}

/* *other, on all ranks: path is of another model, as those before it will be. */
static enum mds_rc load_parts(struct run *r, const char *path, struct taking taking,
                              int *other)
{
    struct mds_ckpt_index *ix = NULL;
    double begin = mds_clock_s();
    enum mds_rc rc;

    *other = 0;
    rc = speaks(r) ? open_index(r, path, &ix, other) : MDS_OK;
    rc = mds_ckpt_agree(world_of(r), rc);
    if (mds_ckpt_is_of_files(rc))
        MDS_TRY(mds_comm_broadcast(world_of(r), other, sizeof *other, 0));
    if (!rc)
        rc = mds_ckpt_index_share(world_of(r), &ix);
    if (!rc)
        rc = mds_ckpt_agree(world_of(r), load_values(r, ix, taking.moments));
    if (!rc && taking.place)
        take_state(r, &ix->state);
    if (!rc && taking.origin)
        take_origin(r, ix);
    if (!rc && speaks(r))
        mds_info("loaded %s (iteration %" PRId64 ") in %.2f s", path,
                 ix->state.iteration, mds_clock_s() - begin);
    if (!rc && speaks(r) && taking.place && !r->config->train.skip_train)
        tell_batch(r, ix);
    mds_ckpt_index_destroy(ix);
    return rc;
}

static enum mds_rc load(struct run *r, const char *path, int *other)
{
    enum mds_ckpt_begun begun = goes_on(r) ? MDS_BEGUN_FROM_ALL : mds_run_begun_by(r);
    struct taking taking = {.moments = begun == MDS_BEGUN_FROM_ALL &&
                                       !r->config->train.skip_train,
                            .place = begun != MDS_BEGUN_FINETUNE,
                            .origin = 1};

    return load_parts(r, path, taking, other);
}

/* ---- which ---- */

/* The folder of one checkpoint may be given as well. */
enum { ITSELF = -2 };

static enum mds_rc look_latest(const struct run *r, int64_t *iteration)
{
    const char *load = r->config->checkpoint.load;
    char index[MDS_PATH_SIZE];
    struct stat st;

    MDS_TRY(mds_ckpt_file(load, -1, index));
    if (stat(index, &st))
        return mds_ckpt_latest(load, iteration);
    *iteration = ITSELF;
    return MDS_OK;
}

static enum mds_rc look_before(const struct run *r, int64_t *iteration)
{
    return mds_ckpt_before(r->load, *iteration, iteration);
}

enum mds_rc mds_run_good(const struct run *r, int64_t *iteration)
{
    MDS_TRY(mds_ckpt_good(r->config->checkpoint.save, iteration));
    if (*iteration > r->from)
        *iteration = -1;
    return MDS_OK;
}

/* The first rank looks; -1: none. */
static enum mds_rc find(const struct run *r,
                        enum mds_rc (*look)(const struct run *r, int64_t *iteration),
                        int64_t *iteration)
{
    enum mds_rc rc = speaks(r) ? look(r, iteration) : MDS_OK;

    MDS_TRY(mds_ckpt_agree(world_of(r), rc));
    return mds_comm_broadcast(world_of(r), iteration, sizeof *iteration, 0);
}

/* The newest, or with --load-fallback the newest that is good.  mds_fail's text says
 * what is wrong with the last one tried. */
static enum mds_rc load_newest(struct run *r, int64_t iteration)
{
    const struct mds_checkpoint_config *c = &r->config->checkpoint;
    char path[MDS_PATH_SIZE], why[2048];
    enum mds_rc rc;
    int other;

    for (;;) {
        MDS_TRY(mds_ckpt_path(r->load, iteration, 0, path));
        rc = load(r, path, &other);
        if (!mds_ckpt_is_of_files(rc) || other)
            return rc;
        snprintf(why, sizeof why, "%s", mds_fail_text());
        MDS_TRY(find(r, look_before, &iteration));
        if (iteration < 0)
            return mds_fail(rc, "%s; there is no checkpoint before it", why);
        MDS_TRY(mds_ckpt_path(r->load, iteration, 0, path));
        if (!c->load_fallback)
            return mds_fail(rc,
                            "%s; the one before is %s, and --load-fallback takes it",
                            why, path);
        if (speaks(r))
            mds_warn("%s; trying %s", why, path);
    }
}

/* Nothing is there yet: right for the first of a chain of jobs that all have the same
 * --load and --save, else a slip. */
static enum mds_rc begin_chain(struct run *r, int own)
{
    const struct mds_checkpoint_config *c = &r->config->checkpoint;

    if (c->finetune || !own)
        return mds_fail(
            MDS_EUSER,
            "--load %s: there is no checkpoint; to begin a run leave it out, "
            "or give --save the same folder",
            c->load);
    if (speaks(r))
        mds_info("no checkpoint in %s yet: the run begins", c->load);
    return mds_run_start_weights(r);
}

/* Whether --load is the folder of --save, which is there by now; as the first rank sees
 * it. */
static enum mds_rc ask_own(const struct run *r, int *own)
{
    const struct mds_checkpoint_config *c = &r->config->checkpoint;

    *own = c->save && !r->config->train.skip_train && speaks(r) &&
           mds_path_is_same(c->load, c->save);
    return mds_comm_broadcast(world_of(r), own, sizeof *own, 0);
}

/* *iteration: of --load; then that of the newest checkpoint of --save, if this run goes
 * on from there, or -1. */
static enum mds_rc look_own(const struct run *r, int64_t *iteration)
{
    const char *load = r->config->checkpoint.load;
    char path[MDS_PATH_SIZE];

    if (*iteration == ITSELF)
        return mds_run_find_own(r, load, iteration);
    MDS_TRY(mds_ckpt_path(load, *iteration, 0, path));
    return mds_run_find_own(r, path, iteration);
}

/* Whether what was loaded, not by going on, is of --save all the same: --load is that
 * folder, or the one in it.  For rank 0. */
static int is_of_save(const struct run *r, int own, int itself)
{
    const struct mds_checkpoint_config *c = &r->config->checkpoint;
    char path[MDS_PATH_SIZE];

    if (!c->save || c->finetune)
        return 0;
    if (!itself)
        return own;
    return !mds_ckpt_path(c->save, r->iteration, 0, path) &&
           mds_path_is_same(c->load, path);
}

enum mds_rc mds_run_begin(struct run *r)
{
    const struct mds_checkpoint_config *c = &r->config->checkpoint;
    int64_t iteration = -1, newest;
    int other, own;

    if (!c->load) {
        MDS_TRY(speaks(r) ? mds_run_find_own(r, NULL, &newest) : MDS_OK);
        return mds_run_start_weights(r);
    }
    r->load = c->load;
    MDS_TRY(ask_own(r, &own));
    MDS_TRY(find(r, look_latest, &iteration));
    if (iteration == -1)
        return begin_chain(r, own);
    newest = iteration;
    MDS_TRY(find(r, look_own, &newest));
    if (newest >= 0) {
        r->load = c->save;
        iteration = newest;
    }
    MDS_TRY(iteration == ITSELF ? load(r, c->load, &other) : load_newest(r, iteration));
    if (speaks(r) && (goes_on(r) || is_of_save(r, own, iteration == ITSELF)))
        r->from = r->iteration;
    if ((goes_on(r) || own) && r->iteration == iteration)
        r->saved = r->iteration;
    return MDS_OK;
}

enum mds_rc mds_run_go_back(struct run *r, int64_t *iteration)
{
    char path[MDS_PATH_SIZE];
    int other;

    *iteration = -1;
    MDS_TRY(find(r, mds_run_good, iteration));
    if (*iteration < 0)
        return MDS_OK;
    MDS_TRY(mds_ckpt_path(r->config->checkpoint.save, *iteration, 0, path));
    MDS_TRY(load_parts(r, path, (struct taking){.moments = 1, .place = 1}, &other));
    r->saved = *iteration;
    return MDS_OK;
}
