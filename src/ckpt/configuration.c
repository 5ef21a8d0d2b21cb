/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/configuration.h"
#include "ckpt/index.h"
#include "ckpt/lineage.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static enum mds_rc read_configuration(const char *path, char **text)
{
    char *provenance = NULL;

    MDS_TRY(mds_ckpt_index_texts(path, text, &provenance));
    free(provenance);
    return MDS_OK;
}

static enum mds_rc read_newest_readable(const char *dir, char name[MDS_PATH_SIZE],
                                        char **text)
{
    int64_t iteration;
    enum mds_rc rc;

    MDS_TRY(mds_ckpt_latest(dir, &iteration));
    for (rc = MDS_OK; iteration >= 0;) {
        MDS_TRY(mds_ckpt_path(dir, iteration, 0, name));
        rc = read_configuration(name, text);
        if (!rc || rc == MDS_EMEM)
            return rc;
        MDS_TRY(mds_ckpt_previous(dir, iteration, &iteration));
    }
    return rc;
}

enum mds_rc mds_ckpt_find_configuration(const struct mds_config *c,
                                        char name[MDS_PATH_SIZE], char **text)
{
    const struct mds_model_config *m = &c->model;
    int has_shape = m->layers && m->hidden && m->heads;
    const char *load;
    struct stat st;
    enum mds_rc rc;

    *text = NULL;
    MDS_TRY(mds_ckpt_find_start(c, &load));
    if (!load)
        return MDS_OK;
    MDS_TRY(mds_ckpt_file(load, -1, name));
    if (stat(name, &st) == 0) {
        snprintf(name, MDS_PATH_SIZE, "%s", load);
        rc = read_configuration(load, text);
    } else {
        rc = read_newest_readable(load, name, text);
    }
    return rc == MDS_EMEM || !has_shape ? rc : MDS_OK;
}

enum mds_rc mds_ckpt_find_progress(const struct mds_config *c, struct mds_extent *done)
{
    char name[MDS_PATH_SIZE], *text;
    struct mds_ckpt_state s;
    const char *folder;
    int64_t save;

    *done = (struct mds_extent){{0}};
    MDS_TRY(mds_ckpt_find_start(c, &folder));
    if (c->checkpoint.finetune && folder == c->checkpoint.load)
        return MDS_OK;
    MDS_TRY(mds_ckpt_find_configuration(c, name, &text));
    if (!text)
        return MDS_OK;
    free(text);
    MDS_TRY(mds_ckpt_state_read(name, &s, &save));
    *done = (struct mds_extent){{s.iteration, s.samples, s.tokens}};
    return MDS_OK;
}

enum mds_rc mds_ckpt_inherit_model(struct mds_config_run *run, struct mds_diag *diag)
{
    char name[MDS_PATH_SIZE], *text;
    enum mds_rc rc = MDS_OK;

    MDS_TRY(mds_ckpt_find_configuration(&run->config, name, &text));
    if (text)
        rc = mds_config_inherit_model(run, text, name, diag);
    free(text);
    return rc;
}
