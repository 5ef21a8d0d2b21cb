/* SPDX-License-Identifier: BSD-3-Clause */
/* mds_launch: find nodes, choose a layout, start or submit mds_pretrain. */
#include "base/str.h"
#include "base/units.h"
#include "launch/infer.h"
#include "launch/launch.h"
#include "launch/options.h"
#include "launch/submit.h"
#include "programs/subcommands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct mds_launch_options *launch_options(const struct mds_invocation *c)
{
    return c->settings.values;
}

/* ---- subcommands ---- */

/* Of subcommands that are for trainings. */
static enum mds_rc refuse_infer(const struct mds_invocation *c, const char *name)
{
    return mds_launch_infers(launch_options(c))
               ? mds_fail(MDS_EUSER,
                          "%s --program mds_infer: plan, run and submit take it; %s is "
                          "for trainings",
                          name, name)
               : MDS_OK;
}

static enum mds_rc launch_run_ranks(const struct mds_invocation *c)
{
    return mds_launch_run(launch_options(c), c->passed_argc, c->passed_argv, c->status);
}

static enum mds_rc launch_run_check(const struct mds_invocation *c)
{
    MDS_TRY(refuse_infer(c, "check"));
    return mds_launch_check(launch_options(c), c->passed_argc, c->passed_argv);
}

static enum mds_rc launch_run_where(const struct mds_invocation *c)
{
    struct mds_launch l;

    MDS_TRY(mds_launch_open(launch_options(c), 0, 0, NULL, &l));
    printf("machine %s (%s)\n", l.machine->name, l.machine->path);
    mds_placement_print(&l.placement, stdout);
    printf("%lld rank%s: %lld node%s, %lld on each\n", (long long)l.ranks,
           mds_plural(l.ranks), (long long)l.nodes, mds_plural(l.nodes),
           (long long)l.per_node);
    mds_launch_close(&l);
    return MDS_OK;
}

static enum mds_rc print_plan(struct mds_launch *l, const struct mds_plan_request *r,
                              int64_t rows)
{
    struct mds_diag diag = {0};
    struct mds_plan p;
    enum mds_rc rc = mds_plan_search(r, &diag, &p);

    mds_diag_log(&diag);
    mds_diag_fini(&diag);
    if (rc)
        return rc;
    mds_plan_print(r, &p, rows, stdout);
    fflush(stdout); /* before what is logged of it */
    if (p.fit_count == 0) {
        mds_plan_advise(r, &p, stdout);
        rc = mds_plan_refuse(r, &p);
    } else {
        rc = mds_launch_print_outlook(l, r->run, &p, stdout);
    }
    mds_plan_fini(&p);
    return rc;
}

/* Where no sequence fits, nor does the one that is set, and a plan for it says why. */
static enum mds_rc refuse_max_seq(const struct mds_plan_request *r)
{
    struct mds_diag diag = {0};
    struct mds_plan p;
    enum mds_rc rc = mds_plan_search(r, &diag, &p);

    mds_diag_fini(&diag);
    if (rc)
        return rc;
    rc = mds_plan_refuse(r, &p);
    mds_plan_fini(&p);
    return rc;
}

static enum mds_rc print_max_seq(const struct mds_plan_request *r)
{
    struct mds_plan_longest longest;
    struct mds_str text = {0};

    MDS_TRY(mds_plan_max_seq(r, &longest));
    if (longest.seq == 0 && longest.untried > 0)
        return mds_fail(
            MDS_EUSER,
            "no sequence length tried so far fits; give more --plan-seconds");
    if (longest.seq == 0)
        return refuse_max_seq(r);
    mds_layout_describe(&longest.best.layout, r->world, &text);
    printf("longest sequence: %s%lld tokens, with %s\n",
           longest.untried > 0 ? "at least " : "", (long long)longest.seq,
           text.s ? text.s : "");
    if (longest.untried > 0)
        printf(
            "so far: the search was cut at %.3g s, with %lld grid%s not tried to the "
            "end; --plan-seconds gives it more\n",
            r->budget_s, (long long)longest.untried, mds_plural(longest.untried));
    printf("%lld dry run%s in %.1f s\n", (long long)longest.dry_runs,
           mds_plural(longest.dry_runs), longest.took_s);
    mds_str_fini(&text);
    return MDS_OK;
}

static enum mds_rc launch_run_plan(const struct mds_invocation *c)
{
    const struct mds_launch_options *o = launch_options(c);
    struct mds_config_run *run = NULL;
    struct mds_plan_request r;
    struct mds_launch l;
    enum mds_rc rc;

