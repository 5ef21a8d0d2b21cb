/* SPDX-License-Identifier: BSD-3-Clause */
/* Stopping in an orderly way before the last iteration. */
#include "base/clock.h"
#include "train/run.h"

#include <signal.h>
#include <time.h>

/* A batch system may signal every process itself while the launcher forwards the same
 * signal: a second one within this time is taken for the first. */
enum { SAME_S = 1 };

static volatile sig_atomic_t caught;
static struct timespec caught_at; /* used only in the handler */

static void on_signal(int sig)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    if (caught && now.tv_sec - caught_at.tv_sec > SAME_S)
        mds_world_drop(128 + sig);
    if (!caught)
        caught_at = now;
    caught = sig;
}

/* Install `handler` if --exit-signal-handler asks for it. */
static void set_handlers(const struct run *r, void (*handler)(int))
{
    struct sigaction old, act = {.sa_handler = handler, .sa_flags = SA_RESTART};

    if (!r->config->train.exit_signal_handler)
        return;
    sigfillset(&act.sa_mask);
    /* A shell's background job ignores SIGINT: Ctrl-C is for another program. */
    if (sigaction(SIGINT, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGUSR1, &act, NULL);
}

void mds_run_watch_signals(const struct run *r)
{
    caught = 0;
    set_handlers(r, on_signal);
}

/* A launcher sends SIGTERM to all as soon as one has exited with a non-zero status. */
void mds_run_ignore_signals(const struct run *r)
{
    set_handlers(r, SIG_IGN);
}

/* An iteration reached by a rollback does not count: if the job stopped there, the next
 * one would start at the same iteration with the same data, forever. */
static int is_exit_interval(const struct run *r)
{
    int64_t every = r->config->train.exit_interval;

    return every > 0 && r->iteration != r->rolled_back_to && r->iteration % every == 0;
}

enum mds_rc mds_run_should_stop(struct run *r, const char **reason)
{
    const struct mds_train_config *t = &r->config->train;
    double vote[3] = {caught != 0, 0, caught == SIGTERM};

    *reason = NULL;
    if (t->exit_duration_s > 0)
        vote[1] = mds_clock_s() - r->spec->began_s > t->exit_duration_s;
    MDS_TRY(mds_comm_all_reduce_f64(world_of(r), vote, 3, MDS_COMM_MAX));
    r->terminated = vote[2] > 0;
    if (steps_left(r) == 0)
        *reason = "iterations";
    else if (is_exit_interval(r))
        *reason = "exit interval";
    else if (vote[0] > 0)
        *reason = "signal";
    else if (vote[1] > 0)
        *reason = "duration";
    return MDS_OK;
}
