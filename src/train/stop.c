/* SPDX-License-Identifier: BSD-3-Clause */
/* Stopping in an orderly way before the last iteration. */
#include "base/clock.h"
#include "train/run.h"

#include <signal.h>
#include <time.h>

/* A batch system may signal every process itself while the launcher forwards the same
 * signal: a second one within this time is taken for the first. */
enum { SAME_S = 1 };

static volatile sig_atomic_t caught, ended;
static struct timespec ended_at; /* used only in the handler */

/* SIGUSR1 warns that SIGTERM will follow, so it is not the first of two. */
static void on_signal(int sig)
{
    struct timespec now;

    if (sig != SIGUSR1) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (ended && now.tv_sec - ended_at.tv_sec > SAME_S)
            mds_world_drop(128 + sig);
        if (!ended)
            ended_at = now;
        ended = 1;
    }
    if (sig != SIGUSR1 || !caught)
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
    caught = ended = 0;
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

/* *reason: "signal" or "duration" if a rank has to leave within the next seconds. */
static enum mds_rc vote_to_leave(struct run *r, double within_s, const char **reason)
{
    double limit_s = r->config->train.exit_duration_s;
    double vote[2] = {caught, 0};

    *reason = NULL;
    if (limit_s > 0)
        vote[1] = mds_clock_s() - r->spec->began_s + within_s > limit_s;
    MDS_TRY(mds_comm_all_reduce_f64(world_of(r), vote, 2, MDS_COMM_MAX));
    r->signal = (int)vote[0]; /* of several SIGTERM, whose number is the highest */
    if (r->signal)
        *reason = "signal";
    else if (vote[1] > 0)
        *reason = "duration";
    return MDS_OK;
}

enum mds_rc mds_run_should_stop(struct run *r, const char **reason)
{
    MDS_TRY(vote_to_leave(r, 0, reason));
    if (steps_left(r) == 0)
        *reason = "iterations";
    else if (is_exit_interval(r))
        *reason = "exit interval";
    return MDS_OK;
}

enum mds_rc mds_run_stops_evaluation(struct run *r, enum mds_split split, double share,
                                     const char **reason)
{
    double now_s = mds_clock_s(), left_s = r->eval_s[split];

    *reason = NULL;
    if (share == 0)
        r->eval_began_s = now_s;
    else if (share < 1)
        left_s = (now_s - r->eval_began_s) * (1 - share) / share;
    else
        r->eval_s[split] = now_s - r->eval_began_s;
    return share < 1 ? vote_to_leave(r, left_s, reason) : MDS_OK;
}
