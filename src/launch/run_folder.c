/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/run_folder.h"
#include "base/str.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int mds_is_set_by_user(const struct mds_config_run *asked, const char *key)
{
    return mds_settings_of(&asked->settings, key)->level > MDS_LEVEL_DERIVED;
}

/* ---- the folder ---- */

enum mds_rc mds_run_folder_name(const struct mds_launch *l,
                                const struct mds_config_run *asked,
                                struct mds_run_folder *out)
{
    const struct mds_model_config *m = &asked->config.model;
    const char *tag = l->options->tag ? l->options->tag : "";
    char base[128];

    if (l->options->name)
        snprintf(base, sizeof base, "%s", l->options->name);
    else
        snprintf(base, sizeof base, "%.60s-%lld-%lldn",
                 m->size_key ? m->size_key : "gpt", (long long)m->seq_length,
                 (long long)l->nodes);
    snprintf(out->name, sizeof out->name, "%s%s%s", base, *tag ? "-" : "", tag);
    if (!*base || strchr(out->name, '/'))
        return mds_fail(MDS_EUSER, "--name '%s': must be a name, not a path",
                        out->name);
    MDS_TRY(mds_path_join(l->options->folder, out->name, out->path));
    snprintf(out->checkpoints, sizeof out->checkpoints, "%s/checkpoints", out->path);
    return MDS_OK;
}

enum mds_rc mds_run_folder_create(const struct mds_launch *l, struct mds_run_folder *f)
{
    f->had_parent = access(l->options->folder, F_OK) == 0;
    MDS_TRY(mds_folder_make(l->options->folder, f->name, f->path));
    snprintf(f->checkpoints, sizeof f->checkpoints, "%s/checkpoints", f->path);
    return MDS_OK;
}

void mds_run_folder_remove(const struct mds_launch *l, const struct mds_run_folder *f)
{
    rmdir(f->path); /* unless a job has left something in it */
    if (!f->had_parent)
        rmdir(l->options->folder);
}

enum mds_rc mds_run_folder_describe(const struct mds_job *j)
{
    struct mds_str text = {0};
    char when[64];
    time_t now = time(NULL);
    struct tm tm;
    enum mds_rc rc;

    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    mds_str_add(&text,
                "name: %s\nmachine: %s\nnodes: %lld\nranks: %lld\nscript: %s/job.sh\n"
                "written: %s\n",
                j->name, j->launch->machine->name, (long long)j->launch->nodes,
                (long long)j->launch->ranks, j->folder, when);
    rc = text.failed ? mds_fail(MDS_EMEM, "no host memory for run.yaml")
                     : mds_folder_write(j->folder, "run.yaml", 0, 0644, text.s);
    mds_str_fini(&text);
    return rc;
}

/* ---- ranks without one ---- */

/* In the current folder, or else in the host's own, where ranks of other hosts do not
 * find it. */
static int create_events_file(char path[MDS_PATH_SIZE])
{
    const char *temporary = getenv("TMPDIR");
    int fd;

    snprintf(path, MDS_PATH_SIZE, ".mds_events.XXXXXX");
    fd = mkstemp(path);
    if (fd >= 0)
        return fd;
    snprintf(path, MDS_PATH_SIZE, "%s/mds_events.XXXXXX",
             temporary ? temporary : "/tmp");
    return mkstemp(path);
}

enum mds_rc mds_run_events_create(struct mds_launch *l, char path[MDS_PATH_SIZE])
{
    struct mds_config_run *asked = NULL;
    int given, fd;

    path[0] = '\0';
    MDS_TRY(mds_launch_config(l, NULL, 0, &asked));
    given = mds_is_set_by_user(asked, "output.events");
    mds_config_run_destroy(asked);
    if (given || l->options->print)
        return MDS_OK;
    fd = create_events_file(path);
    if (fd < 0)
        return mds_fail(MDS_EIO, "%s: cannot be created for the run's events: %s", path,
                        strerror(errno));
    close(fd);
    mds_argv_add(&l->asked, "--events");
    mds_argv_add(&l->asked, "%s", path);
    return MDS_OK;
}

void mds_run_events_remove(const char *path)
{
    if (path[0])
        unlink(path);
}

/* ---- options ---- */

void mds_run_folder_outputs(const struct mds_run_folder *f,
                            const struct mds_config_run *asked, struct mds_argv *words)
{
    const char *save = asked->config.checkpoint.save;

    if (!save)
        save = f->checkpoints;
    if (!mds_is_set_by_user(asked, "output.metrics_jsonl")) {
        mds_argv_add(words, "--metrics-jsonl");
        mds_argv_add(words, "%s/metrics.jsonl", f->path);
    }
    if (!mds_is_set_by_user(asked, "output.events")) {
        mds_argv_add(words, "--events");
        mds_argv_add(words, "%s/events.jsonl", f->path);
    }
    if (!asked->config.checkpoint.save) {
        mds_argv_add(words, "--save");
        mds_argv_add(words, "%s", save);
    }
    if (!mds_is_set_by_user(asked, "checkpoint.load")) {
        mds_argv_add(words, "--load");
        mds_argv_add(words, "%s", save);
    }
}

/* The next of 1, 2, 5, 10, 20, ... below n: a number that does not follow every change
 * of what is predicted. */
static int64_t round_down_to_125(double n)
{
    static const int steps[] = {5, 2, 1};
    double unit = pow(10, floor(log10(n > 1 ? n : 1)));

    for (int i = 0; i < 3; i++)
        if (steps[i] * unit <= n)
            return (int64_t)(steps[i] * unit);
    return 1;
}

/* The most training time in seconds that a killed job may lose. */
static double acceptable_loss_s(const struct mds_job *j)
{
    const struct mds_queue *q = mds_job_queue(j);

    return q && q->preemptable ? 600 : 1800;
}

enum mds_rc mds_run_folder_saves(const struct mds_job *j,
                                 const struct mds_config_run *asked,
                                 const struct mds_estimate *e,
                                 struct mds_argv *arguments)
{
    int64_t kept = asked->config.checkpoint.keep_last;

    if (!mds_is_set_by_user(asked, "checkpoint.interval")) {
        mds_argv_add(arguments, "--save-interval");
        mds_argv_add(arguments, "%lld",
                     (long long)round_down_to_125(acceptable_loss_s(j) / e->step_s));
    }
    if (!mds_is_set_by_user(asked, "checkpoint.keep_last"))
        MDS_TRY(mds_job_add_keep_last(j, arguments, &kept));
    return mds_job_log_disk_space(j, e, kept);
}
