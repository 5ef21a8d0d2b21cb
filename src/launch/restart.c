/* SPDX-License-Identifier: BSD-3-Clause */
/* A run, and its restarts on spare nodes.
 *
 * The ranks' events say which of them died or was silent, and which node --preflight
 * finds unfit.  That node is left out from then on, another one of the job takes its
 * place, and the same command is run again: it resumes from the newest checkpoint.
 * Other failures would repeat, so they end the run. */
#include "base/clock.h"
#include "base/events.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/units.h"
#include "ckpt/folder.h"
#include "ckpt/folder_lock.h"
#include "launch/infer.h"
#include "launch/launch.h"
#include "launch/run_events.h"
#include "launch/run_folder.h"
#include "launch/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct job {
    struct mds_launch launch;
    struct mds_argv arguments;
    const struct mds_config *config; /* as asked for */
    double began_s;
    int64_t restarts;
    int64_t first, newest; /* checkpoints in --save: at the start, now; -1: none */
    int in_vain;           /* the last start led to no newer one */
    int log;               /* what the ranks print is added to this file; -1: to none */
    struct mds_events_file events; /* .path "": in a run folder */
    struct mds_infer_plan *infer;  /* NULL: a training */
};

/* Of a run of mds_infer what it has written is what a checkpoint is elsewhere. */
static int64_t newest_checkpoint(const struct job *j)
{
    int64_t iteration = -1;

    if (j->infer)
        return mds_infer_plan_written(j->infer);
    if (j->config->checkpoint.save &&
        mds_ckpt_latest(j->config->checkpoint.save, &iteration))
        return -1; /* mds_pretrain says why */
    return iteration;
}

/* ---- nodes ---- */

/* The node of the list that the loss is about, by its name or by its rank's place; NULL
 * if it is none that the run uses. */
static const char *lost_node(const struct mds_launch *l, const struct mds_loss *loss)
{
    const struct mds_hosts *h = mds_placement_hosts(&l->placement);
    int64_t at = h ? mds_hosts_find(h, loss->host) : -1;

    if (at < 0)
        at = loss->rank / l->per_node;
    return h && at < l->nodes ? h->name[at] : NULL;
}

/* "rank 1 was killed by signal 9 (Killed)", "it does not answer" */
static void describe_loss(const struct mds_loss *loss, char *text, size_t size)
{
    char who[32] = "it";

    if (loss->rank >= 0)
        snprintf(who, sizeof who, "rank %d", loss->rank);
    snprintf(text, size, "%s %s", who, loss->why);
}

static enum mds_rc add_to_file(const char *path, const char *node,
                               const struct mds_loss *loss)
{
    time_t now = time(NULL);
    char when[32] = "", why[256];
    struct tm utc;
    FILE *f = fopen(path, "ae");
    int bad;

    if (!f)
        return mds_fail_write(path);
    if (gmtime_r(&now, &utc))
        strftime(when, sizeof when, "%F %T UTC", &utc);
    describe_loss(loss, why, sizeof why);
    bad = fprintf(f, "%s # %s: %s\n", node, when, why) < 0;
    bad |= fclose(f) != 0;
    return bad ? mds_fail(MDS_EIO, "%s: %s", path, strerror(errno)) : MDS_OK;
}

static void record_bad_node(const char *path, const char *node,
                            const struct mds_loss *loss)
{
    if (path && *path && add_to_file(path, node, loss))
        mds_warn("node %s is not recorded: %s", node, mds_fail_text());
}

struct lost_node {
    char name[MDS_HOST_SIZE];
    const struct mds_loss *loss; /* the first there */
};

static int is_listed(const struct lost_node *nodes, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(nodes[i].name, name) == 0)
            return 1;
    return 0;
}

/* The nodes of the losses, each once; returns their number. */
static int find_lost_nodes(const struct mds_launch *l, const struct mds_losses *lost,
                           struct lost_node out[MDS_LOSSES])
{
    int n = 0;

    for (int i = 0; i < lost->n; i++) {
        const char *name = lost_node(l, &lost->v[i]);

        if (!name || is_listed(out, n, name))
            continue;
        snprintf(out[n].name, sizeof out[n].name, "%.*s", MDS_HOST_SIZE - 1, name);
        out[n++].loss = &lost->v[i];
    }
    return n;
}