    if (mds_launch_infers(o))
        return mds_infer_plan_command(o, c->passed_argc, c->passed_argv);
    if (o->layout == MDS_LAYOUT_GIVEN)
        return mds_fail(MDS_EUSER,
                        "--layout given: plan varies what the options after -- leave "
                        "open; set there what is fixed, and leave --layout out");
    MDS_TRY(mds_launch_open(o, 1, c->passed_argc, c->passed_argv, &l));
    rc = mds_launch_config(&l, NULL, 1, &run);
    if (rc)
        goto close_launch;
    mds_launch_read_data(&l, run);
    rc = mds_launch_check_paths(&run->config.data);
    if (!rc)
        rc = mds_launch_request(&l, run, &r);
    if (rc)
        goto destroy_run;
    printf("%s", run->config.model.size_key ? run->config.model.size_key : "a model");
    if (!o->max_seq)
        printf(", %lld tokens", (long long)run->config.model.seq_length);
    printf(", %lld rank%s: %lld node%s of %s\n", (long long)l.ranks,
           mds_plural(l.ranks), (long long)l.nodes, mds_plural(l.nodes),
           l.machine->name);
    rc = o->max_seq ? print_max_seq(&r) : print_plan(&l, &r, o->rows);
destroy_run:
    mds_config_run_destroy(run);
close_launch:
    mds_launch_close(&l);
    return rc;
}

static enum mds_rc launch_run_check_profile(const struct mds_invocation *c)
{
    const char *path = c->operand[0];
    struct mds_machine *m = NULL;
    struct mds_diag diag = {0};
    enum mds_rc rc = mds_machine_load(path, &diag, &m);

    if (!rc)
        printf("%s: %s, %s\n", path, m->name, m->about);
    mds_machine_destroy(m);
    mds_diag_fini(&diag);
    return rc;
}

static enum mds_rc launch_run_submit(const struct mds_invocation *c)
{
    return mds_submit(launch_options(c), c->operand, c->operand_count, c->passed_argc,
                      c->passed_argv);
}

static int execute_submit(int argc, char **argv);

/* All arguments but the subcommand and its first `own` operands, for another
 * subcommand. */
static struct mds_submit_line other_arguments(const struct mds_invocation *c,
                                              size_t own)
{
    struct mds_submit_line line = {.argv = c->argv + 1,
                                   .operand_count = c->operand_count - own,
                                   .operands = c->operand + own};

    for (int i = 1; i < c->argc; i++) {
        int is_own = c->argv[i] == c->settings.operands[0];

        for (size_t k = 0; k < own; k++)
            is_own |= c->argv[i] == c->operand[k];
        if (!is_own)
            c->argv[1 + line.argc++] = c->argv[i];
    }
    return line;
}

static enum mds_rc launch_run_sweep(const struct mds_invocation *c)
{
    const char *path = c->operand[0];
    struct mds_submit_line line = other_arguments(c, 1);

    MDS_TRY(refuse_infer(c, "sweep"));
    return mds_sweep(launch_options(c), path, &line, execute_submit);
}

static enum mds_rc launch_run_lr_find(const struct mds_invocation *c)
{
    const char *plot = c->operand[0];
    const char *steps = c->operand_count > 1 ? c->operand[1] : "200";
    struct mds_submit_line line = other_arguments(c, c->operand_count);

    MDS_TRY(refuse_infer(c, "lr-find"));
    return mds_lr_find(plot, steps, &line);
}

static enum mds_rc launch_run_status(const struct mds_invocation *c)
{
    return mds_status(launch_options(c), c->operand_count > 0 ? c->operand[0] : NULL);
}

static enum mds_rc launch_run_continue(const struct mds_invocation *c)
{
    return mds_continue(launch_options(c), c->operand[0]);
}

static enum mds_rc launch_run_cancel(const struct mds_invocation *c)
{
    return mds_cancel(launch_options(c), c->operand[0]);
}

static enum mds_rc launch_run_report(const struct mds_invocation *c)
{
    return mds_report(launch_options(c), c->operand[0]);
}

static enum mds_rc launch_run_models(const struct mds_invocation *c)
{
    MDS_TRY(refuse_infer(c, "models"));
    return mds_models(launch_options(c), c->passed_argc, c->passed_argv);
}

