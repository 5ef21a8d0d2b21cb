/* SPDX-License-Identifier: BSD-3-Clause */
/* status: a line for each run.  continue, cancel: what to do with one. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/events.h"
#include "base/log.h"
#include "base/units.h"
#include "launch/batch_syntax.h"
#include "launch/job.h"
#include "launch/run_state.h"
#include "launch/submit.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- the table ---- */

enum { NAME, PHASE, STEP, LOSS, VALID, RATE, ETA, LEFT, LAST, COLUMNS, CELL = 320 };

struct row {
    char cell[COLUMNS][CELL];
};

/* "-" if it is not known. */
static void put_loss(char cell[CELL], double loss)
{
    snprintf(cell, CELL, "-");
    if (!isnan(loss))
        snprintf(cell, CELL, "%.4f", loss);
}

static void put_seconds(char cell[CELL], double s)
{
    snprintf(cell, CELL, "-");
    if (!isnan(s))
        mds_format_seconds(fmax(s, 0), cell, CELL);
}

static void put_last_event(char cell[CELL], const struct mds_run_state *s)
{
    char ago[32];

    snprintf(cell, CELL, "-");
    if (s->last[0])
        snprintf(cell, CELL, "%s, %s ago", s->last,
                 mds_format_seconds(fmax(mds_clock_wall_s() - s->last_at, 0), ago,
                                    sizeof ago));
}

static void fill_row(struct row *r, const struct mds_run_state *s)
{
    int runs = s->phase == MDS_RUN_TRAINING;
    double left = (double)(s->last_iteration - s->iteration);

    snprintf(r->cell[NAME], CELL, "%s", s->name);
    snprintf(r->cell[PHASE], CELL, "%s", mds_run_phase_name(s->phase));
    snprintf(r->cell[STEP], CELL, "-");
    if (s->last_iteration >= 0)
        snprintf(r->cell[STEP], CELL, "%lld/%lld", (long long)s->iteration,
                 (long long)s->last_iteration);
    put_loss(r->cell[LOSS], s->loss);
    put_loss(r->cell[VALID], s->validation_loss);
    snprintf(r->cell[RATE], CELL, "-");
    if (!isnan(s->tokens_per_s))
        mds_format_count(s->tokens_per_s, r->cell[RATE], CELL);
    put_seconds(r->cell[ETA], runs ? left * s->step_s : NAN);
    put_seconds(r->cell[LEFT], runs ? s->leaves_at - mds_clock_wall_s() : NAN);
    put_last_event(r->cell[LAST], s);
}

static void print_table(const struct row *rows, size_t n, FILE *f)
{
    static const struct row head = {{"run", "state", "step", "loss", "valid",
                                     "tokens/s", "ETA", "left", "last event"}};
    int width[COLUMNS];

    for (int c = 0; c < COLUMNS; c++) {
        width[c] = (int)strlen(head.cell[c]);
        for (size_t i = 0; i < n; i++)
            width[c] = (int)fmax(width[c], (double)strlen(rows[i].cell[c]));
    }
    for (size_t i = 0; i <= n; i++) {
        const struct row *r = i == 0 ? &head : &rows[i - 1];

        for (int c = 0; c < COLUMNS - 1; c++)
            fprintf(f, "%-*s  ", width[c], r->cell[c]);
        fprintf(f, "%s\n", r->cell[LAST]);
    }
}

/* ---- all runs of a folder ---- */

struct table {
    struct row *rows;
    size_t n;
};

static enum mds_rc add_run(struct table *t, const char *folder)
{
    struct mds_run_state s;
    struct row *more;
    enum mds_rc rc;

    if (!mds_run_folder_is_run(folder))
        return MDS_OK;
    more = mds_grow(t->rows, t->n, sizeof *more);
    if (!more)
        return MDS_EMEM;
    t->rows = more;
    rc = mds_run_state_read(folder, &s);
    if (!rc)
        fill_row(&more[t->n++], &s);
    mds_run_state_fini(&s);
    return rc;
}

static enum mds_rc add_runs_in(struct table *t, const char *folder)
{
    struct dirent **entries = NULL;
    int n = scandir(folder, &entries, NULL, alphasort);
    char path[MDS_PATH_SIZE];
    enum mds_rc rc = MDS_OK;

    if (n < 0)
        return mds_fail(MDS_EUSER, "status: %s is not a folder of runs: %s", folder,
                        strerror(errno));
    for (int i = 0; i < n; i++) {
        if (!rc && entries[i]->d_name[0] != '.')
            rc = mds_path_join(folder, entries[i]->d_name, path);
        if (!rc && entries[i]->d_name[0] != '.')
            rc = add_run(t, path);
        free(entries[i]);
    }
    free(entries);
    return rc;
}

static enum mds_rc print_status(const char *folder)
{
    struct table t = {0};
    enum mds_rc rc;

    rc = mds_run_folder_is_run(folder) ? add_run(&t, folder) : add_runs_in(&t, folder);
    if (!rc && t.n == 0)
        rc = mds_fail(MDS_EUSER, "status: %s has no run", folder);
    if (!rc)
        print_table(t.rows, t.n, stdout);
    free(t.rows);
    return rc;
}