/* Whether mds_launch asked this loss's node, and had no answer. */
static int does_not_answer(const struct mds_launch *l, const struct mds_losses *lost,
                           const struct mds_loss *loss)
{
    const char *name = lost_node(l, loss);

    for (int i = 0; name && i < lost->n; i++) {
        const char *dead = lost->v[i].silent ? NULL : lost_node(l, &lost->v[i]);

        if (dead && strcmp(dead, name) == 0)
            return 1;
    }
    return 0;
}

/* A host that is cut off finds the others silent, as they find it: nodes that answer
 * are kept if another one does not.  If all answer the first to be called silent is
 * left out. */
static void keep_answering_nodes(const struct mds_launch *l, struct mds_losses *lost)
{
    struct mds_losses all = *lost;
    int asked = 0;

    for (int i = 0; i < all.n; i++)
        asked |= !all.v[i].silent;
    lost->n = 0;
    for (int i = 0; i < all.n; i++)
        if (!all.v[i].silent || (asked ? does_not_answer(l, &all, &all.v[i]) : i == 0))
            lost->v[lost->n++] = all.v[i];
}

/* Leave out these nodes, or as many as there are spares for.  Returns how many there
 * were no spares for. */
static int leave_out(struct job *j, const struct lost_node *nodes, int n, int in_check)
{
    struct mds_launch *l = &j->launch;
    const struct mds_hosts *h = mds_placement_hosts(&l->placement);
    char why[256];
    int left = 0;

    for (int i = 0; i < n; i++) {
        describe_loss(nodes[i].loss, why, sizeof why);
        mds_warn("node %s is left out: %s%s", nodes[i].name,
                 in_check ? "preflight: " : "", why);
        record_bad_node(l->options->exclude_file, nodes[i].name, nodes[i].loss);
        if (j->config->checkpoint.save &&
            mds_ckpt_break_lock(j->config->checkpoint.save, nodes[i].name))
            mds_warn("%s", mds_fail_text());
        if ((int64_t)h->count > l->nodes &&
            !mds_placement_leave_out(&l->placement, nodes[i].name))
            left++;
    }
    return n - left;
}

static void give_up(int status, const char *why)
{
    char reason[256];

    snprintf(reason, sizeof reason, "the run is not started again: %s", why);
    mds_error("%s", reason);
    mds_record_failure(status, reason);
}

/* ---- whether to start again ---- */

/* Whether another start goes on from what this one leaves. */
static int can_resume(const struct job *j)
{
    return j->infer ? j->infer->resumes : j->config->checkpoint.save != NULL;
}

/* Why a run whose nodes could be replaced must not start again; NULL: it may. */
static const char *reason_to_stop(const struct job *j)
{
    const struct mds_config *c = j->config;

    if (!can_resume(j))
        return j->infer ? "it would begin anew (docs/inference.md)"
                        : "there is no --save to resume from";
    if (j->restarts >= j->launch.options->max_restarts)
        return "it has been restarted --max-restarts times";
    if (j->in_vain)
        return j->infer ? "nothing was written since the last restart"
                        : "no checkpoint was written since the last restart, so it "
                          "might fail again at the same step";
    if (c->train.exit_duration_s > 0 &&
        mds_clock_s() - j->began_s >= c->train.exit_duration_s)
        return "the time of --exit-duration-in-mins is over";
    return NULL;
}

static int resumes_by_itself(const struct mds_config *c)
{
    const struct mds_checkpoint_config *k = &c->checkpoint;

    return k->load && strcmp(k->load, k->save) == 0 && !k->finetune &&
           !k->no_load_optim;
}

/* Resume, also a run that began from another's checkpoint, in what is left of its time.
 * Of options that are given twice the last one counts. */
