/* SPDX-License-Identifier: BSD-3-Clause */
/* Resuming from a checkpoint: which one to load, and what to do if it is damaged. */
#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/units.h"
#include "ckpt/error_sync.h"
#include "ckpt/fit.h"
#include "ckpt/folder.h"
#include "ckpt/lineage.h"
#include "ckpt/reader.h"
#include "config/options.h"
#include "config/tree.h"
#include "train/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct fill_context {
    struct mds_ckpt_reader *reader;
    const struct mds_params *local;
    uint64_t seed;
};

static enum mds_rc fill_from_checkpoint(void *ctx, enum mds_zero_what what, int unit,
                                        int64_t first, int64_t n, float *out)
{
    const struct fill_context *f = ctx;
    enum mds_ckpt_what kind = what == MDS_ZERO_M   ? MDS_CKPT_M
                              : what == MDS_ZERO_V ? MDS_CKPT_V
                                                   : MDS_CKPT_WEIGHT;

    return mds_ckpt_reader_fill(f->reader, f->local, f->seed, kind, unit, first, n,
                                out);
}

/* Iteration, data position and loss scale; the weights are loaded already. */
static void restore_state(struct run *r, const struct mds_ckpt_state *s)
{
    const struct mds_loss_scale scale = {.scale = s->loss_scale,
                                         .dynamic = (int)s->scale_dynamic,
                                         .good = s->scale_good,
                                         .left = mds_max(s->scale_left, 0)};

    r->iteration = s->iteration;
    r->samples = s->samples;
    r->tokens = s->tokens;
    mds_engine_resume_loss_scale(r->engine, &scale);
}

/* What to restore of a checkpoint besides the weights. */
struct restore {
    int moments, position;
    int data;   /* also go on in the files of the data where it stands */
    int origin; /* also record which checkpoint this run started from, and its words */
};

/* Whether the run continues from a checkpoint of its own (of an earlier job). */
static int continues_own_run(const struct run *r)
{
    return r->load && r->load == r->config->checkpoint.save;
}

static void set_origin(struct run *r, const struct mds_ckpt_index *ix)
{
    if (r->config->model.vocab == ix->state.vocab &&
        !r->config->checkpoint.override_model) {
        r->tokenizer = ix->state.tokenizer;
        r->eod = ix->state.eod;
    }
    r->origin = continues_own_run(r) ? ix->state.origin : ix->save;
    r->begun = continues_own_run(r) ? ix->state.begun
                                    : mds_ckpt_start_kind(&r->config->checkpoint);
}

static enum mds_rc load_values(struct run *r, const struct mds_ckpt_index *ix,
                               int moments)
{
    struct mds_zero *zero = mds_engine_zero(r->engine);
    struct fill_context f = {.local = mds_engine_params(r->engine),
                             .seed = (uint64_t)r->config->train.seed};
    int alone =
        mds_zero_is_sharded(zero) || mds_groups_size(&r->groups, MDS_AXES_TOKENS) == 1;
    enum mds_rc rc;

    MDS_TRY(mds_ckpt_reader_create(ix, alone, &f.reader));
    mds_ckpt_reader_resize(f.reader, r->config->model.vocab,
                           (enum mds_resize)r->config->checkpoint.resize_vocab);
    rc = mds_zero_load(zero, fill_from_checkpoint, &f, moments ? ix->state.updates : 0);
    mds_ckpt_reader_destroy(f.reader);
    MDS_TRY(rc);
    return mds_engine_set_expert_bias(r->engine, ix->state.expert_bias,
                                      ix->state.expert_biases);
}

/* Read and check the index; rank 0 only.  *other_model: it is intact, but belongs to
 * another model. */
static enum mds_rc open_index(const struct run *r, const char *path,
                              struct mds_ckpt_index **ix, int *other_model)
{
    const struct mds_model_config *m = &r->config->model;
    const struct mds_ckpt_run run = {r->config, r->spec->configuration};
    struct mds_params *whole = NULL;
    enum mds_rc rc;

