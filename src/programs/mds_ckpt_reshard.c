/* mds_ckpt reshard: the same state in another layout. */
#include "base/str.h"
#include "engine/engine.h"
#include "parallel/groups.h"
#include "programs/mds_ckpt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- its ranks ---- */

struct cast {
    const struct mds_config *config;
    struct mds_ckpt_reader *reader;
    int64_t ranks;
    struct mds_groups groups;
    struct mds_params *local;
};

static void share(void *ctx, int unit, int64_t *first, int64_t *n)
{
    const struct cast *c = ctx;

    mds_comm_slice(mds_params_unit(c->local, unit)->count,
                   mds_comm_size(c->groups.data), mds_comm_rank(c->groups.data), first,
                   n);
}

static enum mds_rc read_values(void *ctx, enum mds_ckpt_what what, int unit,
                               int64_t first, int64_t n, float *out)
{
    const struct cast *c = ctx;

    return mds_ckpt_reader_fill(c->reader, c->local, (uint64_t)c->config->train.seed,
                                what, unit, first, n, out);
}

static void leave_rank(struct cast *c)
{
    mds_params_destroy(c->local);
    c->local = NULL;
    mds_groups_fini(&c->groups);
    c->groups = (struct mds_groups){0};
}

static enum mds_rc play(void *ctx, int64_t rank, const struct mds_params **local,
                        struct mds_ckpt_source *source)
{
    struct cast *c = ctx;

    leave_rank(c);
    MDS_TRY(mds_groups_create(&c->config->parallel, (int)c->ranks, (int)rank, NULL,
                              &c->groups));
    MDS_TRY(mds_engine_rank_params(c->config, &c->groups, &c->local));
    *local = c->local;
    *source = (struct mds_ckpt_source){c, share, read_values};
    return MDS_OK;
}

/* ---- all together ---- */

/* What is known of the checkpoint it is made from, indented. */
static enum mds_rc origin_of(const struct mds_ckpt_index *ix, struct mds_str *out)
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

static enum mds_rc check_model(const struct mds_opened *o, const struct mds_config *c)
{
    struct mds_params *whole;
    enum mds_rc rc;

    MDS_TRY(mds_engine_whole_params(c, &whole));
    rc =
        mds_ckpt_index_check_model(o->ix, whole, c->model.vocab, c->model.padded_vocab);
    mds_params_destroy(whole);
    return rc;
}

static enum mds_rc reshard(const struct mds_opened *o, struct mds_config_run *run,
                           const char *dir)
{
    struct cast c = {.config = &run->config, .reader = o->reader, .ranks = run->world};
    struct mds_ckpt_cast cast = {&c, run->world, play};
    struct mds_str origin = {0};
    enum mds_rc rc;

    MDS_TRY(check_model(o, &run->config));
    rc = origin_of(o->ix, &origin);
    if (!rc)
        rc = mds_checkpoint_make(run, dir, &o->ix->state, origin.s, &cast);
    leave_rank(&c);
    mds_str_fini(&origin);
    return rc;
}

enum mds_rc mds_verb_reshard(const struct mds_arguments *a, int n, char **operand)
{
    struct mds_config_run *run;
    struct mds_opened o;
    enum mds_rc rc;

    (void)a;
    if (n < 2 || operand[0][0] == '-' || operand[1][0] == '-')
        return mds_fail(MDS_EUSER, "reshard: give a checkpoint and a folder for the "
                                   "new one, then the layout");
    MDS_TRY(mds_opened_open(operand[0], &o));
    rc = mds_opened_config(&o, n - 1, operand + 1, &run);
    if (!rc) {
        rc = reshard(&o, run, operand[1]);
        mds_config_run_destroy(run);
    }
    mds_opened_close(&o);
    return rc;
}
