/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/run_state.h"
#include "base/clock.h"
#include "base/exit_status.h"
#include "launch/batch_syntax.h"
#include "launch/capture.h"
#include "launch/events.h"
#include "launch/run_folder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *mds_run_phase_name(enum mds_run_phase phase)
{
    static const char *const names[] = {
        [MDS_RUN_WRITTEN] = "written",   [MDS_RUN_QUEUED] = "queued",
        [MDS_RUN_STARTING] = "starting", [MDS_RUN_TRAINING] = "running",
        [MDS_RUN_LEAVING] = "leaving",   [MDS_RUN_SILENT] = "silent",
        [MDS_RUN_UNFINISHED] = "saved",  [MDS_RUN_DONE] = "done",
        [MDS_RUN_FAILED] = "failed",
    };

    return names[phase];
}

/* ---- events ---- */

static int64_t integer(const struct mds_node *record, const char *key,
                       int64_t otherwise)
{
    return (int64_t)mds_event_number(record, key, (double)otherwise);
}

static void take_jobs(struct mds_run_state *s, const struct mds_node *record)
{
    const char *ids = mds_event_text(record, "jobs");

    mds_argv_fini(&s->jobs);
    if (ids)
        mds_argv_add_split(&s->jobs, ids);
    if (s->phase != MDS_RUN_STARTING && s->phase != MDS_RUN_TRAINING &&
        s->phase != MDS_RUN_DONE) /* it may have been faster than this record */
        s->phase = MDS_RUN_QUEUED;
}

static void take_start(struct mds_run_state *s, const struct mds_node *record)
{
    s->phase = MDS_RUN_TRAINING;
    s->iteration = integer(record, "iteration", s->iteration);
    s->last_iteration = integer(record, "last_iteration", s->last_iteration);
    s->leaves_at = s->last_at + mds_event_number(record, "leaves_after_s", NAN);
}

static void take_evaluation(struct mds_run_state *s, const struct mds_node *record)
{
    const char *split = mds_event_text(record, "split");

    if (split && strcmp(split, "validation") == 0)
        s->validation_loss = mds_event_number(record, "loss", NAN);
}

static void take_finish(struct mds_run_state *s, const struct mds_node *record)
{
    int status = (int)mds_event_number(record, "status", MDS_EXIT_REPEATS);

    s->phase = status == MDS_EXIT_DONE         ? MDS_RUN_DONE
               : status >= MDS_EXIT_UNFINISHED ? MDS_RUN_UNFINISHED
                                               : MDS_RUN_FAILED;
    s->iteration = integer(record, "iteration", s->iteration);
    s->loss = mds_event_number(record, "training_loss", s->loss);
    s->validation_loss =
        mds_event_number(record, "validation_loss", s->validation_loss);
}

/* "failed: gone.h5: No such file or directory", "saved at 120" */
static void describe_event(struct mds_run_state *s, const char *event,
                           const struct mds_node *record)
{
    const char *reason = mds_event_text(record, "reason");
    const char *host = mds_event_text(record, "host");
    int64_t iteration = integer(record, "iteration", -1);
    char at[64] = "", where[300] = "";

    if (iteration >= 0 && strcmp(event, "started") != 0)
        snprintf(at, sizeof at, " at %lld", (long long)iteration);
    if (host && strcmp(event, "rank_lost") == 0)
        snprintf(where, sizeof where, " on %s", host);
    snprintf(s->last, sizeof s->last, "%.32s%s%.128s%s%.*s", event, at, where,
             reason ? ": " : "", reason ? (int)strcspn(reason, "\n") : 0,
             reason ? reason : "");
    for (char *p = s->last; *p && p < s->last + strlen(event); p++)
        if (*p == '_')
            *p = ' ';
}

static enum mds_rc take_event(void *to, const char *event,
                              const struct mds_node *record)
{
    struct mds_run_state *s = to;

    s->last_at = s->active_at = mds_event_number(record, "time", s->last_at);
    if (strcmp(event, "submitted") == 0)
        take_jobs(s, record);
    else if (strcmp(event, "launched") == 0)
        s->phase = MDS_RUN_STARTING;
    else if (strcmp(event, "started") == 0)
        take_start(s, record);
    else if (strcmp(event, "evaluated") == 0)
        take_evaluation(s, record);
    else if (strcmp(event, "walltime") == 0 || strcmp(event, "cancelled") == 0)
        s->phase = MDS_RUN_LEAVING;
    else if (strcmp(event, "finished") == 0)
        take_finish(s, record);
    else if (strcmp(event, "failed") == 0 || strcmp(event, "rank_lost") == 0 ||
             strcmp(event, "stuck") == 0)
        s->phase = MDS_RUN_FAILED;
    else if (strcmp(event, "restarted") == 0)
        s->phase = MDS_RUN_STARTING;
    if (strcmp(event, "data") != 0) /* it follows another at once */
        describe_event(s, event, record);
    return MDS_OK;
}

/* ---- steps ---- */

static enum mds_rc take_step(void *to, const char *event, const struct mds_node *record)
{
    struct mds_run_state *s = to;