    MDS_TRY(mds_ckpt_index_read(path, ix));
    MDS_TRY(mds_ckpt_index_check_files(*ix));
    MDS_TRY(mds_ckpt_check_options(path, &run, other_model));
    MDS_TRY(mds_engine_whole_params(r->config, &whole));
    rc = mds_tokenizer_check(path, (*ix)->state.tokenizer,
                             mds_dataset_vocabulary(r->spec->data).tokenizer,
                             r->config->checkpoint.override_model);
    if (!rc)
        rc = mds_ckpt_check_vocabulary(path, (*ix)->state.vocab, r->config);
    if (!rc)
        rc = mds_ckpt_index_check_model(*ix, whole, m->vocab, m->padded_vocab);
    *other_model = rc == MDS_EUSER;
    mds_params_destroy(whole);
    return rc;
}

/* Copy a setting of the run that saved it, such as batch.global, from its
 * configuration; "" if unknown. */
static void saved_setting(const struct mds_ckpt_index *ix, const char *map,
                          const char *key, char *out, size_t size)
{
    char *configuration, *provenance;
    struct mds_tree *tree = NULL;
    const struct mds_node *node;

    out[0] = '\0';
    if (mds_ckpt_index_texts(ix->path, &configuration, &provenance))
        return;
    if (!mds_tree_parse(configuration, strlen(configuration), ix->path, &tree)) {
        node = mds_node_get(mds_node_get(tree->root, map), key);
        snprintf(out, size, "%s", node && node->text ? node->text : "");
    }
    mds_tree_destroy(tree);
    free(configuration);
    free(provenance);
}

/* Moments of one optimizer mean nothing to another.  Runs that did not say which had
 * AdamW. */
static int has_moments_for(const struct run *r, const struct mds_ckpt_index *ix)
{
    int muon = r->config->optim.kind == MDS_MUON;
    char kind[32];

    saved_setting(ix, "optim", "kind", kind, sizeof kind);
    if (muon == (strcmp(kind, "muon") == 0))
        return 1;
    mds_info("%s was saved with %s: its moments are not used, and start at 0", ix->path,
             muon ? "AdamW" : "Muon");
    return 0;
}

/* Without --global-batch-size, another number of ranks changes the batch. */
static void log_batch_change(const struct run *r, const struct mds_ckpt_index *ix)
{
    int64_t before, now = r->config->batch.global;
    char text[32];

    saved_setting(ix, "batch", "global", text, sizeof text);
    before = strtoll(text, NULL, 10);
    if (ix->state.iteration > 0 && before > 0 && before != now)
        mds_info("a step had %" PRId64 " sequence%s before, and has %" PRId64
                 " now; --global-batch-size sets it",
                 before, mds_plural(before), now);
}

/* Rank 0 only.  *other: the checkpoint is intact, but the data are others. */
static enum mds_rc resume_data(const struct run *r, const struct mds_ckpt_index *ix,
                               int *other)
{
    char *text;
    enum mds_rc rc;

    MDS_TRY(mds_ckpt_index_data(ix->path, &text));
    rc = mds_dataset_resume(r->spec->data, text, ix->path, ix->state.samples);
    free(text);
    *other = rc == MDS_EUSER;
    return rc;
}

static enum mds_rc broadcast_data_order(const struct run *r)
{
    int64_t bytes;
    void *order = mds_dataset_order(r->spec->data, &bytes);

    return mds_comm_broadcast(world_of(r), order, bytes, 0);
}

/* *other_model, on all ranks: path belongs to another model or to other data; so will
 * earlier ones. */
static enum mds_rc load_checkpoint(struct run *r, const char *path, struct restore what,
                                   int *other_model)
{
    struct mds_ckpt_index *ix = NULL;
    double begin = mds_clock_s();
    enum mds_rc rc;

    *other_model = 0;
    rc = is_rank0(r) ? open_index(r, path, &ix, other_model) : MDS_OK;
    if (is_rank0(r) && !rc && what.moments)
        what.moments = has_moments_for(r, ix);
    if (is_rank0(r) && !rc && what.data)
        rc = resume_data(r, ix, other_model);
    rc = mds_ckpt_sync_error(world_of(r), rc);
    if (mds_ckpt_is_file_error(rc))
        MDS_TRY(mds_comm_broadcast(world_of(r), other_model, sizeof *other_model, 0));
    if (!rc)
        rc = mds_ckpt_index_broadcast(world_of(r), &ix);
    if (!rc)
        rc = mds_comm_broadcast(world_of(r), &what.moments, sizeof what.moments, 0);
    if (!rc && what.data)
        rc = broadcast_data_order(r);
    if (!rc)
        rc = mds_ckpt_sync_error(world_of(r), load_values(r, ix, what.moments));
    if (!rc && what.position)
        restore_state(r, &ix->state);
    if (!rc && what.origin)
        set_origin(r, ix);
    if (!rc && is_rank0(r))
        mds_info("loaded %s (iteration %" PRId64 ") in %.2f s", path,
                 ix->state.iteration, mds_clock_s() - begin);
    if (!rc && is_rank0(r) && what.position && !r->config->train.skip_train)
        log_batch_change(r, ix);
    mds_ckpt_index_destroy(ix);
    return rc;
}

