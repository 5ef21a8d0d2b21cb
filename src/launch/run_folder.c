/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/run_folder.h"
#include "base/str.h"
#include "launch/infer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- the folder ---- */

static enum mds_rc name_folder(const struct mds_launch *l, const char *base,
                               struct mds_run_folder *out)
{
    const char *tag = l->options->tag ? l->options->tag : "";

    if (l->options->name)
        base = l->options->name;
    snprintf(out->name, sizeof out->name, "%s%s%s", base, *tag ? "-" : "", tag);
    if (!*base || strchr(out->name, '/'))
        return mds_fail(MDS_EUSER, "--name '%s': must be a name, not a path",
                        out->name);
    MDS_TRY(mds_path_join(l->options->folder, out->name, out->path));
    snprintf(out->checkpoints, sizeof out->checkpoints, "%s/checkpoints", out->path);
    return MDS_OK;
}

enum mds_rc mds_run_folder_name(const struct mds_launch *l,
                                const struct mds_config_run *asked,
                                struct mds_run_folder *out)
{
    const struct mds_model_config *m = &asked->config.model;
    char base[128];

    snprintf(base, sizeof base, "%.60s-%lld-%lldn", m->size_key ? m->size_key : "gpt",
             (long long)m->seq_length, (long long)l->nodes);
    return name_folder(l, base, out);
}

enum mds_rc mds_run_folder_name_infer(const struct mds_launch *l, const char *command,
                                      struct mds_run_folder *out)
{
    char base[128];

    snprintf(base, sizeof base, "%.60s-%lldn", command, (long long)l->nodes);
    return name_folder(l, base, out);
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

/* Quoted as JSON, which is YAML. */
static void add_text(struct mds_str *out, const char *key, const char *text)
{
    if (!text)
        return;
    mds_str_add(out, "%s: ", key);
    mds_json_quote(text, out);
    mds_str_add(out, "\n");
}

static void add_number(struct mds_str *out, const char *key, double value)
{
    mds_str_add(out, "%s: %.15g\n", key, value);
}

static void add_words(struct mds_str *out, const char *key,
                      const struct mds_argv *words)
{
    struct mds_str line = {0};

    mds_argv_format(words, NULL, &line);
    add_text(out, key, line.s ? line.s : "");
    out->failed |= line.failed;
    mds_str_fini(&line);
}

static void add_request(struct mds_str *out, const struct mds_job *j)
{
    add_text(out, "queue", j->queue);
    add_text(out, "project", j->project);
    add_number(out, "walltime_s", j->walltime_s);
    add_number(out, "margin_s", j->margin_s);
    add_number(out, "requeue", j->launch->options->requeue);
    add_number(out, "chain", (double)j->chain);
    if (j->array > 1)
        add_number(out, "array", (double)j->array);
}

enum mds_rc mds_run_folder_describe(const struct mds_job *j,
                                    const struct mds_config_run *asked,
                                    const struct mds_estimate *e)
{
    const struct mds_launch *l = j->launch;
    struct mds_argv words = {0};
    struct mds_str text = {0};
    char when[64], script[MDS_PATH_SIZE + 16];
    time_t now = time(NULL);
    struct tm tm;
    enum mds_rc rc = MDS_OK;

    if (asked)
        rc = mds_launch_arguments(l, asked, &words);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    snprintf(script, sizeof script, "%s/job.sh", j->folder);
    add_text(&text, "name", j->name);
    add_text(&text, "version", mds_launch_options.version);
    add_text(&text, "written", when);
    add_text(&text, "machine", l->machine->name);
    add_text(&text, "scheduler", mds_scheduler_names[l->machine->batch.scheduler]);
    add_number(&text, "nodes", (double)l->nodes);
    add_number(&text, "ranks", (double)l->ranks);
    add_number(&text, "step_s", e->step_s);
    add_text(&text, "script", script);
    add_words(&text, "asked", asked ? &words : &l->asked);
    add_words(&text, "chosen", j->arguments);
    add_request(&text, j);
    mds_argv_fini(&words);
    if (!rc)
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

/* path: where the user wants them, or "". */
static enum mds_rc find_given_events(const struct mds_launch *l, char *path,
                                     size_t size)
{
    struct mds_config_run *asked = NULL;
    const char *given = NULL;

    if (mds_launch_infers(l->options)) {
        given = mds_infer_events_path(l->asked.v, l->asked.n);
    } else {
        MDS_TRY(mds_launch_config(l, NULL, 0, &asked));
        if (mds_is_set_by_user(asked, "output.events"))
            given = asked->config.output.events;
    }
    snprintf(path, size, "%s", given ? given : "");
    mds_config_run_destroy(asked);
    return MDS_OK;
}

enum mds_rc mds_events_file_open(struct mds_launch *l, struct mds_events_file *f)
{
    int fd;

    *f = (struct mds_events_file){.path = ""};
    MDS_TRY(find_given_events(l, f->path, sizeof f->path));
    if (f->path[0] || l->options->print)
        return MDS_OK;
    fd = create_events_file(f->path);
    if (fd < 0)
        return mds_fail(MDS_EIO, "%s: cannot be created for the run's events: %s",
                        f->path, strerror(errno));
    close(fd);
    f->is_temporary = 1;
    mds_argv_add_option(&l->asked, "--events", "%s", f->path);
    return MDS_OK;
}

void mds_events_file_close(const struct mds_events_file *f)
{
    if (f->is_temporary)
        unlink(f->path);
}

/* ---- options ---- */

void mds_run_folder_outputs(const struct mds_run_folder *f,
                            const struct mds_config_run *asked, struct mds_argv *words)
{
    const char *save = asked->config.checkpoint.save;

    if (!save)
        save = f->checkpoints;
    if (!mds_is_set_by_user(asked, "output.metrics_jsonl"))
        mds_argv_add_option(words, "--metrics-jsonl", "%s/metrics.jsonl", f->path);
    if (!mds_is_set_by_user(asked, "output.events"))
        mds_argv_add_option(words, "--events", "%s/events.jsonl", f->path);
    if (!asked->config.checkpoint.save)
        mds_argv_add_option(words, "--save", "%s", save);
    if (!mds_is_set_by_user(asked, "checkpoint.load"))
        mds_argv_add_option(words, "--load", "%s", save);
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

    if (asked->config.train.skip_train)
        return MDS_OK;
    if (!mds_is_set_by_user(asked, "checkpoint.interval"))
        mds_argv_add_option(
            arguments, "--save-interval", "%lld",
            (long long)round_down_to_125(acceptable_loss_s(j) / e->step_s));
    if (!mds_is_set_by_user(asked, "checkpoint.keep_last"))
        MDS_TRY(mds_job_add_keep_last(j, arguments, &kept));
    return mds_job_log_disk_space(j, e, kept);
}
