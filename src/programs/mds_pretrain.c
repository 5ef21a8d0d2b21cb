/* SPDX-License-Identifier: BSD-3-Clause */
/* mds_pretrain: read the configuration, start MPI, train, and end in order. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "base/log.h"
#include "ckpt/configuration.h"
#include "comm/comm.h"
#include "transport/world.h"
#include "config/options.h"
#include "programs/finish.h"
#include "programs/start.h"
#include "train/dry_run.h"
#include "train/pretrain.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Saved before the last iteration: start again with the same command, and it goes on.
 * HTCondor's usual status for that; no shell, signal or MPI uses it. */
enum { EXIT_AGAIN = 85 };

/* The only way out with a failure.  When all ranks fail alike one line is enough: the
 * others give rank 0, which may have been slower, the time to print it and to end the
 * run. */
static _Noreturn void leave(const struct mds_world *w)
{
    const struct timespec grace = {.tv_sec = 2};

    if (w->rank > 0)
        nanosleep(&grace, NULL);
    mds_failure_log();
    mds_log_repeat_warnings();
    mds_world_abort(EXIT_FAILURE);
}

static void start_log(const struct mds_world *w, const struct mds_config *c)
{
    enum mds_log_level level = MDS_LOG_INFO;

    if (c)
        mds_log_level_parse(c->output.log_level, &level);
    mds_log_init(w->rank, w->ranks, w->host, level);
}

/* What was printed has arrived, or the run fails. */
static void close_output(const struct mds_world *w)
{
    if (mds_stdout_flush())
        leave(w);
}

/* Any rank of any number can be played. */
static enum mds_rc answer(struct mds_config_run *run, struct mds_diag *diag)
{
    if (run->action == MDS_ACTION_SHOW || run->action == MDS_ACTION_RUN)
        MDS_TRY(mds_ckpt_take_model(run, diag));
    if (run->action != MDS_ACTION_RUN) {
        MDS_TRY(mds_config_print(run, diag, stdout));
        mds_diag_log(diag);
        return MDS_OK;
    }
    MDS_TRY(mds_config_resolve(run, mds_config_world(run), diag));
    mds_diag_log(diag);
    return mds_dry_run(&run->config, stdout);
}

/* --help and its like, and dry runs: without MPI, so that they work on a login node.
 * Of copies that a launcher started all the same the first speaks. */
static void answer_and_leave(struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_world alone = {.ranks = 1};
    int rank, copies = mds_world_copies(&rank);

    mds_config_started(run, copies);
    if (rank == 0 && answer(run, diag))
        leave(&alone);
    close_output(&alone);
    mds_config_run_destroy(run);
    mds_diag_fini(diag);
    exit(EXIT_SUCCESS);
}

int main(int argc, char **argv)
{
    struct mds_world world = {.ranks = 1};
    struct mds_diag diag = {0};
    struct mds_config_run *run = NULL;
    int unfinished = 0, rank;
    enum mds_rc rc;

    mds_program_start();
    rc = mds_config_read(argc, argv, &diag, &run);
    if (!rc && (run->action != MDS_ACTION_RUN || run->config.train.dry_run))
        answer_and_leave(run, &diag);
    if (rc && mds_world_copies(&rank) == 1)
        leave(&world);
    /* who reads our output may leave before the run is over */
    signal(SIGPIPE, SIG_IGN);
    if (run)
        mds_comm_set_timeout_s(run->config.parallel.timeout_s);
    if (mds_world_init(&world))
        leave(&world);
    start_log(&world, run ? &run->config : NULL);
    if (rc) {
        mds_diag_verdict(&diag); /* the sentence again, in case MPI's start had one */
        leave(&world);
    }
    if (mds_pretrain(&world, run, &diag, PACKAGE_VERSION, &unfinished))
        leave(&world);
    close_output(&world);
    mds_log_repeat_warnings();
    mds_config_run_destroy(run);
    mds_diag_fini(&diag);
    mds_world_fini(&world);
    return unfinished ? EXIT_AGAIN : EXIT_SUCCESS;
}