static enum mds_rc load_as_asked(struct run *r, const char *path, int *other_model)
{
    enum mds_ckpt_begun begun = continues_own_run(r)
                                    ? MDS_BEGUN_FROM_ALL
                                    : mds_ckpt_start_kind(&r->config->checkpoint);
    struct restore what = {
        .moments = begun == MDS_BEGUN_FROM_ALL && !r->config->train.skip_train,
        .position = begun != MDS_BEGUN_FINETUNE,
        .data = begun != MDS_BEGUN_FINETUNE && !r->config->train.skip_train,
        .origin = 1};

    return load_checkpoint(r, path, what, other_model);
}

/* ---- which one ---- */

/* In place of an iteration: --load is the folder of one checkpoint itself. */
enum { LOAD_IS_CHECKPOINT = -2 };

static enum mds_rc find_latest(const struct run *r, int64_t *iteration)
{
    const char *load = r->config->checkpoint.load;
    char index[MDS_PATH_SIZE];
    struct stat st;

    MDS_TRY(mds_ckpt_file(load, -1, index));
    if (stat(index, &st))
        return mds_ckpt_latest(load, iteration);
    *iteration = LOAD_IS_CHECKPOINT;
    return MDS_OK;
}

static enum mds_rc find_previous(const struct run *r, int64_t *iteration)
{
    return mds_ckpt_previous(r->load, *iteration, iteration);
}

enum mds_rc mds_run_last_good(const struct run *r, int64_t *iteration)
{
    MDS_TRY(mds_ckpt_good(r->config->checkpoint.save, iteration));
    if (*iteration > r->from)
        *iteration = -1;
    return MDS_OK;
}

/* Look on rank 0 and broadcast the iteration; -1 if there is none. */
static enum mds_rc find_on_rank0(const struct run *r,
                                 enum mds_rc (*look)(const struct run *r,
                                                     int64_t *iteration),
                                 int64_t *iteration)
{
    enum mds_rc rc = is_rank0(r) ? look(r, iteration) : MDS_OK;

    MDS_TRY(mds_ckpt_sync_error(world_of(r), rc));
    return mds_comm_broadcast(world_of(r), iteration, sizeof *iteration, 0);
}

/* Load the newest; with --load-fallback, the newest that is intact.  The error message
 * says what is wrong with the last one tried. */
static enum mds_rc load_newest(struct run *r, int64_t iteration)
{
    const struct mds_checkpoint_config *c = &r->config->checkpoint;
    char path[MDS_PATH_SIZE], why[2048];
    enum mds_rc rc;
    int other_model;

    for (;;) {
        MDS_TRY(mds_ckpt_path(r->load, iteration, 0, path));
        rc = load_as_asked(r, path, &other_model);
        if (!mds_ckpt_is_file_error(rc) || other_model)
            return rc;
        snprintf(why, sizeof why, "%s", mds_fail_text());
        MDS_TRY(find_on_rank0(r, find_previous, &iteration));
        if (iteration < 0)
            return mds_fail(rc, "%s; there is no checkpoint before it", why);
        MDS_TRY(mds_ckpt_path(r->load, iteration, 0, path));
        if (!c->load_fallback)
            return mds_fail(rc, "%s; the one before is %s, and --load-fallback uses it",
                            why, path);
        if (is_rank0(r))
            mds_warn("%s; trying %s", why, path);
    }
}

static enum mds_rc start_first_job(struct run *r, int same_folder)
{
    const struct mds_checkpoint_config *c = &r->config->checkpoint;