static const struct mds_subcommand subcommands[] = {
    {"run", "[run] [option]... [-- mds_pretrain's option...]",
     "Starts mds_pretrain on the nodes of this job: finds nodes and GPUs, chooses a "
     "layout where none is given, checks by a dry run that it fits in memory, prints "
     "the launcher's line and runs it. --print prints it only. Without --save it makes "
     "a run folder as submit does, with checkpoints, metrics and the log. The run "
     "starts "
     "again on a spare node of the job if it loses one.",
     "Where Planning Run folders", .run = launch_run_ranks},
    {"where", "where [option]...",
     "Prints what each source says of nodes, ranks and GPUs, what is taken, and every "
     "disagreement.",
     "Where", .run = launch_run_where},
    {"check", "check [option]... [-- mds_pretrain's option...]",
     "Starts the ranks as run does, but only to check and compare the nodes "
     "(--preflight-only): versions, GPUs, memory, folders, and the speed of "
     "collectives "
     "over the layout's groups. Prints a table; a fault is named with its rank and "
     "host, and the status is not 0.",
     "Where Planning", .run = launch_run_check},
    {"plan", "plan [option]... [-- mds_pretrain's option...]",
     "Makes a dry run of every layout that divides the ranks, and prints those that "
     "fit, fastest first, and why others do not. What is set stays as it is.\n"
     "Example: MODEL_SIZE_KEY=GPT25B SEQ_LEN=128000 mds_launch plan --machine polaris "
     "--nodes 8",
     "Where Planning", .run = launch_run_plan},
    {"models", "models [option]... [-- mds_pretrain's option...]",
     "Lists the shapes of the model table (--model-table, or the models.yaml that came "
     "with mds) with their parameters, and a layout for each that fits here, by dry "
     "runs of its sequence length or SEQ_LEN.\n"
     "Example: SEQ_LEN=32k mds_launch models --machine h200 --nodes 4",
     "Where Planning", .run = launch_run_models},
    {"check-profile", "check-profile FILE",
     "Names all that is missing or wrong in a machine's profile, with lines. "
     "docs/new-machine.md tells how to write one.",
     "", 1, 1, "one FILE", .run = launch_run_check_profile},
    {"submit",
     "submit [QUEUE [NODES [WALLTIME [PROJECT]]]] [option]... [-- mds_pretrain's "
     "option...]",
     "Checks the queue's limits, plans, makes a folder for the run with its job.sh, "
     "and calls qsub or sbatch. The job saves, leaves before the walltime, and goes "
     "on until the run is done.\n"
     "Example: MODEL_SIZE_KEY=GPT25B SEQ_LEN=128000 TRAIN_ITERS=1000 mds_launch "
     "submit prod 16 3:00:00 MyProject",
     "Where Planning Run folders Jobs", .most = 4, .run = launch_run_submit},
    {"sweep",
     "sweep FILE [QUEUE [NODES [WALLTIME [PROJECT]]]] [option]... [-- mds_pretrain's "
     "option...]",
     "FILE is a map from variables to lists, such as SEQ_LEN: [32k, 64k]. Each "
     "combination is planned, and submitted if it fits. The other operands are those "
     "of "
     "submit.",
     "Where Planning Run folders Jobs", 1, 5, "a FILE", .run = launch_run_sweep},
    {"lr-find", "lr-find OUT.svg [STEPS] [option]... [-- mds_pretrain's option...]",
     "Runs STEPS steps (200) as run does, with a learning rate that rises from 1e-6 to "
     "1, and prints where the loss was lowest, how sure that is, and the highest rate "
     "that is as good: a run may begin with it, if its rate decays. Draws OUT.svg; the "
     "steps are in OUT.jsonl. Nothing is saved.\n"
     "Example: mds_launch lr-find rates.svg -- --config run.yaml",
     "Where Planning Run folders", 1, 2, "OUT.svg", .run = launch_run_lr_find},
    {"status", "status [DIR] [option]...",
     "A line for each run folder in DIR (--runs), or for the run that DIR is: its "
     "state, "
     "step, losses, speed, how long it and its job still take, and the last event. "
     "Reads "
     "events.jsonl, metrics.jsonl and run.yaml, and asks the batch system for the job.",
     "Status Run folders", .most = 1, .run = launch_run_status},
    {"continue", "continue NAME [option]...",
     "Submits the next job of a run that is not done, NAME in --runs or its folder. "
     "Without a batch system the run goes on here.",
     "Run folders", 1, 1, "the NAME of a run", .run = launch_run_continue},
    {"cancel", "cancel NAME [option]...",
     "Lets a run save and leave, and cancels its jobs that wait. It can be continued.",
     "Run folders", 1, 1, "the NAME of a run", .run = launch_run_cancel},
    {"report", "report DIR [option]...",
     "Reads metrics.jsonl, events.jsonl and run.yaml of every run folder in DIR; "
     "writes "
     "report.md and report.csv there: sizes, speed, losses, node-hours, and the "
     "options "
     "in which the runs differ. With gnuplot also losses.svg, longest.svg, speed.svg "
     "and, of runs on several ranks, stragglers.svg. --html makes one page of all.",
     "Report", 1, 1, "one DIR of run folders", .run = launch_run_report},
    {0},
};

static const struct mds_program program = {&mds_launch_options, subcommands, "run"};

/* For a run of a sweep. */
static int execute_submit(int argc, char **argv)
{
    struct mds_launch_options options = {0};

    return mds_program_run(&program, argc, argv, &options);
}

int main(int argc, char **argv)
{
    struct mds_launch_options options = {0};

    return mds_program_run(&program, argc, argv, &options);
}
