/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes a checkpoint without running the program. */
#include "base/alloc.h"
#include "base/host.h"
#include "base/str.h"
#include "base/units.h"
#include "ckpt/provenance.h"
#include "config.h"
#include "engine/engine.h"
#include "io/folder.h"
#include "parallel/groups.h"
#include "programs/mds_ckpt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* ---- the ranks of a layout, one after the other ---- */

struct serial_ranks {
    const struct mds_config *config;
    const struct mds_make_source *source;
    int64_t ranks;
    struct mds_groups groups;
    struct mds_params *local;
};

static void owned_elements(void *ctx, int unit, int64_t *first, int64_t *n)
{
    const struct serial_ranks *c = ctx;
    unsigned axes = mds_params_sum_axes(c->local, unit);

    mds_comm_shard(mds_params_unit(c->local, unit)->count,
                   mds_groups_size(&c->groups, axes), mds_groups_rank(&c->groups, axes),
                   first, n);
}

static enum mds_rc read_values(void *ctx, enum mds_ckpt_what what, int unit,
                               int64_t first, int64_t n, float *out)
{
    const struct serial_ranks *c = ctx;

    return c->source->fill(c->source->ctx, c->local, what, unit, first, n, out);
}

static void destroy_rank(struct serial_ranks *c)
{
    mds_params_destroy(c->local);
    c->local = NULL;
    mds_groups_fini(&c->groups);
    c->groups = (struct mds_groups){0};
}

static enum mds_rc create_rank(void *ctx, int64_t rank, const struct mds_params **local,
                               struct mds_ckpt_source *source)
{
    struct serial_ranks *c = ctx;

    destroy_rank(c);
    MDS_TRY(mds_groups_create(&c->config->parallel, (int)c->ranks, (int)rank, NULL,
                              &c->groups));
    MDS_TRY(mds_engine_rank_params(c->config, &c->groups, &c->local));
    *local = c->local;
    *source = (struct mds_ckpt_source){c, owned_elements, read_values};
    return MDS_OK;
}

/* ---- the checkpoint ---- */

/* *latest: what the folder's `latest` names, or -1. */
static enum mds_rc check_output_folder(const char *dir, int64_t iteration,
                                       const struct mds_ckpt_options *options,
                                       int64_t *latest)
{
    char path[MDS_PATH_SIZE];
    struct stat st;

    MDS_TRY(mds_ckpt_path(dir, iteration, 0, path));
    if (!options->overwrite && lstat(path, &st) == 0)
        return mds_fail(MDS_EUSER,
                        "%s: exists already; give another folder, or --overwrite to "
                        "replace it",
                        path);
    MDS_TRY(mds_folder_ensure(dir)); /* says so if it is a file */
    MDS_TRY(mds_ckpt_latest(dir, latest));
    if (*latest >= 0 && *latest != iteration && !options->force)
        return mds_fail(
            MDS_EUSER,
            "%s: holds a run at iteration %" PRId64
            ", whose next job would resume from the new checkpoint (iteration %" PRId64
            ") instead: give another folder, or "
            "--force if that is meant",
            dir, *latest, iteration);
    return mds_ckpt_prepare(dir);
}

static void print_created(const char *dir, int64_t iteration, int64_t ranks,
                          int64_t bytes, int64_t latest)
{
    char size[32];

    printf("%s: iteration %" PRId64 ", %" PRId64 " rank%s, %s\n", dir, iteration, ranks,
           mds_plural(ranks), mds_format_bytes((double)bytes, size, sizeof size));
    if (latest >= 0)
        printf("%s/latest: names iteration %" PRId64 " now, %" PRId64 " before\n", dir,
               iteration, latest);
}

static void append_provenance(const struct mds_config_run *run, const char *origin,
                              struct mds_str *out)
{
    char host[MDS_HOST_SIZE];

    mds_host_name(host);
    mds_ckpt_provenance("mds_ckpt", PACKAGE_VERSION, host, run->world,
                        &run->config.parallel, out);
    mds_str_add(out, "%s", origin);
}

/* Of what the file of an imported model does not say nothing is kept for its runs: a
 * default written down would go before a machine's profile. */
static void forget_defaults(struct mds_settings *s)
{
    for (size_t row = 0; row < s->rows; row++)
        if (s->set->options[row].key && s->of[row].level == MDS_LEVEL_DEFAULT)
            mds_settings_derived(s, s->set->options[row].key, "default");
    mds_settings_derived(s, "model.seq_length", "each run's own");
}

enum mds_rc mds_checkpoint_make(struct mds_config_run *run, const char *dir,
                                const struct mds_ckpt_options *options,
                                const struct mds_ckpt_state *state, const char *data,
                                const char *origin,
                                const struct mds_make_source *source)
{
    struct mds_ckpt_save s = {.dir = dir, .state = *state, .data = data};
    struct serial_ranks c = {
        .config = &run->config, .source = source, .ranks = run->world};
    const struct mds_ckpt_serial_ranks serial_ranks = {&c, run->world, create_rank};
    struct mds_params *whole = NULL;
    struct mds_str provenance = {0};
    char *configuration;
    int64_t bytes = 0, latest;
    enum mds_rc rc;

    MDS_TRY(check_output_folder(dir, state->iteration, options, &latest));
    MDS_TRY(mds_engine_whole_params(&run->config, &whole));
    if (!mds_config_data_paths(&run->config.data))
        forget_defaults(&run->settings);
    configuration = mds_settings_text(&run->settings);
    append_provenance(run, origin, &provenance);
    s.state.vocab = run->config.model.vocab;
    s.state.padded_vocab = run->config.model.padded_vocab;
    s.whole = whole;
    s.configuration = configuration;
    s.provenance = provenance.s;
    rc = configuration && !provenance.failed
             ? mds_ckpt_save_serial(&s, &serial_ranks, &bytes)
             : mds_fail(MDS_EMEM, "no host memory");
    if (!rc)
        print_created(dir, state->iteration, serial_ranks.ranks, bytes, latest);
    destroy_rank(&c);
    mds_str_fini(&provenance);
    free(configuration);
    mds_params_destroy(whole);
    return rc;
}