    if (c->finetune || !same_folder)
        return mds_ckpt_refuse_empty(r->config);
    if (is_rank0(r))
        mds_info("no checkpoint in %s yet: starting a new run", c->load);
    return mds_run_start_weights(r);
}

/* Whether --load and --save are the same folder, which exists by now; as rank 0 sees
 * it.  Collective. */
static enum mds_rc saves_where_it_loads(const struct run *r, int *same_folder)
{
    const struct mds_checkpoint_config *c = &r->config->checkpoint;

    *same_folder = c->save && !r->config->train.skip_train && is_rank0(r) &&
                   mds_path_is_same(c->load, c->save);
    return mds_comm_broadcast(world_of(r), same_folder, sizeof *same_folder, 0);
}

/* *iteration: in, the one that --load names; out, the newest one in --save if this run
 * continues from there, else -1. */
static enum mds_rc find_newest_own(const struct run *r, int64_t *iteration)
{
    const char *load = r->config->checkpoint.load;
    char path[MDS_PATH_SIZE];

    if (*iteration == LOAD_IS_CHECKPOINT)
        return mds_ckpt_find_own(r->config, load, iteration);
    MDS_TRY(mds_ckpt_path(load, *iteration, 0, path));
    return mds_ckpt_find_own(r->config, path, iteration);
}

static enum mds_rc find_evaluated(const struct run *r, int64_t *iteration)
{
    return mds_ckpt_evaluated(r->load, iteration);
}

static enum mds_rc look_into_save_folder(const struct run *r, int64_t *newest)
{
    return mds_ckpt_find_own(r->config, NULL, newest);
}

/* Whether a checkpoint that was loaded without continuing its run is nevertheless one
 * in --save: --load is that folder or a checkpoint in it.  Rank 0 only. */
static int loaded_from_save_folder(const struct run *r, int same_folder, int itself)
{
    const struct mds_checkpoint_config *c = &r->config->checkpoint;
    char path[MDS_PATH_SIZE];

    if (!c->save || c->finetune)
        return 0;
    if (!itself)
        return same_folder;
    return !mds_ckpt_path(c->save, r->iteration, 0, path) &&
           mds_path_is_same(c->load, path);
}

enum mds_rc mds_run_load_or_start(struct run *r)
{
    const struct mds_checkpoint_config *c = &r->config->checkpoint;
    int64_t iteration = -1, newest = -1;
    int other_model, same_folder;

    if (!c->load) {
        MDS_TRY(find_on_rank0(r, look_into_save_folder, &newest));
        return mds_run_start_weights(r);
    }
    r->load = c->load;
    MDS_TRY(saves_where_it_loads(r, &same_folder));
    MDS_TRY(find_on_rank0(r, find_latest, &iteration));
    if (iteration == -1)
        return start_first_job(r, same_folder);
    newest = iteration;
    MDS_TRY(find_on_rank0(r, find_newest_own, &newest));
    if (newest >= 0) {
        r->load = c->save;
        iteration = newest;
    }
    MDS_TRY(iteration == LOAD_IS_CHECKPOINT ? load_as_asked(r, c->load, &other_model)
                                            : load_newest(r, iteration));
    if (is_rank0(r) &&
        (continues_own_run(r) ||
         loaded_from_save_folder(r, same_folder, iteration == LOAD_IS_CHECKPOINT)))
        r->from = r->iteration;
    if ((continues_own_run(r) || same_folder) && r->iteration == iteration) {
        r->saved = r->iteration;
        MDS_TRY(find_on_rank0(r, find_evaluated, &r->evaluated));
    }
    return MDS_OK;
}

enum mds_rc mds_run_roll_back(struct run *r, int64_t *iteration)
{
    char path[MDS_PATH_SIZE];
    int other_model;

    *iteration = -1;
    MDS_TRY(find_on_rank0(r, mds_run_last_good, iteration));
    if (*iteration < 0)
        return MDS_OK;
    MDS_TRY(mds_ckpt_path(r->config->checkpoint.save, *iteration, 0, path));
    MDS_TRY(load_checkpoint(r, path, (struct restore){.moments = 1, .position = 1},
                            &other_model));
    r->saved = *iteration;
    return MDS_OK;
}