static void add_restart_options(struct job *j)
{
    const struct mds_config *c = j->config;
    double duration_s = c->train.exit_duration_s;

    if (j->infer)
        return;
    if (j->newest > j->first && !resumes_by_itself(c)) {
        mds_argv_add_option(&j->arguments, "--load", "%s", c->checkpoint.save);
        mds_argv_add_split(&j->arguments, "--finetune=0 --no-load-optim=0");
    }
    if (duration_s > 0)
        mds_argv_add_option(&j->arguments, "--exit-duration-in-mins", "%.6g",
                            (duration_s - (mds_clock_s() - j->began_s)) / 60);
}

/* The iteration that the next start resumes from; 0: it begins again. */
static int64_t next_start(const struct job *j)
{
    if (j->infer)
        return -1;
    return j->newest > j->first || (j->newest >= 0 && resumes_by_itself(j->config))
               ? j->newest
               : 0;
}

static void log_restart(const struct job *j)
{
    char from[64] = "the beginning";

    if (j->infer)
        snprintf(from, sizeof from, "the end of what is written");
    else if (next_start(j) > 0)
        snprintf(from, sizeof from, "iteration %lld", (long long)j->newest);
    mds_info("starting again from %s (restart %lld of at most %lld)", from,
             (long long)j->restarts, (long long)j->launch.options->max_restarts);
}

static int restart_after_loss(struct job *j)
{
    int64_t newest = newest_checkpoint(j);
    const char *why_not;

    j->in_vain = newest <= j->newest && j->restarts > 0;
    j->newest = newest;
    why_not = reason_to_stop(j);
    if (why_not) {
        give_up(MDS_EXIT_LOST, why_not);
        return 0;
    }
    j->restarts++;
    log_restart(j);
    add_restart_options(j);
    return 1;
}

/* Of a launcher that has ended with 0, while the ranks say nothing of their end. */
static int status_of_silence(const struct job *j)
{
    const struct mds_train_config *t = &j->config->train;
    int sig = mds_supervise_caught();

    if (j->launch.options->print || t->preflight_only)
        return MDS_EXIT_DONE;
    if (can_resume(j) && sig)
        return MDS_EXIT_UNFINISHED;
    if (sig)
        return MDS_EXIT_SIGNAL + sig;
    mds_error("the ranks ended without saying that the run is done");
    return MDS_EXIT_LOST;
}

/* What the ranks say.  The launcher's status counts only where they say nothing, or
 * that all is well: srun has 137 if it kills the other ranks of one that fails, and
 * MPICH's mpiexec may have 0 when it has passed a signal on. */
static int status_of(const struct job *j, const struct mds_outcome *o)
{
    const struct mds_losses *l = &o->lost;
    int status = o->status;

    if (l->has_status && (l->status != MDS_EXIT_DONE || status == 0))
        status = l->status;
    else if (l->stuck)
        status = l->stuck == 1 ? MDS_EXIT_REPEATS : MDS_EXIT_LOST;
    else if (status == 0)
        status = status_of_silence(j);
    if (status == MDS_EXIT_UNFINISHED && mds_supervise_caught() == SIGTERM)
        status = MDS_EXIT_TERMINATED;
    return status;
}

/* Replace the nodes that were lost.  Returns whether the run may start again; if not
 * *status is the one to end with. */
static int replace_nodes(struct job *j, const struct mds_losses *lost, int *status)
{
    const int most_listed = 50; /* faults that --preflight lists */
    struct lost_node nodes[MDS_LOSSES];
    int n = find_lost_nodes(&j->launch, lost, nodes), unreplaced;
    char why[96];

    *status = MDS_EXIT_LOST;
    if (n == 0)
        return 0;
    if (lost->in_check && n > 1 && n >= mds_min(j->launch.nodes, most_listed)) {
        *status = MDS_EXIT_REPEATS;
        give_up(*status, "all nodes fail the check, so the cause is not a bad node");
        return 0;
    }
    unreplaced = leave_out(j, nodes, n, lost->in_check);
    if (unreplaced == 0)
        return 1;
    snprintf(why, sizeof why, "the job has no spare node for %d node%s (--spare-nodes)",
             unreplaced, mds_plural(unreplaced));
    give_up(*status, why);
    return 0;
}