enum mds_rc mds_status(const struct mds_launch_options *options, const char *folder)
{
    const struct timespec often = {.tv_sec = 2};

    if (!folder)
        folder = options->folder;
    for (;;) {
        if (options->watch && isatty(STDOUT_FILENO))
            printf("\033[H\033[J");
        MDS_TRY(print_status(folder));
        if (!options->watch)
            return MDS_OK;
        if (fflush(stdout))
            return mds_fail(MDS_EIO, "standard output: %s", strerror(errno));
        nanosleep(&often, NULL);
    }
}

/* ---- one run ---- */

/* NAME of a run in --runs, or its folder. */
static enum mds_rc find_run(const struct mds_launch_options *options, const char *name,
                            struct mds_run_state *out)
{
    char path[MDS_PATH_SIZE];

    MDS_TRY(mds_path_join(options->folder, name, path));
    if (!mds_run_folder_is_run(path)) {
        if (!mds_run_folder_is_run(name))
            return mds_fail(MDS_EUSER, "%s: no such run, nor %s; see mds_launch status",
                            path, name);
        snprintf(path, sizeof path, "%s", name);
    }
    return mds_run_state_read(path, out);
}

static int is_alive(const struct mds_run_state *s)
{
    return s->phase >= MDS_RUN_QUEUED && s->phase <= MDS_RUN_LEAVING;
}

/* Here and now: the script takes the place of this program. */
static enum mds_rc exec_script(const char *script)
{
    fflush(NULL);
    execlp("sh", "sh", script, (char *)NULL);
    return mds_fail(MDS_EIO, "sh: %s", strerror(errno));
}

static enum mds_rc continue_run(const struct mds_run_state *s, int print)
{
    char script[MDS_PATH_SIZE], id[128];

    if (s->phase == MDS_RUN_DONE)
        return mds_fail(MDS_EUSER,
                        "%s is done; to train on, submit it anew with "
                        "another length and --load %s/checkpoints",
                        s->name, s->folder);
    if (is_alive(s))
        return mds_fail(MDS_EUSER, "%s is %s: it needs no other job", s->name,
                        mds_run_phase_name(s->phase));
    MDS_TRY(mds_path_join(s->folder, "job.sh", script));
    if (access(script, R_OK))
        return mds_fail(MDS_EUSER, "%s: %s; start the run again with the same options",
                        script, strerror(errno));
    if (print) {
        printf("%s %s\n", mds_batch_syntax_of(s->scheduler)->submit, script);
        return MDS_OK;
    }
    if (s->scheduler == MDS_SCHEDULER_NONE)
        return exec_script(script);
    MDS_TRY(mds_job_submit(s->scheduler, s->folder, script, NULL, 0, id, sizeof id));
    mds_job_record_event(s->folder, id);
    printf("%s: %s\n", s->folder, id);
    return MDS_OK;
}

enum mds_rc mds_continue(const struct mds_launch_options *options, const char *name)
{
    struct mds_run_state s = {.phase = MDS_RUN_WRITTEN};
    enum mds_rc rc = find_run(options, name, &s);

    if (!rc)
        rc = continue_run(&s, options->print);
    mds_run_state_fini(&s);
    return rc;
}

/* Of its jobs those that wait: the batch system's to cancel. */
static enum mds_rc cancel_waiting_jobs(const struct mds_run_state *s)
{
    const char *cancel = mds_batch_syntax_of(s->scheduler)->cancel;
    struct mds_str command = {0};
    enum mds_rc rc = MDS_OK;

    for (size_t i = 0; i < s->jobs.n; i++)
        if (mds_run_job_state(s, s->jobs.v[i]) == MDS_JOB_WAITS) {
            mds_str_add(&command, "%s ", command.len ? "" : cancel);
            mds_shell_quote(s->jobs.v[i], &command);
        }
    if (command.len > 0) {
        printf("%s\n", command.s);
        fflush(stdout);
        if (system(command.s) != 0)
            rc = mds_fail(MDS_EUSER, "'%s' failed, see above", command.s);
    }
    mds_str_fini(&command);
    return rc;
}

/* mds_launch run, which follows the events, tells the ranks. */
static enum mds_rc cancel_ranks(const struct mds_run_state *s)
{
    char path[MDS_PATH_SIZE];
    struct mds_event e;

    MDS_TRY(mds_path_join(s->folder, "events.jsonl", path));
    mds_events_open(path);
    mds_event_begin(&e, "cancelled");
    if (mds_event_end(&e))
        return mds_fail_write(MDS_EIO, path);
    printf("%s will save and leave\n", s->name);
    return MDS_OK;
}

enum mds_rc mds_cancel(const struct mds_launch_options *options, const char *name)
{
    struct mds_run_state s = {.phase = MDS_RUN_WRITTEN};
    enum mds_rc rc = find_run(options, name, &s);

    if (!rc && !is_alive(&s))
        rc = mds_fail(MDS_EUSER, "%s: there is nothing to cancel: it is %s", s.name,
                      mds_run_phase_name(s.phase));
    if (!rc)
        rc = cancel_waiting_jobs(&s);
    if (!rc && s.phase != MDS_RUN_QUEUED)
        rc = cancel_ranks(&s);
    mds_run_state_fini(&s);
    return rc;
}
