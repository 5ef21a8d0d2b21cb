/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds and opens the checkpoint that the user named. */
#include "ckpt/lineage.h"
#include "programs/mds_ckpt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum mds_rc mds_ckpt_input_find(const char *given, char path[MDS_PATH_SIZE])
{
    MDS_TRY(mds_ckpt_find_named(given, path));
    return path[0] ? MDS_OK : mds_fail(MDS_EUSER, "%s: there is no checkpoint", given);
}

enum mds_rc mds_ckpt_input_open(const char *given, struct mds_ckpt_input *out)
{
    char path[MDS_PATH_SIZE];
    struct mds_ckpt_input o = {0};
    enum mds_rc rc;

    MDS_TRY(mds_ckpt_input_find(given, path));
    MDS_TRY(mds_ckpt_index_read(path, &o.ix));
    rc = mds_ckpt_index_check_files(o.ix);
    if (!rc)
        rc = mds_ckpt_reader_create(o.ix, 1, &o.reader);
    if (rc)
        mds_ckpt_input_close(&o);
    else
        *out = o;
    return rc;
}

void mds_ckpt_input_close(struct mds_ckpt_input *o)
{
    mds_ckpt_reader_destroy(o->reader);
    mds_ckpt_index_destroy(o->ix);
}

/* ---- its configuration ---- */

/* What a layout is made of; other settings would make it another run. */
static int is_layout_key(const char *key)
{
    return key &&
           (strncmp(key, "parallel.", 9) == 0 || strncmp(key, "batch.", 6) == 0 ||
            strcmp(key, "model.vocab_divisor") == 0 ||
            strcmp(key, "train.dry_world") == 0);
}

static enum mds_rc check_layout_options(const struct mds_settings *s)
{
    if (s->action)
        return mds_fail(MDS_EUSER, "options that only print, such as --show-config, do "
                                   "not concern the layout: leave it out");
    for (size_t i = 0; i < s->rows; i++)
        if (s->of[i].level == MDS_LEVEL_CLI && !is_layout_key(s->set->options[i].key))
            return mds_fail(
                MDS_EUSER,
                "%s does not concern the layout: give it to the run that resumes",
                s->of[i].spelled);
    return MDS_OK;
}

static enum mds_rc resolve_layout(struct mds_config_run *run, int64_t words,
                                  struct mds_diag *diag)
{
    MDS_TRY(check_layout_options(&run->settings));
    MDS_TRY(mds_config_resolve(run, mds_config_world(run), diag));
    mds_diag_log(diag);
    run->config.train.dry_world = 0; /* it was for this, and no setting of a run */
    return mds_config_set_vocab(run, words);
}

enum mds_rc mds_layout_read(const char *text, const char *name, int argc,
                            char *const *argv, int64_t words,
                            struct mds_config_run **out)
{
    struct mds_config_run *run = NULL;
    struct mds_diag diag = {0};
    enum mds_rc rc = mds_config_read_saved(text, name, argc, argv, &diag, &run);

    if (!rc)
        rc = resolve_layout(run, words, &diag);
    mds_diag_fini(&diag);
    if (rc)
        mds_config_run_destroy(run);
    else
        *out = run;
    return rc;
}

enum mds_rc mds_ckpt_input_config(const struct mds_ckpt_input *o, int argc,
                                  char *const *argv, struct mds_config_run **out)
{
    char *configuration, *provenance;
    enum mds_rc rc;

    MDS_TRY(mds_ckpt_index_texts(o->ix->path, &configuration, &provenance));
    rc = mds_layout_read(configuration, o->ix->path, argc, argv, o->ix->state.vocab,
                         out);
    free(configuration);
    free(provenance);
    return rc;
}