    if (strcmp(event, "step") != 0)
        return MDS_OK;
    s->iteration = integer(record, "iteration", s->iteration);
    s->loss = mds_event_number(record, "lm_loss", NAN);
    s->step_s = mds_event_number(record, "elapsed_s", NAN);
    s->tokens_per_s = mds_event_number(record, "tokens_per_s", NAN);
    s->active_at = fmax(s->active_at, mds_event_number(record, "wall_time_s", 0));
    return MDS_OK;
}

/* The last step, from the end of metrics.jsonl. */
static enum mds_rc read_last_step(struct mds_run_state *s)
{
    const int64_t tail_bytes = 65536;
    char path[MDS_PATH_SIZE];
    struct stat st;
    int64_t at;

    MDS_TRY(mds_path_join(s->folder, "metrics.jsonl", path));
    if (stat(path, &st))
        return MDS_OK;
    at = st.st_size > tail_bytes ? st.st_size - tail_bytes : 0;
    return mds_events_read(path, &at, take_step, s);
}

/* ---- the batch system ---- */

/* By the letters of qstat and squeue: running, exiting, completing (CG); queued,
 * pending, held, waiting, starting, configuring (CF). */
static int classify_job_state(const char *word)
{
    if (*word && (strchr("RErek", *word) || strncmp(word, "CG", 2) == 0))
        return MDS_JOB_RUNS;
    if (*word && (strchr("QPHWTSqhs", *word) || strncmp(word, "CF", 2) == 0))
        return MDS_JOB_WAITS;
    return MDS_JOB_GONE;
}

int mds_run_job_state(const struct mds_run_state *s, const char *job)
{
    const char *command = mds_batch_syntax_of(s->scheduler)->state;
    const char *const argv[] = {"sh", "-c", command, "sh", job, NULL};
    const double limit_s = 15;
    struct mds_str answer = {0};
    int state;

    if (!command || mds_capture_output(argv, limit_s, &answer) || !answer.s)
        return MDS_JOB_GONE;
    state = classify_job_state(answer.s + strspn(answer.s, " \n"));
    mds_str_fini(&answer);
    return state;
}

/* What the folder says may be old: a node that is lost with all processes of a run
 * leaves no event. */
static void compare_with_now(struct mds_run_state *s)
{
    double patience_s = fmax(120, 10 * (isnan(s->step_s) ? 0 : s->step_s));
    int ended = s->phase == MDS_RUN_DONE || s->phase == MDS_RUN_WRITTEN;
    int best = MDS_JOB_GONE;

    for (size_t i = 0; i < s->jobs.n && !ended; i++) {
        int state = mds_run_job_state(s, s->jobs.v[i]);

        best = state > best ? state : best;
    }
    if (best == MDS_JOB_WAITS &&
        (s->phase == MDS_RUN_UNFINISHED || s->phase == MDS_RUN_FAILED))
        s->phase = MDS_RUN_QUEUED;
    if (s->phase == MDS_RUN_QUEUED && best == MDS_JOB_RUNS)
        s->phase = MDS_RUN_STARTING;
    if (s->phase == MDS_RUN_QUEUED && best == MDS_JOB_GONE)
        s->phase = MDS_RUN_SILENT;
    if ((s->phase == MDS_RUN_TRAINING || s->phase == MDS_RUN_STARTING ||
         s->phase == MDS_RUN_LEAVING) &&
        best != MDS_JOB_RUNS && mds_clock_wall_s() - s->active_at > patience_s)
        s->phase = MDS_RUN_SILENT;
}

/* ---- all ---- */

int mds_run_folder_is_run(const char *folder)
{
    char path[MDS_PATH_SIZE];

    return (!mds_path_join(folder, "run.yaml", path) && access(path, R_OK) == 0) ||
           (!mds_path_join(folder, "events.jsonl", path) && access(path, R_OK) == 0);
}

enum mds_rc mds_run_state_read(const char *folder, struct mds_run_state *out)
{
    const char *slash = strrchr(folder, '/');
    struct mds_tree *tree = NULL;
    char path[MDS_PATH_SIZE];
    int64_t at = 0;

    *out = (struct mds_run_state){.iteration = -1,
                                  .last_iteration = -1,
                                  .loss = NAN,
                                  .validation_loss = NAN,
                                  .step_s = NAN,
                                  .tokens_per_s = NAN,
                                  .leaves_at = NAN};
    snprintf(out->name, sizeof out->name, "%.255s", slash ? slash + 1 : folder);
    snprintf(out->folder, sizeof out->folder, "%s", folder);
    if (mds_run_folder_read(folder, &tree) == MDS_OK)
        out->scheduler = mds_scheduler_named(mds_event_text(tree->root, "scheduler"));
    mds_tree_destroy(tree);
    MDS_TRY(mds_path_join(folder, "events.jsonl", path));
    MDS_TRY(mds_events_read(path, &at, take_event, out));
    MDS_TRY(read_last_step(out));
    if (out->jobs.failed)
        return mds_fail(MDS_EMEM, "no host memory for %s", folder);
    compare_with_now(out);
    return MDS_OK;
}

void mds_run_state_fini(struct mds_run_state *s)
{
    mds_argv_fini(&s->jobs);
}
