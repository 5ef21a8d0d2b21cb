/* SPDX-License-Identifier: BSD-3-Clause */
/* Which run is in --save: this one, begun by an earlier job of the chain, or another.
 * Each checkpoint says which one its run began with, and what was taken of that. */
#include "base/log.h"
#include "ckpt/agree.h"
#include "ckpt/folder.h"
#include "train/run.h"

#include <inttypes.h>

enum mds_ckpt_begun mds_run_begun_by(const struct run *r)
{
    const struct mds_checkpoint_config *c = &r->config->checkpoint;

    if (c->finetune)
        return MDS_BEGUN_FINETUNE;
    return c->no_load_optim ? MDS_BEGUN_WITHOUT_MOMENTS : MDS_BEGUN_FROM_ALL;
}

/* A --load that was forgotten, or a --save of another run, costs what was saved before.
 */
static void warn_of_others(const struct mds_checkpoint_config *c, int64_t latest)
{
    mds_warn("--save %s has checkpoints up to iteration %" PRId64
             ", and this run begins %s%s and will replace them: --load %s goes on from "
             "them",
             c->save, latest, c->load ? "from " : "anew", c->load ? c->load : "",
             c->save);
}

static void tell_going_on(const struct run *r, int64_t latest)
{
    static const char *const with[] = {[MDS_BEGUN_FROM_ALL] = "",
                                       [MDS_BEGUN_WITHOUT_MOMENTS] = " --no-load-optim",
                                       [MDS_BEGUN_FINETUNE] = " --finetune"};
    const struct mds_checkpoint_config *c = &r->config->checkpoint;

    mds_info("--save %s has iteration %" PRId64
             " of the run that began with --load %s%s: going on from there; to begin "
             "again give --save another folder",
             c->save, latest, c->load, with[mds_run_begun_by(r)]);
}

/* The newest one of the folder that can be read. */
static enum mds_rc read_newest(const char *dir, int64_t latest,
                               struct mds_ckpt_state *state, int64_t *save)
{
    char path[MDS_PATH_SIZE];
    enum mds_rc rc;

    while (latest >= 0) {
        MDS_TRY(mds_ckpt_path(dir, latest, 0, path));
        rc = mds_ckpt_state_read(path, state, save);
        if (!mds_ckpt_is_of_files(rc))
            return rc;
        MDS_TRY(mds_ckpt_before(dir, latest, &latest));
    }
    *state = (struct mds_ckpt_state){0};
    *save = 0;
    return MDS_OK;
}

enum kin {
    OTHER,   /* another run's */
    NAMED,   /* the one that --load names */
    LATER,   /* of the run that began there */
    EARLIER, /* this run begins where that one was, or later */
};

/* What --save's newest checkpoint is to this run, which begins from `path`. */
static enum mds_rc compare(const struct run *r, const char *path, int64_t latest,
                           enum kin *kin)
{
    const struct mds_checkpoint_config *c = &r->config->checkpoint;
    enum mds_ckpt_begun begun = mds_run_begun_by(r);
    int own = mds_path_is_same(c->load, c->save);
    struct mds_ckpt_state named, newest;
    int64_t named_save, newest_save;

    *kin = NAMED;
    if (own && begun == MDS_BEGUN_FROM_ALL)
        return MDS_OK;
    MDS_TRY(mds_ckpt_state_read(path, &named, &named_save));
    MDS_TRY(read_newest(c->save, latest, &newest, &newest_save));
    if (begun == MDS_BEGUN_FROM_ALL && newest_save == named_save)
        *kin = NAMED;
    else if (newest.origin && newest.begun == begun &&
             (own || newest.origin == named_save))
        *kin = LATER;
    else
        *kin =
            begun == MDS_BEGUN_FINETUNE || named.iteration < latest ? OTHER : EARLIER;
    return MDS_OK;
}

enum mds_rc mds_run_find_own(const struct run *r, const char *path, int64_t *newest)
{
    const struct mds_checkpoint_config *c = &r->config->checkpoint;
    int64_t latest = -1;
    enum kin kin = OTHER;
    enum mds_rc rc;

    *newest = -1;
    if (c->save && !r->config->train.skip_train)
        MDS_TRY(mds_ckpt_latest(c->save, &latest));
    if (latest < 0)
        return MDS_OK;
    rc = path ? compare(r, path, latest, &kin) : MDS_OK;
    if (mds_ckpt_is_of_files(rc))
        return MDS_OK; /* loading it will say what is wrong */
    MDS_TRY(rc);
    if (kin == OTHER)
        warn_of_others(c, latest);
    if (kin == LATER)
        tell_going_on(r, latest);
    if (kin == NAMED || kin == LATER)
        *newest = latest;
    return MDS_OK;
}
