/* SPDX-License-Identifier: BSD-3-Clause */
/* mds_ckpt import: a model of transformers' as the checkpoint of a run before step 1.
 */
#include "base/str.h"
#include "ckpt/hf.h"
#include "engine/engine.h"
#include "programs/mds_ckpt.h"

#include <stdio.h>
#include <string.h>

struct source {
    const struct mds_hf_weights *weights;
    uint64_t seed;
};

/* Moments begin at 0. */
static enum mds_rc fill_from_hf(void *ctx, const struct mds_params *local,
                                enum mds_ckpt_what what, int unit, int64_t first,
                                int64_t n, float *out)
{
    const struct source *s = ctx;

    if (what == MDS_CKPT_WEIGHT)
        mds_hf_weights_fill(s->weights, local, s->seed, unit, first, n, out);
    else
        memset(out, 0, (size_t)n * sizeof *out);
    return MDS_OK;
}

static enum mds_rc write_checkpoint(struct mds_config_run *run,
                                    const struct mds_hf_weights *w,
                                    const struct mds_hf_source *from, const char *dir,
                                    const char *folder,
                                    const struct mds_ckpt_options *options)
{
    struct source s = {w, (uint64_t)run->config.train.seed};
    const struct mds_make_source source = {&s, fill_from_hf};
    const struct mds_ckpt_state state = {.loss_scale = 1};
    struct mds_str origin = {0};
    enum mds_rc rc = MDS_EMEM;

    mds_str_add(&origin, "made from: %s (%s)\n", dir, mds_hf_name(from->kind));
    if (!origin.failed)
        rc = mds_checkpoint_make(run, folder, options, &state, NULL, origin.s, &source);
    mds_str_fini(&origin);
    return rc;
}

static enum mds_rc import_weights(struct mds_config_run *run,
                                  const struct mds_hf_source *from, const char *dir,
                                  const char *folder,
                                  const struct mds_ckpt_options *options)
{
    struct mds_hf_weights *w;
    struct mds_params *whole;
    enum mds_rc rc;

    MDS_TRY(mds_engine_whole_params(&run->config, &whole));
    rc = mds_hf_weights_open(dir, from, &run->config.model, whole, &w);
    if (!rc) {
        rc = write_checkpoint(run, w, from, dir, folder, options);
        mds_hf_weights_close(w);
    }
    mds_params_destroy(whole);
    return rc;
}

enum mds_rc mds_ckpt_run_import(const struct mds_invocation *c)
{
    struct mds_str settings = {0};
    struct mds_config_run *run;
    char path[MDS_PATH_SIZE], name[MDS_PATH_SIZE + 16];
    struct mds_hf_source from;
    enum mds_rc rc;

    if (mds_invocation_name_count(c) < 2)
        return mds_fail(MDS_EUSER, "import: give the folder of a model and one for the "
                                   "checkpoint, then the layout");
    MDS_TRY(mds_path_join(c->operand[0], "config.json", path));
    snprintf(name, sizeof name, "import of %s", c->operand[0]);
    rc = mds_hf_get_config(path, &from, &settings);
    if (!rc)
        rc = mds_layout_read(settings.s, name, (int)c->operand_count - 1,
                             c->operand + 1, 0, &run);
    mds_str_fini(&settings);
    if (rc)
        return rc;
    rc = import_weights(run, &from, c->operand[0], c->operand[1], mds_ckpt_options(c));
    mds_config_run_destroy(run);
    return rc;
}
