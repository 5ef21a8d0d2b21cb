/* SPDX-License-Identifier: BSD-3-Clause */
/* The script of a job, and how a run goes on from job to job.
 *
 *   limit     Some minutes before the walltime the script is warned by SIGUSR1, by
 *             the batch system or else by timeout(1).  It hands the signal on, and the
 *             ranks save and leave with status 85; --exit-duration-in-mins makes them
 *             do the same by their own clocks.  They evaluate nothing more.
 *   status    0: the run is done; 1: it would fail again; 75: it lost a node; 85: it is
 *             out of time.  85 becomes 86 if the script was sent SIGTERM, by
 *             which batch systems preempt and cancel.
 *   requeue   A job that ends before its run is done, and left a newer checkpoint than
 *             it found, is started again, except with status 1: it is requeued, or the
 *             script submitted once more.  One that made no progress would make none
 *             again.  A job that is preempted is always requeued, by the batch system
 *             or here.
 *   chain     Jobs that were submitted behind it go on instead; the last of them says
 *             that the run is not done, and fails.  With status 1 they are cancelled.
 *   exclude   A file with the nodes that the run has lost.  mds_launch does not use
 *             them, and a batch system that can be told so does not give them to the
 *             next job.
 *   array     Of mds_infer: jobs that share its files, each with a folder of its own in
 *             the run's, for its events.
 *   done      A run that is done leaves a file of that name; jobs that find it end.
 */
#include "base/exit_status.h"
#include "launch/job.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* ---- the head ---- */

static void add_directive(const struct mds_scheduler *d, const char *key,
                          const char *value, struct mds_str *out)
{
    if (key && value)
        mds_str_add(out, "%s%s%s\n", d->prefix, key, value);
}

/* If text begins with a placeholder, append its value and return its length; else 0. */
static size_t expand_job_placeholder(const struct mds_job *j, const char *text,
                                     struct mds_str *out)
{
    if (strncmp(text, "{nodes}", 7) == 0) {
        mds_str_add(out, "%lld", (long long)mds_job_nodes(j));
        return 7;
    }
    if (strncmp(text, "{gpus}", 6) == 0) {
        mds_str_add(out, "%lld", (long long)j->launch->machine->node.gpus);
        return 6;
    }
    if (strncmp(text, "{folder}", 8) == 0) {
        mds_str_add(out, "%s", j->folder);
        return 8;
    }
    return 0;
}

/* Each line of text as a directive, with placeholders replaced. */
static void add_profile_directives(const struct mds_job *j, const char *text,
                                   struct mds_str *out)
{
    while (text && *text) {
        mds_str_add(out, "%s", mds_job_scheduler(j)->prefix);
        while (*text && *text != '\n') {
            size_t length = expand_job_placeholder(j, text, out);

            if (!length)
                mds_str_add(out, "%c", *text);
            text += length ? length : 1;
        }
        mds_str_add(out, "\n");
        text += *text == '\n';
    }
}

/* Lists as of PBS have + between nodes. */
static void add_given_exclusions(const struct mds_job *j, struct mds_str *out)
{
    const char *given = j->launch->options->exclude;

    for (const char *p = given; p && *p; p++)
        mds_str_add(out, "%c", *p == '+' ? ',' : *p);
}

static void add_exclusions(const struct mds_job *j, struct mds_str *out)
{
    const struct mds_scheduler *d = mds_job_scheduler(j);

    if (!d->exclude || !j->launch->options->exclude)
        return;
    mds_str_add(out, "%s%s", d->prefix, d->exclude);
    add_given_exclusions(j, out);
    mds_str_add(out, "\n");
}

/* What it needs of the batch system. */
static void add_request(const struct mds_job *j, struct mds_str *out)
{
    const struct mds_machine *m = j->launch->machine;
    const struct mds_scheduler *d = mds_job_scheduler(j);
    char time[32], nodes[32];

    if (d->seconds)
        snprintf(time, sizeof time, "%.0fs", j->walltime_s);
    else
        mds_clock_text(j->walltime_s, time, sizeof time);
    snprintf(nodes, sizeof nodes, "%lld", (long long)mds_job_nodes(j));
    add_directive(d, m->batch.queue_option ? m->batch.queue_option : d->queue, j->queue,
                  out);
    add_directive(d, d->project, j->project, out);
    add_directive(d, d->walltime, j->walltime_s > 0 ? time : NULL, out);
    add_directive(d, d->nodes, nodes, out);
    add_exclusions(j, out);
    add_profile_directives(j, m->batch.directives, out);
    add_directive(d, d->fixed, "", out);
    add_directive(d, d->rerun[j->launch->options->requeue != 0], "", out);
    if (j->launch->options->spare_nodes > 0)
        add_directive(d, d->outlive, "", out);
}

