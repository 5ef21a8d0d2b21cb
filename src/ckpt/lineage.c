/* SPDX-License-Identifier: BSD-3-Clause */
/* Which run the checkpoints in --save belong to: this one, started by an earlier job of
 * the chain, or another.  Each checkpoint records which checkpoint its run started from
 * (state.origin) and what it took from it (state.begun). */
#include "ckpt/lineage.h"
#include "base/log.h"
#include "ckpt/error_sync.h"
#include "ckpt/folder.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum mds_ckpt_begun mds_ckpt_start_kind(const struct mds_checkpoint_config *c)
{
    if (c->finetune)
        return MDS_BEGUN_FINETUNE;
    return c->no_load_optim ? MDS_BEGUN_WITHOUT_MOMENTS : MDS_BEGUN_FROM_ALL;
}

enum mds_rc mds_ckpt_refuse_empty(const struct mds_config *c)
{
    int starts = !c->checkpoint.finetune && !c->train.skip_train;

    return mds_fail(MDS_EUSER, "--load %s: there is no checkpoint; %s",
                    c->checkpoint.load,
                    starts ? "to start a new run, leave --load out or give --save the "
                             "same folder"
                           : "give a folder that --save wrote, or one of the "
                             "checkpoints in it");
}

/* Whether the user named one of --save's own checkpoints, to go back to. */
static int goes_back(const struct mds_checkpoint_config *c, const char *path)
{
    char folder[MDS_PATH_SIZE];
    const char *slash = path ? strrchr(path, '/') : NULL;

    if (!slash || mds_ckpt_start_kind(c) == MDS_BEGUN_FINETUNE)
        return 0;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    return mds_path_is_same(folder, c->save);
}

/* With --load forgotten, or --save of another run, earlier checkpoints would be lost.
 */
static enum mds_rc check_replaced(const struct mds_config *config, const char *path,
                                  int64_t latest)
{
    const struct mds_checkpoint_config *c = &config->checkpoint;
    char what[2 * MDS_PATH_SIZE];

    snprintf(what, sizeof what,
             "--save %s has checkpoints up to iteration %" PRId64
             ", and this run starts %s%s",
             c->save, latest, c->load ? "from " : "anew", c->load ? c->load : "");
    if (!config->output.overwrite && !goes_back(c, path))
        return mds_fail(MDS_EUSER,
                        "%s; to continue from them, give --load %s, else another "
                        "--save, or --overwrite to replace them",
                        what, c->save);
    mds_warn("%s and will replace them", what);
    return MDS_OK;
}

static void log_continuation(const struct mds_checkpoint_config *c, int64_t latest)
{
    static const char *const with[] = {[MDS_BEGUN_FROM_ALL] = "",
                                       [MDS_BEGUN_WITHOUT_MOMENTS] = " --no-load-optim",
                                       [MDS_BEGUN_FINETUNE] = " --finetune"};

    mds_info("--save %s has iteration %" PRId64
             " of the run that started with --load %s%s: continuing from there; to "
             "start over, give --save another folder",
             c->save, latest, c->load, with[mds_ckpt_start_kind(c)]);
}

/* State of the newest checkpoint in dir that can be read, from iteration `latest` on
 * downwards; zeros if none can. */
static enum mds_rc read_newest(const char *dir, int64_t latest,
                               struct mds_ckpt_state *state, int64_t *save)
{
    char path[MDS_PATH_SIZE];
    enum mds_rc rc;

    while (latest >= 0) {
        MDS_TRY(mds_ckpt_path(dir, latest, 0, path));
        rc = mds_ckpt_state_read(path, state, save);
        if (!mds_ckpt_is_file_error(rc))
            return rc;
        MDS_TRY(mds_ckpt_previous(dir, latest, &latest));
    }
    *state = (struct mds_ckpt_state){0};
    *save = 0;
    return MDS_OK;
}

enum relation {
    UNRELATED, /* another run's */
    SAME_SAVE, /* the one that --load names */
    CONTINUES, /* of the run that began there */
    EARLIER,   /* this run begins where that one was, or later */
};

/* What --save's newest checkpoint is to this run, which begins from `path`. */
static enum mds_rc compare_origins(const struct mds_checkpoint_config *c,
                                   const char *path, int64_t latest,
                                   enum relation *relation)
{
    enum mds_ckpt_begun begun = mds_ckpt_start_kind(c);
    int own = mds_path_is_same(c->load, c->save);
    struct mds_ckpt_state named, newest;
    int64_t named_save, newest_save;

    *relation = SAME_SAVE;
    if (own && begun == MDS_BEGUN_FROM_ALL)
        return MDS_OK;
    MDS_TRY(mds_ckpt_state_read(path, &named, &named_save));
    MDS_TRY(read_newest(c->save, latest, &newest, &newest_save));
    if (begun == MDS_BEGUN_FROM_ALL && newest_save == named_save)
        *relation = SAME_SAVE;
    else if (newest.origin && newest.begun == begun &&
             (own || newest.origin == named_save))
        *relation = CONTINUES;
    else
        *relation = begun == MDS_BEGUN_FINETUNE || named.iteration < latest ? UNRELATED
                                                                            : EARLIER;
    return MDS_OK;
}

enum mds_rc mds_ckpt_find_own(const struct mds_config *config, const char *path,
                              int64_t *newest)
{
    const struct mds_checkpoint_config *c = &config->checkpoint;
    int64_t latest = -1;
    enum relation relation = UNRELATED;
    enum mds_rc rc;

    *newest = -1;
    if (c->save && !config->train.skip_train)
        MDS_TRY(mds_ckpt_latest(c->save, &latest));
    if (latest < 0)
        return MDS_OK;
    rc = path ? compare_origins(c, path, latest, &relation) : MDS_OK;
    if (mds_ckpt_is_file_error(rc))
        return MDS_OK; /* loading it will say what is wrong */
    MDS_TRY(rc);
    if (relation == UNRELATED)
        MDS_TRY(check_replaced(config, path, latest));
    if (relation == CONTINUES)
        log_continuation(c, latest);
    if (relation == SAME_SAVE || relation == CONTINUES)
        *newest = latest;
    return MDS_OK;
}

enum mds_rc mds_ckpt_find_named(const char *load, char path[MDS_PATH_SIZE])
{
    struct stat st;
    int64_t latest;

    MDS_TRY(mds_ckpt_file(load, -1, path));
    if (stat(path, &st) == 0) {
        snprintf(path, MDS_PATH_SIZE, "%s", load);
        return MDS_OK;
    }
    path[0] = '\0';
    MDS_TRY(mds_ckpt_latest(load, &latest));
    return latest < 0 ? MDS_OK : mds_ckpt_path(load, latest, 0, path);
}

enum mds_rc mds_ckpt_find_start(const struct mds_config *config, const char **folder)
{
    const struct mds_checkpoint_config *c = &config->checkpoint;
    enum relation relation = UNRELATED;
    char path[MDS_PATH_SIZE];
    int64_t latest;
    enum mds_rc rc;

    *folder = c->load;
    if (!c->load || !c->save || config->train.skip_train)
        return MDS_OK;
    MDS_TRY(mds_ckpt_latest(c->save, &latest));
    MDS_TRY(mds_ckpt_find_named(c->load, path));
    if (latest < 0 || !path[0])
        return MDS_OK;
    rc = compare_origins(c, path, latest, &relation);
    if (relation == CONTINUES)
        *folder = c->save;
    return mds_ckpt_is_file_error(rc) ? MDS_OK : rc;
}
