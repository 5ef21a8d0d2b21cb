/* SPDX-License-Identifier: BSD-3-Clause */
/* mds_ckpt reshard: the same state in another layout. */
#include "base/str.h"
#include "engine/engine.h"
#include "programs/mds_ckpt.h"

#include <stdlib.h>
#include <string.h>

struct source {
    struct mds_ckpt_reader *reader;
    uint64_t seed;
};

static enum mds_rc read_resharded_values(void *ctx, const struct mds_params *local,
                                         enum mds_ckpt_what what, int unit,
                                         int64_t first, int64_t n, float *out)
{
    struct source *s = ctx;

    return mds_ckpt_reader_fill(s->reader, local, s->seed, what, unit, first, n, out);
}

/* What is known of the checkpoint it is made from, indented. */
static enum mds_rc describe_origin(const struct mds_ckpt_index *ix, struct mds_str *out)
{
    char *configuration, *provenance;

    MDS_TRY(mds_ckpt_index_texts(ix->path, &configuration, &provenance));
    mds_str_add(out, "made from: %s\n", ix->path);
    for (const char *p = provenance; *p;) {
        size_t n = strcspn(p, "\n");

        mds_str_add(out, "  %.*s\n", (int)n, p);
        p += n + (p[n] == '\n');
    }
    free(configuration);
    free(provenance);
    return out->failed ? MDS_EMEM : MDS_OK;
}

static enum mds_rc check_model(const struct mds_ckpt_input *o,
                               const struct mds_config *c)
{
    struct mds_params *whole;
    enum mds_rc rc;

    MDS_TRY(mds_engine_whole_params(c, &whole));
    rc =
        mds_ckpt_index_check_model(o->ix, whole, c->model.vocab, c->model.padded_vocab);
    mds_params_destroy(whole);
    return rc;
}

static enum mds_rc reshard_checkpoint(const struct mds_ckpt_input *o,
                                      struct mds_config_run *run, const char *dir,
                                      const struct mds_ckpt_options *options)
{
    struct source s = {o->reader, (uint64_t)run->config.train.seed};
    const struct mds_make_source source = {&s, read_resharded_values};
    struct mds_str origin = {0};
    char *data = NULL;
    enum mds_rc rc;

    MDS_TRY(check_model(o, &run->config));
    rc = describe_origin(o->ix, &origin);
    if (!rc)
        rc = mds_ckpt_index_data(o->ix->path, &data);
    if (!rc)
        rc = mds_checkpoint_make(run, dir, options, &o->ix->state, data, origin.s,
                                 &source);
    free(data);
    mds_str_fini(&origin);
    return rc;
}

enum mds_rc mds_ckpt_run_reshard(const struct mds_invocation *c)
{
    struct mds_config_run *run;
    struct mds_ckpt_input o;
    enum mds_rc rc;

    if (mds_invocation_name_count(c) < 2)
        return mds_fail(MDS_EUSER, "reshard: give a checkpoint and a folder for the "
                                   "new one, then the layout");
    MDS_TRY(mds_ckpt_input_open(c->operand[0], &o));
    rc = mds_ckpt_input_config(&o, (int)c->operand_count - 1, c->operand + 1, &run);
    if (!rc) {
        rc = reshard_checkpoint(&o, run, c->operand[1], mds_ckpt_options(c));
        mds_config_run_destroy(run);
    }
    mds_ckpt_input_close(&o);
    return rc;
}
