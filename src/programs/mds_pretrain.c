/* SPDX-License-Identifier: BSD-3-Clause */
/* mds_pretrain: read the configuration, start MPI, train, and end in order. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "base/events.h"
#include "base/host.h"
#include "base/log.h"
#include "base/stream.h"
#include "base/units.h"
#include "ckpt/configuration.h"
#include "comm/comm.h"
#include "transport/world.h"
#include "config/options.h"
#include "data/inspect.h"
#include "device/device.h"
#include "plan/predict.h"
#include "programs/ranks.h"
#include "programs/start.h"
#include "train/dry_run.h"
#include "train/pretrain.h"
#include "train/train.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void init_log(const struct mds_world *w, const struct mds_config *c)
{
    enum mds_log_level level = MDS_LOG_INFO;

    if (c)
        mds_log_level_parse(c->output.log_level, &level);
    mds_log_init(w->rank, w->ranks, w->host, level);
}

/* A GPU of this host, of which its profile says nothing, is asked itself. */
static enum mds_rc query_local_gpu(const struct mds_config *c, struct mds_machine *m)
{
    const struct mds_dev_spec spec = {.name = mds_dev_resolve(c->output.device)};
    struct mds_dev *dev = NULL;

    if (!mds_machine_is_local(m) || m->node.gpus > 0 || strcmp(spec.name, "cuda") != 0)
        return MDS_OK;
    MDS_TRY(mds_dev_create(&spec, &dev));
    m->node.gpus = c->train.dry_world;
    m->gpu.memory = mds_dev_memory_bytes(dev);
    mds_dev_destroy(dev);
    return MDS_OK;
}

/* The machine of --machine, or this host. */
static enum mds_rc find_machine(const struct mds_config *c, struct mds_diag *diag,
                                struct mds_machine **m)
{
    const char *name = c->sources.machine;
    struct mds_str path = {0};
    char host[MDS_HOST_SIZE];

    if (name && !mds_machine_path(name, &path)) /* a warning has said so */
        name = NULL;
    mds_str_fini(&path);
    mds_host_name(host);
    MDS_TRY(mds_machine_find(name, host, diag, m));
    return query_local_gpu(c, *m);
}

/* Choose the first level of activation memory that fits the machine. */
static enum mds_rc predict_activation_level(struct mds_config *c,
                                            const struct mds_machine *m)
{
    int64_t world = c->train.dry_world, per_node = world;
    struct mds_str text = {0};
    struct mds_estimate e;
    char need[32], have[32];
    int level;

    if (m->node.gpus > 0 && m->node.gpus < world)
        per_node = m->node.gpus;
    MDS_TRY(mds_predict_level(c, (int)world, (int)per_node, m, &e, &level));
    mds_act_text(&c->train.act, 0, &text);
    printf("activation memory: level %d, %s\n", level,
           text.len ? text.s : "blocks save all activations");
    printf("  %s %s of %s by the profile of %s\n\n",
           e.fits ? "the first that fits:" : "no level fits: the last needs",
           mds_format_bytes((double)e.device_bytes, need, sizeof need),
           mds_format_bytes((double)e.device_limit, have, sizeof have), m->name);
    mds_str_fini(&text);
    return MDS_OK;
}

/* --activation-memory auto in a dry run. */
static enum mds_rc choose_level_for_machine(struct mds_config *c)
{
    struct mds_machine *m = NULL;
    struct mds_diag diag = {0};
    enum mds_rc rc = find_machine(c, &diag, &m);

    mds_diag_fini(&diag);
    if (!rc)
        rc = mds_machine_check_fp8(m, c);
    if (!rc)
        rc = predict_activation_level(c, m);
    mds_machine_destroy(m);
    return rc;
}

/* A file of settings that is no profile does not say what the machine has. */
static enum mds_rc check_fp8_of_machine(const struct mds_config *c)
{
    struct mds_machine *m = NULL;
    struct mds_diag diag = {0};
    enum mds_rc rc = MDS_OK;

    if (c->sources.machine && c->model.fp8.format != MDS_FP8_NONE &&
        !find_machine(c, &diag, &m))
        rc = mds_machine_check_fp8(m, c);
    mds_diag_fini(&diag);
    mds_machine_destroy(m);
    return rc;
}

/* The dry run can be of any rank of any number. */
static enum mds_rc print_or_dry_run(struct mds_config_run *run, struct mds_diag *diag)
{
    if (run->action == MDS_ACTION_SHOW || run->action == MDS_ACTION_RUN)
        MDS_TRY(mds_ckpt_inherit_model(run, diag));
    mds_data_inspect(run, 0, run->action == MDS_ACTION_RUN);
    if (run->action != MDS_ACTION_RUN) {
        MDS_TRY(mds_config_print(run, diag, stdout));
        mds_diag_log(diag);
        return MDS_OK;
    }
    MDS_TRY(mds_config_resolve(run, mds_config_world(run), diag));
    mds_diag_log(diag);
    if (run->config.train.act_is_open)
        MDS_TRY(choose_level_for_machine(&run->config));
    else
        MDS_TRY(check_fp8_of_machine(&run->config));
    return mds_dry_run(&run->config, stdout);
}

/* --help and its like, and dry runs: without MPI, so that they work on a login node.
 * Of copies that a launcher started all the same the first speaks. */
static void print_or_dry_run_and_exit(struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_world alone = {.ranks = 1};
    int rank, copies = mds_world_copies(&rank);
    enum mds_rc rc = MDS_OK;

    mds_config_set_started_ranks(run, copies);
    if (rank == 0)
        rc = print_or_dry_run(run, diag);
    if (rc)
        mds_ranks_fail(&alone, rc);
    mds_ranks_flush_output(&alone);
    mds_config_run_destroy(run);
    mds_diag_fini(diag);
    exit(EXIT_SUCCESS);
}

int main(int argc, char **argv)
{
    struct mds_world world = {.ranks = 1};
    struct mds_diag diag = {0};
    struct mds_config_run *run = NULL;
    int status = 0, rank;
    enum mds_rc rc, started;

    mds_program_start();
    rc = mds_config_read(argc, argv, &diag, &run);
    if (!rc && (run->action != MDS_ACTION_RUN || run->config.train.dry_run))
        print_or_dry_run_and_exit(run, &diag);
    mds_events_open(run ? run->config.output.events : NULL);
    if (rc && mds_world_copies(&rank) == 1)
        mds_ranks_fail(&world, rc);
    /* who reads our output may leave before the run is over */
    signal(SIGPIPE, SIG_IGN);
    mds_streams_never_wait();
    if (run)
        mds_comm_set_timeout_s(run->config.parallel.timeout_s);
    started = mds_world_init(&world);
    if (started)
        mds_ranks_fail(&world, started);
    init_log(&world, run ? &run->config : NULL);
    if (rc) {
        /* set the error text again: mds_world_init may have replaced it */
        mds_diag_result(&diag);
        mds_ranks_fail(&world, rc);
    }
    rc = mds_pretrain(&world, run, &diag, PACKAGE_VERSION, &status);
    if (rc)
        mds_ranks_fail(&world, rc);
    mds_ranks_flush_output(&world);
    mds_log_repeat_warnings();
    (void)mds_streams_drain();
    mds_config_run_destroy(run);
    mds_diag_fini(&diag);
    mds_world_end(&world, status);
}