/* *status: in the end, if this returns 0. */
static int start_again(struct job *j, struct mds_outcome *o, int *status)
{
    *status = status_of(j, o);
    if (*status == 0 || *status == MDS_EXIT_UNFINISHED ||
        *status == MDS_EXIT_TERMINATED || mds_supervise_caught())
        return 0;
    if (o->lost.out_of_memory) {
        *status = MDS_EXIT_REPEATS;
        return 0;
    }
    if ((o->lost.silent || o->lost.stuck) &&
        mds_launch_find_silent(&j->launch, &o->lost))
        mds_warn("unknown which nodes answer: %s", mds_fail_text());
    keep_answering_nodes(&j->launch, &o->lost);
    if (o->lost.n == 0 || mds_supervise_caught() || !replace_nodes(j, &o->lost, status))
        return 0;
    if (o->lost.in_check || (o->lost.stuck && !o->lost.started)) {
        mds_info("starting without %s", o->lost.n > 1 ? "them" : "it");
        add_restart_options(j);
    } else if (!restart_after_loss(j)) {
        return 0;
    }
    mds_record_restart(&o->lost, next_start(j), j->restarts);
    return 1;
}

/* So that the events have an end also where no rank could write one. */
static void record_silent_end(const struct mds_outcome *o, int status)
{
    char reason[96];

    if (o->lost.has_status || o->lost.n > 0 || o->lost.stuck || status == MDS_EXIT_DONE)
        return;
    snprintf(reason, sizeof reason,
             "the ranks said nothing of their end; their launcher's status is %d",
             o->status);
    mds_record_failure(status, reason);
}

/* ---- the run ---- */

static void log_command(const struct mds_argv *command, int log)
{
    struct mds_str line = {0};

    mds_argv_format(command, " ", &line);
    if (line.s && dprintf(log, "%s\n", line.s) < 0)
        mds_warn("job.log: %s", strerror(errno));
    mds_str_fini(&line);
}

static enum mds_rc start_ranks(const struct job *j, struct mds_outcome *out)
{
    struct mds_argv command = {0};
    enum mds_rc rc = mds_launch_command(&j->launch, &j->arguments, &command);

    *out = (struct mds_outcome){0};
    if (!rc)
        rc = mds_launch_print_command(&command);
    if (!rc && j->log >= 0)
        log_command(&command, j->log);
    if (!rc && !j->launch.options->print)
        mds_record_launch(&j->launch);
    if (!rc && !j->launch.options->print)
        rc = mds_supervise(&command, j->log, j->config->output.events, out);
    mds_argv_fini(&command);
    return rc;
}

static enum mds_rc run_to_the_end(struct job *j, int *status)
{
    struct mds_outcome o;

    j->began_s = mds_clock_s();
    j->first = j->newest = newest_checkpoint(j);
    do
        MDS_TRY(start_ranks(j, &o));
    while (start_again(j, &o, status));
    record_silent_end(&o, *status);
    return MDS_OK;
}

/* ---- a run that nobody told where to save ---- */

/* "--save ''" says that nothing is to stay. */
static int needs_folder(const struct mds_launch *l, const struct mds_config_run *asked)
{
    const struct mds_train_config *t = &asked->config.train;

    return !mds_is_set_by_user(asked, "checkpoint.save") && !t->skip_train &&
           !t->preflight_only && !l->options->print;
}

static enum mds_rc create_folder(struct mds_launch *l,
                                 const struct mds_config_run *asked,
                                 struct mds_run_folder *f)
{
    MDS_TRY(mds_run_folder_name(l, asked, f));
    MDS_TRY(mds_run_folder_create(l, f));
    mds_run_folder_outputs(f, asked, &l->asked);
    return MDS_OK;
}