static void add_directives(const struct mds_job *j, struct mds_str *out)
{
    const struct mds_scheduler *d = mds_job_scheduler(j);

    char tasks[32];

    snprintf(tasks, sizeof tasks, "0-%lld", (long long)j->array - 1);
    add_directive(d, d->name, j->name, out);
    add_directive(d, d->array, j->array > 1 ? tasks : NULL, out);
    add_request(j, out);
    if (d->warning)
        mds_str_add(out, "%s%s%.0f\n", d->prefix, d->warning, j->margin_s);
    if (d->output)
        mds_str_add(out, "%s%s%s/%s\n", d->prefix, d->output, j->folder, d->log);
}

/* ---- before the ranks ---- */

static void add_assignment(const char *name, const char *value, struct mds_str *out)
{
    mds_str_add(out, "%s=", name);
    mds_shell_quote(value, out);
    mds_str_add(out, "\n");
}

/* A run that began from another's checkpoint goes on from its own. */
static void add_load_switch(const struct mds_job *j, struct mds_str *out)
{
    if (j->load)
        mds_str_add(out, "[ -z \"$before\" ] || set -- --load \"$checkpoints\" "
                         "--finetune=0 --no-load-optim=0\n");
}

/* The folder of what one job alone writes. */
static const char *own_folder(const struct mds_job *j)
{
    return j->array > 1 ? "$run/$task" : "$run";
}

/* Every n-th of the files, which are in order of size, and of their outputs. */
static void add_task(const struct mds_job *j, struct mds_str *out)
{
    static const char take[] =
        "mapfile -t %s < <(awk 'NR %% %lld == '%s \"$run/%s\")\n";
    const char *task = j->array > 1 ? "\"$task\"" : "0";

    if (j->array > 1) {
        mds_str_add(out,
                    "task=${%s:?this is a job of an array}\n"
                    "mkdir -p \"$run/$task\" || exit 1\n",
                    mds_job_scheduler(j)->task);
        mds_str_add(out, take, "files", (long long)j->array, task, "files");
    }
    if (j->infer && j->infer->output.n > 1)
        mds_str_add(out, take, "outputs", (long long)j->array, task, "outputs");
}

/* What a job has to go on from, as a command that prints it: the newest checkpoint; of
 * mds_infer how long its outputs are. */
static void add_state(const struct mds_job *j, struct mds_str *out)
{
    const struct mds_argv *o = j->infer ? &j->infer->output : NULL;

    if (!o)
        mds_str_add(out, "cat \"$checkpoints/latest\" 2> /dev/null");
    else if (o->n == 0)
        mds_str_add(out, ":");
    else if (o->n > 1)
        mds_str_add(out, "stat -c %%s -- \"${outputs[@]}\" 2> /dev/null");
    else {
        mds_str_add(out, "stat -c %%s -- ");
        mds_shell_quote(o->v[0], out);
        mds_str_add(out, " 2> /dev/null");
    }
}

/* A login shell does not know the submitter's path.  What a module or the
 * profile puts there comes later, and so goes first. */
static void add_path_setup(struct mds_str *out)
{
    char here[PATH_MAX];

    if (mds_program_folder(here, sizeof here))
        return;
    mds_str_add(out, "PATH=");
    mds_shell_quote(here, out);
    mds_str_add(out, ":$PATH\n");
}

static void add_environment_setup(const struct mds_job *j, struct mds_str *out)
{
    const struct mds_machine *m = j->launch->machine;
    const struct mds_scheduler *d = mds_job_scheduler(j);

    if (d->folder)
        mds_str_add(out, "cd \"$%s\" || exit 1\n", d->folder);
    add_path_setup(out);
    add_assignment("run", j->folder, out);
    if (d->live)
        mds_str_add(out,
                    "# What a job prints is delivered when it ends; this file can be "
                    "read while it runs.\n"
                    "[ -z \"$%s\" ] || exec >> \"$run/job-${%s%%%%.*}.log\" 2>&1\n",
                    d->id, d->id);
    if (!j->infer)
        add_assignment("checkpoints", j->checkpoints, out);
    add_task(j, out);
    mds_str_add(out, "[ ! -e \"%s/done\" ] || exit 0\nbefore=$(", own_folder(j));
    add_state(j, out);
    mds_str_add(out, ")\n");
    add_load_switch(j, out);
    if (m->batch.init)
        mds_str_add(out, "%s\n", m->batch.init);
    if (m->batch.modules)
        mds_str_add(out, "module load %s || exit 1\n", m->batch.modules);
}

/* ---- the ranks ---- */

/* The nodes and ranks that were planned for, as options, so that the environment of the
 * job cannot change them. */
