/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/submit.h"
#include "base/log.h"
#include "base/str.h"
#include "base/units.h"
#include "ckpt/folder.h"
#include "launch/batch_syntax.h"
#include "launch/folder.h"
#include "launch/job.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- operands ---- */

static enum mds_rc parse_nodes(const char *text, int64_t *out)
{
    if (mds_parse_count(text, out) || *out < 1)
        return mds_fail(MDS_EUSER, "submit: NODES '%s' must be a number from 1", text);
    return MDS_OK;
}

/* A bare number means seconds to PBS, minutes to Slurm and Cobalt, so it is an
 * error. */
static enum mds_rc parse_walltime(const char *text, double *out)
{
    if (!text[strspn(text, "0123456789")])
        return mds_fail(MDS_EUSER, "walltime '%s' has no unit; write %smin or 1:00:00",
                        text, text);
    if (mds_parse_seconds(text, out) || *out < 60)
        return mds_fail(MDS_EUSER,
                        "walltime '%s': must be a time of a minute or more, such as "
                        "1:00:00 or 90min",
                        text);
    return MDS_OK;
}

/* ---- the run's folder ---- */

/* run.yaml: what is to be submitted; mds_job_record adds the jobs. */
static enum mds_rc write_run_yaml(const struct mds_job *j)
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

/* ---- the job ---- */

static enum mds_rc check_job(const struct mds_job *j)
{
    struct mds_diag diag = {0};
    enum mds_rc rc;

    mds_job_check(j, &diag);
    rc = mds_diag_result(&diag);
    mds_diag_fini(&diag);
    return rc;
}

/* With --print the folder of the run has a name only. */
static enum mds_rc write_and_submit(const struct mds_job *j)
{
    const struct mds_launch_options *o = j->launch->options;
    struct mds_str script = {0};
    enum mds_rc rc = MDS_OK;

    mds_job_script(j, &script);
    if (script.failed)
        rc = mds_fail(MDS_EMEM, "no host memory for a script");
    else if (o->print)
        fputs(script.s, stdout);
    else
        rc = mds_folder_write(j->folder, "job.sh", 0, 0755, script.s);
    mds_str_fini(&script);
    if (rc || o->print)
        return rc;
    MDS_TRY(write_run_yaml(j));
    if (o->write) {
        printf("%s: written\n", j->folder);
        return MDS_OK;
    }
    return mds_job_submit_chain((enum mds_scheduler)j->launch->machine->batch.scheduler,
                                j->folder, o->chain);
}

/* "GPT25B-128000-8n", and the tag */
static enum mds_rc choose_run_name(const struct mds_launch *l,
                                   const struct mds_config_run *asked, char *name,
                                   size_t size)
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
    snprintf(name, size, "%s%s%s", base, *tag ? "-" : "", tag);
    return *base && !strchr(name, '/')
               ? MDS_OK
               : mds_fail(MDS_EUSER, "--name '%s': must be a name, not a path", name);
}

/* ---- options that a job needs to save and resume ---- */

static int is_set_by_user(const struct mds_config_run *asked, const char *key)
{
    return mds_settings_of(&asked->settings, key)->level > MDS_LEVEL_DERIVED;
}

/* Add options for the output files and for an orderly exit unless the user set them. */
static void add_default_options(const struct mds_job *j,
                                const struct mds_config_run *asked,
                                struct mds_argv *words)
{
    const struct {
        const char *key, *flag, *value;
    } rows[] = {
        {"output.metrics_jsonl", "--metrics-jsonl", NULL},
        {"checkpoint.save", "--save", j->checkpoints},
        {"checkpoint.load", "--load", j->checkpoints},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (is_set_by_user(asked, rows[i].key))
            continue;
        mds_argv_add(words, "%s", rows[i].flag);
        if (rows[i].value)
            mds_argv_add(words, "%s", rows[i].value);
        else
            mds_argv_add(words, "%s/metrics.jsonl", j->folder);
    }
    if (!is_set_by_user(asked, "train.exit_signal_handler"))
        mds_argv_add(words, "--exit-signal-handler");
    if (j->launch->options->spare_nodes > 0 &&
        !is_set_by_user(asked, "train.preflight"))
        mds_argv_add(words, "--preflight"); /* so that the spare nodes are used */
}

/* Predicted: every rank writes its part at this rate, which is what one of them reaches
 * on a plain disk. */
static double predicted_save_s(const struct mds_launch *l, const struct mds_estimate *e)
{
    return mds_ckpt_bytes(e->parameters) / (double)l->ranks / 0.4e9;
}

/* How long before the walltime to exit: as the user set it, else at most half of it, so
 * that something is trained.  What may still run then is a step, or a batch of an
 * evaluation, the save in the background, and the last one. */
