/* SPDX-License-Identifier: BSD-3-Clause */
/* Stopping in an orderly way before the last iteration. */
#include "base/clock.h"
#include "train/run.h"
#include "transport/stop.h"

void mds_run_watch_signals(const struct run *r)
{
    if (r->config->train.exit_signal_handler)
        mds_stop_watch();
}

void mds_run_ignore_signals(const struct run *r)
{
    if (r->config->train.exit_signal_handler)
        mds_stop_ignore();
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
    double vote[2] = {mds_stop_caught(), 0};

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