/* As of a submitted run; where there is no batch system with a script to go on. */
static enum mds_rc fill_folder(struct job *j, const struct mds_run_folder *f,
                               const struct mds_config_run *asked,
                               const struct mds_estimate *e)
{
    const struct mds_job run = {.launch = &j->launch,
                                .arguments = &j->arguments,
                                .name = f->name,
                                .folder = f->path,
                                .checkpoints = f->checkpoints,
                                .load = asked->config.checkpoint.load,
                                .chain = 1,
                                .array = 1};
    int local = j->launch.machine->batch.scheduler == MDS_SCHEDULER_NONE;
    struct mds_str script = {0};
    char path[MDS_PATH_SIZE];
    enum mds_rc rc = MDS_OK;

    MDS_TRY(mds_run_folder_saves(&run, asked, e, &j->arguments));
    MDS_TRY(mds_run_folder_describe(&run, asked, e));
    if (local)
        mds_job_script(&run, &script);
    if (script.failed)
        rc = mds_fail(MDS_EMEM, "no host memory for a script");
    else if (local)
        rc = mds_folder_write(f->path, "job.sh", 0, 0755, script.s);
    mds_str_fini(&script);
    if (!rc)
        rc = mds_path_join(f->path, "job.log", path);
    if (rc)
        return rc;
    j->log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (j->log < 0)
        return mds_fail_write(path);
    if (local)
        mds_info("%s has checkpoints, metrics.jsonl and job.log; to go on later: "
                 "sh %s/job.sh",
                 f->path, f->path);
    else
        mds_info("%s has checkpoints, metrics.jsonl and job.log; to go on later, give "
                 "--save and --load %s",
                 f->path, f->checkpoints);
    return MDS_OK;
}

/* Of mds_infer: its outputs are where the user says. */
static enum mds_rc prepare_infer(struct job *j, struct mds_infer_plan *p)
{
    struct mds_str text = {0};

    j->infer = p;
    MDS_TRY(mds_events_file_open(&j->launch, &j->events));
    MDS_TRY(mds_infer_plan_make(&j->launch, 0, p));
    MDS_TRY(mds_infer_plan_check(&j->launch, p));
    mds_infer_plan_arguments(p, &j->arguments);
    mds_infer_plan_length(&j->launch, p, 0, NULL, &text);
    if (text.len)
        mds_info("plan: %s", text.s);
    mds_str_fini(&text);
    j->config = &p->model.run->config;
    return j->arguments.failed ? mds_fail(MDS_EMEM, "no host memory for arguments")
                               : MDS_OK;
}

/* Choose the layout, and where to save if the user has not said so. */
static enum mds_rc prepare_run(struct job *j)
{
    struct mds_config_run *asked = NULL;
    struct mds_estimate estimate;
    struct mds_run_folder f;
    int new_folder;
    enum mds_rc rc;

    MDS_TRY(mds_launch_config(&j->launch, NULL, 0, &asked));
    new_folder = needs_folder(&j->launch, asked);
    if (isatty(STDOUT_FILENO) && !mds_is_set_by_user(asked, "output.log_format"))
        mds_argv_add_split(&j->launch.asked, "--log-format short");
    rc = new_folder ? create_folder(&j->launch, asked, &f)
                    : mds_events_file_open(&j->launch, &j->events);
    if (rc)
        goto destroy_asked;
    rc = mds_launch_choose_layout(&j->launch, &j->arguments, &estimate);
    if (!rc && new_folder)
        rc = fill_folder(j, &f, asked, &estimate);
    if (rc && new_folder)
        mds_run_folder_remove(&j->launch, &f);
destroy_asked:
    mds_config_run_destroy(asked);
    return rc;
}

enum mds_rc mds_launch_run(const struct mds_launch_options *options, int argc,
                           char *const *argv, int *status)
{
    struct mds_infer_plan infer = {.best = -1};
    struct mds_config_run *asked = NULL;
    struct job j = {.log = -1};
    enum mds_rc rc;

    MDS_TRY(mds_launch_open(options, 0, argc, argv, &j.launch));
    mds_placement_warn(&j.launch.placement);
    if (mds_launch_infers(options))
        rc = prepare_infer(&j, &infer);
    else
        rc = prepare_run(&j);
    if (!rc && !j.infer)
        rc = mds_launch_config(&j.launch, NULL, 0, &asked);
    if (!rc) {
        if (asked)
            j.config = &asked->config;
        mds_events_open(j.config->output.events);
        rc = run_to_the_end(&j, status);
    }
    mds_config_run_destroy(asked);
    mds_infer_plan_close(&infer);
    mds_events_file_close(&j.events);
    if (j.log >= 0)
        close(j.log);
    mds_argv_fini(&j.arguments);
    mds_launch_close(&j.launch);
    return rc;
}