static void add_placement_options(const struct mds_launch *l, struct mds_argv *w)
{
    const struct mds_launch_options *o = l->options;

    mds_argv_add_option(w, "--nodes", "%lld", (long long)l->nodes);
    mds_argv_add_option(w, "--ranks-per-node", "%lld", (long long)l->per_node);
    mds_argv_add_option(w, "--ranks", "%lld", (long long)l->ranks);
    if (o->hostfile && l->machine->batch.scheduler == MDS_SCHEDULER_NONE)
        mds_argv_add_option(w, "--hostfile", "%s", o->hostfile);
}

/* What else was said to mds_launch that concerns the start of the ranks. */
static void add_start_options(const struct mds_job *j, struct mds_argv *w)
{
    const struct mds_launch_options *o = j->launch->options;

    if (o->exclude)
        mds_argv_add_option(w, "--exclude", "%s", o->exclude);
    mds_argv_add_option(w, "--exclude-file", "%s/exclude", j->folder);
    mds_argv_add_option(w, "--max-restarts", "%lld", (long long)o->max_restarts);
    if (o->program)
        mds_argv_add_option(w, "--program", "%s", o->program);
    if (o->command)
        mds_argv_add_option(w, "--launcher-command", "%s", o->command);
    if (!o->check_memory)
        mds_argv_add(w, "--no-check-memory");
}

/* Folds a line before an option. */
static const char fold[] = " \\\n    ";

/* Of an array the files are the task's; what is in w is printed before them. */
static void add_infer_words(const struct mds_job *j, struct mds_argv *w,
                            struct mds_str *out)
{
    const struct mds_infer_plan *p = j->infer;

    mds_argv_add_words(w, p->own.n, p->own.v);
    if (j->array == 1) {
        mds_argv_add_words(w, p->files.n, p->files.v);
    } else {
        out->failed |= w->failed;
        mds_argv_format(w, fold, out);
        mds_argv_fini(w);
        *w = (struct mds_argv){0};
        mds_str_add(out, " \"${files[@]}\"%s", p->passed.n > 0 ? fold : "");
    }
    mds_argv_add_words(w, p->passed.n, p->passed.v);
}

static void add_launch_command(const struct mds_job *j, struct mds_str *out)
{
    const struct mds_machine *m = j->launch->machine;
    struct mds_argv w = {0};

    if (!mds_job_scheduler(j)->warning && j->walltime_s > 0)
        mds_str_add(out, "timeout --foreground --preserve-status --signal=USR1 %.0f ",
                    j->walltime_s - j->margin_s);
    mds_argv_add_split(&w, "mds_launch --machine");
    mds_argv_add(&w, "%s",
                 j->launch->options->machine ? j->launch->options->machine : m->name);
    add_placement_options(j->launch, &w);
    add_start_options(j, &w);
    mds_argv_add(&w, "--");
    if (j->infer)
        add_infer_words(j, &w, out);
    else
        mds_argv_add_words(&w, j->arguments->n, j->arguments->v);
    out->failed |= w.failed;
    mds_argv_format(&w, fold, out);
    mds_argv_fini(&w);
    if (j->infer)
        mds_str_add(out, "%s--events \"%s/events.jsonl\"", fold, own_folder(j));
    mds_str_add(out, "%s &\npid=$!\n", j->load ? " \\\n    \"$@\"" : "");
    if (j->infer)
        return;
    mds_str_add(out,
                "[ -z \"$WANDB_PROJECT$MLFLOW_TRACKING_URI\" ] ||\n"
                "    mds_track --follow $pid \"$run\" >> \"$run/track.log\" 2>&1 &\n");
}

/* The ranks are sent one signal at most: a second one would end them unsaved. */
static void add_wait_loop(struct mds_str *out)
{
    mds_str_add(out,
                "warned=\n"
                "# the ranks save, and leave with status %d\n"
                "trap 'woken=1; [ -n \"$warned\" ] || kill -USR1 $pid; warned=1' USR1\n"
                "trap 'stopped=1; kill -USR1 $$' TERM\n"
                "woken=1\n"
                "while [ -n \"$woken\" ]; do # a signal ends the wait, not the run\n"
                "    woken=\n"
                "    wait $pid\n"
                "    status=$?\n"
                "done\n"
                "wait # for mds_track\n",
                MDS_EXIT_UNFINISHED);
}

/* ---- after the ranks ---- */

