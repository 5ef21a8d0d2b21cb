/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/submit.h"
#include "base/log.h"
#include "base/str.h"
#include "base/units.h"
#include "ckpt/folder.h"
#include "launch/job.h"
#include "launch/run_folder.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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
static enum mds_rc write_and_submit(const struct mds_job *j,
                                    const struct mds_config_run *asked,
                                    const struct mds_estimate *e)
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
    MDS_TRY(mds_run_folder_describe(j, asked, e));
    if (o->write) {
        printf("%s: written\n", j->folder);
        return MDS_OK;
    }
    return mds_job_submit_chain(j);
}

/* ---- options that a job needs to save and resume ---- */

/* Predicted: every rank writes its part at this rate, which is what one of them reaches
 * on a plain disk. */
static double predicted_save_s(const struct mds_launch *l, const struct mds_estimate *e)
{
    return mds_ckpt_bytes(e->parameters) / (double)l->ranks / 0.4e9;
}

/* How long before the walltime to exit: as the user set it, else at most half of it, so
 * that something is trained.  What may still run then is a step, or a batch of an
 * evaluation, the save in the background, and the last one. */
static double exit_margin_s(const struct mds_job *j, const struct mds_estimate *e,
                            int saves)
{
    double s = 120 + 2 * e->step_s + saves * predicted_save_s(j->launch, e);

    if (j->launch->options->margin_s > 0)
        return j->launch->options->margin_s;
    s = ceil(s / 60) * 60;
    return s < j->walltime_s / 2 ? s : floor(j->walltime_s / 2);
}