static double exit_margin_s(const struct mds_job *j, const struct mds_config *asked,
                            const struct mds_estimate *e)
{
    int saves = asked->checkpoint.async_save ? 2 : 1;
    double s = 120 + 2 * e->step_s + saves * predicted_save_s(j->launch, e);

    if (j->launch->options->margin_s > 0)
        return j->launch->options->margin_s;
    s = ceil(s / 60) * 60;
    return s < j->walltime_s / 2 ? s : floor(j->walltime_s / 2);
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

/* Add options for the save interval and the exit time unless the user set them. */
static void add_save_interval_and_exit(struct mds_job *j,
                                       const struct mds_config_run *asked,
                                       const struct mds_estimate *e,
                                       struct mds_argv *arguments)
{
    if (!is_set_by_user(asked, "checkpoint.interval")) {
        mds_argv_add(arguments, "--save-interval");
        mds_argv_add(arguments, "%lld",
                     (long long)round_down_to_125(acceptable_loss_s(j) / e->step_s));
    }
    if (j->walltime_s <= 0)
        return;
    j->margin_s = exit_margin_s(j, &asked->config, e);
    if (!is_set_by_user(asked, "train.exit_duration")) {
        mds_argv_add(arguments, "--exit-duration-in-mins");
        mds_argv_add(arguments, "%.15g", (j->walltime_s - j->margin_s) / 60);
    }
}

static enum mds_rc add_keep_last(const struct mds_job *j,
                                 const struct mds_config_run *asked,
                                 const struct mds_estimate *e,
                                 struct mds_argv *arguments)
{
    int64_t kept = asked->config.checkpoint.keep_last;

    if (!is_set_by_user(asked, "checkpoint.keep_last"))
        MDS_TRY(mds_job_add_keep_last(j, arguments, &kept));
    return mds_job_log_disk_space(j, e, kept);
}

/* Other nodes and the next job must see the folder. */
static void warn_of_scratch_folder(const struct mds_job *j)
{
    const struct mds_machine *m = j->launch->machine;
    const char *scratch = m->node.scratch;
    char path[PATH_MAX];

    if (scratch && m->batch.scheduler != MDS_SCHEDULER_NONE && realpath(".", path) &&
        mds_path_is_in(j->folder[0] == '/' ? j->folder : path, scratch))
        mds_warn("%s is under %s, which profile %s says is local to each node: other "
                 "nodes and "
                 "the next job will not see it; run from a shared file system, or give "
                 "--runs",
                 j->folder, scratch, m->name);
}

/* Only Slurm can be told which nodes a job must not get. */
static void warn_of_excluded_nodes(const struct mds_job *j)
{
    const struct mds_launch_options *o = j->launch->options;
    enum mds_scheduler s = (enum mds_scheduler)j->launch->machine->batch.scheduler;

    if (o->exclude && o->spare_nodes == 0 && s != MDS_SCHEDULER_NONE &&
        !mds_batch_syntax_of(s)->exclude)
        mds_warn(
            "--exclude %s: the batch system may give these nodes to the job, which "
            "then fails at its start; ask for spare nodes to replace them "
            "(--spare-nodes)",
            o->exclude);
}

static enum mds_rc plan_and_submit(struct mds_launch *l, struct mds_job *j,
                                   const struct mds_config_run *asked)
{
    struct mds_argv arguments = {0};
    struct mds_estimate e;
    enum mds_rc rc;

    add_default_options(j, asked, &l->asked);
    rc = mds_launch_choose_layout(l, &arguments, &e);
    if (!rc)
        rc = add_keep_last(j, asked, &e, &arguments);
    if (!rc) {
        add_save_interval_and_exit(j, asked, &e, &arguments);
        j->arguments = &arguments;
        rc = arguments.failed ? mds_fail(MDS_EMEM, "no host memory for arguments")
                              : write_and_submit(j);
    }
    mds_argv_fini(&arguments);
    return rc;
}

/* asked: the configuration as the user gave it. */
static enum mds_rc make_and_submit(struct mds_launch *l, struct mds_job *j,
                                   const struct mds_config_run *asked)
{
    const struct mds_launch_options *o = l->options;
    const struct mds_checkpoint_config *c = &asked->config.checkpoint;
    char name[256], folder[MDS_PATH_SIZE], checkpoints[MDS_PATH_SIZE + 16];
    int had_runs = access(o->folder, F_OK) == 0;
    enum mds_rc rc;

    MDS_TRY(choose_run_name(l, asked, name, sizeof name));
    j->name = name;
    j->folder = folder;
    MDS_TRY(mds_path_join(o->folder, name, folder));
    MDS_TRY(check_job(j));
    if (!o->print)
        MDS_TRY(mds_folder_make(o->folder, name, folder));
    warn_of_scratch_folder(j);
    warn_of_excluded_nodes(j);
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", folder);
    j->checkpoints = c->save ? c->save : checkpoints;
    if (c->load && strcmp(c->load, j->checkpoints) != 0)
        j->load = c->load;
    rc = plan_and_submit(l, j, asked);
    if (rc && !o->print)
        rmdir(folder); /* unless a job has left something in it */
    if (rc && !o->print && !had_runs)
        rmdir(o->folder);
    return rc;
}

enum mds_rc mds_submit(struct mds_launch_options *options, char *const *operands,
                       size_t operand_count, int argc, char *const *argv)
{
    const char *walltime = operand_count > 2 ? operands[2] : options->walltime;
    struct mds_config_run *asked = NULL;
    double walltime_s = 0;
    struct mds_launch l;
    struct mds_job j;
    enum mds_rc rc;

    if (operand_count > 1)
        MDS_TRY(parse_nodes(operands[1], &options->nodes_asked));
    if (walltime)
        MDS_TRY(parse_walltime(walltime, &walltime_s));
    MDS_TRY(mds_launch_open(options, 1, argc, argv, &l));
    j = (struct mds_job){
        .queue = operand_count > 0 ? operands[0] : options->queue,
        .project = operand_count > 3 ? operands[3] : options->project,
        .walltime_s = walltime_s,
        .chain = options->chain,
        .launch = &l,
    };
    rc = mds_launch_config(&l, NULL, 0, &asked);
    if (!rc)
        rc = make_and_submit(&l, &j, asked);
    mds_config_run_destroy(asked);
    mds_launch_close(&l);
    return rc;
}