/* Set excluded to the nodes that must not be given to the next job. */
static void add_excluded_nodes(const struct mds_job *j, struct mds_str *out)
{
    mds_str_add(out, "excluded=\n"
                     "if [ -s \"$run/exclude\" ]; then # nodes that the run has lost\n"
                     "    excluded=");
    if (j->launch->options->exclude) {
        mds_str_add(out, "'");
        add_given_exclusions(j, out);
        mds_str_add(out, "',");
    }
    mds_str_add(out, "$(sed 's/#.*//' \"$run/exclude\" | tr -s ' \\t' '\\n' | "
                     "sed 's/,*$//; /^$/d' | sort -u | paste -sd, -)\nfi\n");
}

/* A failure that would repeat (status 1) is not tried again. */
static void add_requeue(const struct mds_job *j, struct mds_str *out)
{
    const struct mds_scheduler *d = mds_job_scheduler(j);

    mds_str_add(out, "if [ \"$(");
    add_state(j, out);
    mds_str_add(out,
                ")\" != \"$before\" ] && "
                "[ -z \"$stopped\" ] && [ \"$status\" -ne %d ]; then\n"
                "%sfi\n",
                MDS_EXIT_REPEATS, j->array > 1 ? d->again_task : d->again);
}

/* A signal of the batch system may have reached the ranks alone. */
static void add_preemption_check(struct mds_str *out)
{
    mds_str_add(out,
                "# %d: out of time; %d: preempted or cancelled\n"
                "[ -z \"$stopped\" ] || [ \"$status\" -ne %d ] || status=%d\n"
                "[ \"$status\" -ne %d ] || stopped=1\n",
                MDS_EXIT_UNFINISHED, MDS_EXIT_TERMINATED, MDS_EXIT_UNFINISHED,
                MDS_EXIT_TERMINATED, MDS_EXIT_TERMINATED);
}

/* run.yaml lists the jobs of the chain, "jobs: [12, 13]", but not those that somebody
 * submitted later.  Without a batch system mds_launch knows which is the last. */
static void add_chain_end(const struct mds_job *j, struct mds_str *out)
{
    const struct mds_scheduler *d = mds_job_scheduler(j);
    int is_array = j->array > 1;

    if (!d->id)
        return;
    mds_str_add(
        out,
        "# the later jobs of the chain\n"
        "next=$(sed -n \"s/^jobs: .*\\b%s%s, \\(.*\\)]/\\1/p\" \"$run/run.yaml\" "
        "| tr -d ,)\n",
        is_array ? "" : "$", is_array ? d->array_id : d->id);
    if (d->update)
        mds_str_add(out,
                    "[ -z \"$excluded\" ] || for job in $next; do\n"
                    "    %s\ndone\n",
                    d->update);
    if (!is_array) /* others of the array may have no fault */
        mds_str_add(
            out,
            "if [ \"$status\" -eq %d ] && [ -n \"$next\" ]; then\n"
            "    echo \"mds: error: the later jobs of the chain would fail in the "
            "same way, so they are cancelled: $next\" >&2\n"
            "    %s $next\n"
            "fi\n",
            MDS_EXIT_REPEATS, d->cancel);
    mds_str_add(out,
                "if [ \"$status\" -eq %d ]; then\n"
                "    [ -z \"$next\" ] || exit 0 # the next job goes on\n"
                "    echo \"mds: error: this was the last job of its chain, and the "
                "run is not done; go on with: mds_launch continue $run\" >&2\n"
                "fi\n",
                MDS_EXIT_UNFINISHED);
}

static void add_exit_handling(const struct mds_job *j, struct mds_str *out)
{
    const struct mds_scheduler *d = mds_job_scheduler(j);
    int can = !j->infer || (j->infer->resumes && (j->array == 1 || d->again_task));
    int requeue = j->chain == 1 && j->launch->options->requeue && can;

    add_preemption_check(out);
    mds_str_add(out,
                "if [ \"$status\" -eq 0 ]; then\n    touch \"%s/done\"\n"
                "    exit 0\nfi\n",
                own_folder(j));
    if (d->leave)
        mds_str_add(out, "%s", d->leave);
    if (d->preempted && j->launch->options->requeue)
        mds_str_add(out, "%s", d->preempted);
    if (d->exclude && (j->chain > 1 || requeue))
        add_excluded_nodes(j, out);
    if (j->chain > 1)
        add_chain_end(j, out);
    if (requeue)
        add_requeue(j, out);
    mds_str_add(out, "exit \"$status\"\n");
}

void mds_job_script(const struct mds_job *j, struct mds_str *out)
{
    mds_str_add(out, "#!/bin/bash -l\n");
    add_directives(j, out);
    mds_str_add(
        out,
        "# Written by mds_launch submit for %s.  Started again, it goes on from %s.\n",
        j->launch->machine->name,
        j->infer ? "what is written" : "the newest checkpoint");
    add_environment_setup(j, out);
    add_launch_command(j, out);
    add_wait_loop(out);
    add_exit_handling(j, out);
}