/* Add the option for the exit time unless the user set it. */
static void add_exit(struct mds_job *j, const struct mds_config_run *asked,
                     const struct mds_estimate *e, struct mds_argv *arguments)
{
    if (j->walltime_s <= 0)
        return;
    j->margin_s = exit_margin_s(j, e, asked->config.checkpoint.async_save ? 2 : 1);
    if (!mds_is_set_by_user(asked, "train.exit_duration"))
        mds_argv_add_option(arguments, "--exit-duration-in-mins", "%.15g",
                            (j->walltime_s - j->margin_s) / 60);
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

/* Not all batch systems can be told which nodes a job must not get. */
static void warn_of_excluded_nodes(const struct mds_job *j)
{
    const struct mds_launch_options *o = j->launch->options;
    int row = j->launch->machine->batch.scheduler;

    if (o->exclude && o->spare_nodes == 0 && row != MDS_SCHEDULER_NONE &&
        !mds_scheduler_at(row)->exclude)
        mds_warn(
            "--exclude %s: the batch system may give these nodes to the job, which "
            "then fails at its start; ask for spare nodes to replace them "
            "(--spare-nodes)",
            o->exclude);
}

/* Use the spare nodes. */
static void add_preflight(const struct mds_job *j, const struct mds_config_run *asked,
                          struct mds_argv *words)
{
    if (j->launch->options->spare_nodes > 0 &&
        !mds_is_set_by_user(asked, "train.preflight"))
        mds_argv_add(words, "--preflight");
}

/* Say how long the run is, or what is left of it. */
static void log_length(const struct mds_job *j)
{
    double job_s = j->walltime_s > 0 ? j->walltime_s - j->margin_s : 0;
    struct mds_str text = {0};
    char walltime[32];

    mds_launch_length(j->launch, job_s,
                      mds_clock_text(j->walltime_s, walltime, sizeof walltime), &text);
    if (text.s)
        mds_info("%s, as predicted", text.s);
    mds_str_fini(&text);
}

static enum mds_rc plan_and_submit(struct mds_launch *l, struct mds_job *j,
                                   const struct mds_config_run *asked)
{
    struct mds_argv arguments = {0};
    struct mds_estimate e;
    enum mds_rc rc;

    rc = mds_launch_choose_layout(l, &arguments, &e);
    if (!rc)
        rc = mds_run_folder_saves(j, asked, &e, &arguments);
    if (!rc) {
        add_exit(j, asked, &e, &arguments);
        log_length(j);
        j->arguments = &arguments;
        rc = arguments.failed ? mds_fail(MDS_EMEM, "no host memory for arguments")
                              : write_and_submit(j, asked, &e);
    }
    mds_argv_fini(&arguments);
    return rc;
}

/* The job takes its run's name and folder, which is made. */
static enum mds_rc open_folder(struct mds_launch *l, struct mds_job *j,
                               struct mds_run_folder *f)
{
    j->name = f->name;
    j->folder = f->path;
    MDS_TRY(check_job(j));
    if (!l->options->print)
        MDS_TRY(mds_run_folder_create(l, f));
    warn_of_scratch_folder(j);
    warn_of_excluded_nodes(j);
    return MDS_OK;
}

/* asked: the configuration as the user gave it. */
static enum mds_rc make_and_submit(struct mds_launch *l, struct mds_job *j,
                                   const struct mds_config_run *asked)
{
    const struct mds_checkpoint_config *c = &asked->config.checkpoint;
    int print = l->options->print;
    struct mds_run_folder f;
    enum mds_rc rc;

    MDS_TRY(mds_run_folder_name(l, asked, &f));
    MDS_TRY(open_folder(l, j, &f));
    j->checkpoints = c->save ? c->save : f.checkpoints;
    if (c->load && strcmp(c->load, j->checkpoints) != 0)
        j->load = c->load;
    mds_run_folder_outputs(&f, asked, &l->asked);
    add_preflight(j, asked, &l->asked);
    rc = plan_and_submit(l, j, asked);
    if (rc && !print)
        mds_run_folder_remove(l, &f);
    return rc;
}

/* ---- a job of mds_infer ---- */

/* For the script: one a line. */
static enum mds_rc write_names(const struct mds_job *j, const char *name,
                               const struct mds_argv *list)
{
    struct mds_str text = {0};
    enum mds_rc rc;

    for (size_t i = 0; i < list->n; i++)
        if (strchr(list->v[i], '\n'))
            return mds_fail(MDS_EUSER, "%s: a line break in a name; rename the file",
                            list->v[i]);
    for (size_t i = 0; i < list->n; i++)
        mds_str_add(&text, "%s\n", list->v[i]);
    rc = text.failed ? mds_fail(MDS_EMEM, "no host memory for a list of files")
                     : mds_folder_write(j->folder, name, 0, 0644, text.s);
    mds_str_fini(&text);
    return rc;
}

static enum mds_rc write_files(const struct mds_job *j, const struct mds_infer_plan *p)
{
    if (j->launch->options->print)
        return MDS_OK;
    if (j->array > 1)
        MDS_TRY(write_names(j, "files", &p->files));
    return p->output.n > 1 ? write_names(j, "outputs", &p->output) : MDS_OK;
}

static enum mds_rc check_going_on(const struct mds_job *j,
                                  const struct mds_infer_plan *p)
{
    if (p->resumes)
        return MDS_OK;
    if (j->chain > 1)
        return mds_fail(MDS_EUSER,
                        "--chain: another job goes on only with score into --output, "
                        "without --overwrite, --per-token and --track, and with embed "
                        "of several files into an --output with a {}; leave it out");
    mds_warn("the job cannot go on if it ends before its work does: that takes score "
             "into --output, without --overwrite, --per-token and --track, or embed "
             "into an --output with a {}");
    return MDS_OK;
}

/* A job that ends before it has written anything makes no progress. */
static enum mds_rc check_walltime(const struct mds_job *j,
                                  const struct mds_infer_plan *p)
{
    const struct mds_infer_layout *y = &p->tried[p->best];
    double there_s = j->walltime_s - j->margin_s;
    double need_s = y->results_s;
    char need[32], walltime[32], tokens[32];

    if (y->all_s > 0 && y->all_s < need_s)
        need_s = y->all_s;
    if (j->walltime_s <= 0 || need_s <= there_s)
        return MDS_OK;
    return mds_fail(
        MDS_EUSER,
        "results of sequences of %s tokens are written after %s, and a job of %s ends "
        "before: ask for more time or nodes",
        mds_format_count((double)y->tokens, tokens, sizeof tokens),
        mds_format_seconds(need_s, need, sizeof need),
        mds_clock_text(j->walltime_s, walltime, sizeof walltime));
}

static enum mds_rc plan_and_submit_infer(struct mds_launch *l, struct mds_job *j,
                                         struct mds_infer_plan *p)
{
    struct mds_argv arguments = {0};
    struct mds_str text = {0};
    char walltime[32];
    enum mds_rc rc = mds_infer_plan_make(l, j->array, p);

    if (!rc)
        rc = mds_infer_plan_check(l, p);
    if (!rc)
        rc = check_going_on(j, p);
    if (!rc) {
        const struct mds_estimate *e = &p->tried[p->best].estimate;

        if (j->walltime_s > 0)
            j->margin_s = exit_margin_s(j, e, 0);
        mds_infer_plan_length(l, p, j->walltime_s - j->margin_s,
                              mds_clock_text(j->walltime_s, walltime, sizeof walltime),
                              &text);
        if (text.len)
            mds_info("%s", text.s);
        mds_infer_plan_arguments(p, &arguments);
        j->arguments = &arguments;
        rc = check_walltime(j, p);
        if (!rc)
            rc = write_files(j, p);
        if (!rc)
            rc = arguments.failed ? mds_fail(MDS_EMEM, "no host memory for arguments")
                                  : write_and_submit(j, NULL, e);
    }
    mds_str_fini(&text);
    mds_argv_fini(&arguments);
    return rc;
}

static enum mds_rc check_array(const struct mds_job *j)
{
    const struct mds_machine *m = j->launch->machine;

    if (j->array > 1 && !j->infer)
        return mds_fail(MDS_EUSER,
                        "--array is for --program mds_infer; a sweep submits "
                        "trainings that differ");
    if (j->array > 1 && !mds_job_scheduler(j)->array)
        return mds_fail(
            MDS_EUSER, "--array: %s's batch system has no arrays of jobs; leave it out",
            m->name);
    return MDS_OK;
}

static enum mds_rc submit_infer(struct mds_launch *l, struct mds_job *j)
{
    struct mds_infer_plan p = {.best = -1};
    int print = l->options->print;
    struct mds_run_folder f;
    enum mds_rc rc;

    j->infer = &p;
    MDS_TRY(check_array(j));
    MDS_TRY(mds_run_folder_name_infer(l, l->asked.n > 0 ? l->asked.v[0] : "infer", &f));
    MDS_TRY(open_folder(l, j, &f));
    rc = plan_and_submit_infer(l, j, &p);
    if (rc && !print)
        mds_run_folder_remove(l, &f);
    mds_infer_plan_close(&p);
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
        .array = options->array,
        .launch = &l,
    };
    if (mds_launch_infers(options)) {
        rc = submit_infer(&l, &j);
    } else {
        rc = check_array(&j);
        if (!rc)
            rc = mds_launch_config(&l, NULL, 0, &asked);
        if (!rc)
            rc = make_and_submit(&l, &j, asked);
    }
    mds_config_run_destroy(asked);
    mds_launch_close(&l);
    return rc;
}
