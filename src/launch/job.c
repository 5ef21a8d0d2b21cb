#include "launch/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* How a batch system spells things; NULL: it has no such thing. */
struct dialect {
    const char *prefix, *name, *queue, *project, *walltime, *nodes;
    const char *fixed; /* lines that are always there */
    const char *submit, *after;
};

static const struct dialect dialects[] = {
    [MDS_SCHEDULER_NONE] = {.prefix = "", .submit = "sh"},
    [MDS_SCHEDULER_PBS] = {"#PBS ", "-N ", "-q ", "-A ", "-l walltime=", NULL,
                           "-j oe\n-r y", "qsub", "-W depend=afterany:"},
    [MDS_SCHEDULER_SLURM] = {"#SBATCH ", "--job-name=", "--partition=", "--account=",
                             "--time=", "--nodes=",
                             "--requeue\n--open-mode=append\n--signal=B:USR1@120",
                             "sbatch --parsable", "--dependency=afterany:"},
    [MDS_SCHEDULER_COBALT] = {"#COBALT ", "--jobname ", "-q ", "-A ", "-t ", "-n ",
                              NULL, "qsub", "--dependencies "},
};

static const struct dialect *dialect_of(const struct mds_job *j)
{
    return &dialects[j->launch->machine->batch.scheduler];
}

/* ---- limits ---- */

static void unknown_queue(const struct mds_job *j, struct mds_diag *diag)
{
    const struct mds_machine *m = j->launch->machine;
    const char *names[64], *near = NULL;
    struct mds_str all = {0};
    size_t n = 0;

    for (; n < m->queue_count && n < 64; n++) {
        names[n] = m->queues[n].name;
        mds_str_add(&all, "%s%s", n ? ", " : "", names[n]);
    }
    if (j->queue)
        near = mds_str_nearest(j->queue, names, n);
    if (near)
        mds_diag_fault(diag, NULL, "queue %s is not one of %s; did you mean %s?",
                       j->queue, m->name, near);
    else
        mds_diag_fault(diag, NULL, "%s%s%s of %s; give --queue (QUEUE): %s",
                       j->queue ? "queue " : "no queue", j->queue ? j->queue : "",
                       j->queue ? " is not one" : "", m->name, all.s ? all.s : "none");
    mds_str_fini(&all);
}

/* "26:00:00" */
static const char *clock_text(double s, char *buf, size_t size)
{
    long n = (long)s;

    snprintf(buf, size, "%02ld:%02ld:%02ld", n / 3600, n / 60 % 60, n % 60);
    return buf;
}

static void check_queue(const struct mds_job *j, const struct mds_queue *q,
                        struct mds_diag *diag)
{
    int64_t nodes = j->launch->nodes;
    char asked[32], most[32];

    if (nodes < q->min_nodes || nodes > q->max_nodes)
        mds_diag_fault(diag, NULL, "%lld nodes: queue %s takes %lld to %lld",
                       (long long)nodes, q->name, (long long)q->min_nodes,
                       (long long)q->max_nodes);
    if (j->walltime_s > q->max_s)
        mds_diag_fault(diag, NULL, "walltime %s: queue %s gives %s at most",
                       clock_text(j->walltime_s, asked, sizeof asked), q->name,
                       clock_text(q->max_s, most, sizeof most));
}

void mds_job_check(const struct mds_job *j, struct mds_diag *diag)
{
    const struct mds_machine *m = j->launch->machine;
    const struct mds_queue *q = j->queue ? mds_machine_queue(m, j->queue) : NULL;

    if (m->batch.scheduler == MDS_SCHEDULER_NONE)
        return;
    if (q)
        check_queue(j, q, diag);
    else
        unknown_queue(j, diag);
    if (j->walltime_s <= 0)
        mds_diag_fault(diag, NULL,
                       "no walltime; give --walltime (DURATION), such as "
                       "1:00:00");
    if (!j->project)
        mds_diag_fault(diag, NULL, "no project; give --project (PROJECT)");
}

/* ---- the script ---- */

static void directive(const struct dialect *d, const char *key, const char *value,
                      struct mds_str *out)
{
    if (key && value)
        mds_str_add(out, "%s%s%s\n", d->prefix, key, value);
}

/* Each line of text, {nodes} and {gpus} filled in. */
static void directives(const struct mds_job *j, const char *text, struct mds_str *out)
{
    const char *prefix = dialect_of(j)->prefix;

    while (text && *text) {
        mds_str_add(out, "%s", prefix);
        for (; *text && *text != '\n'; text++)
            if (strncmp(text, "{nodes}", 7) == 0) {
                mds_str_add(out, "%lld", (long long)j->launch->nodes);
                text += 6;
            } else if (strncmp(text, "{gpus}", 6) == 0) {
                mds_str_add(out, "%lld", (long long)j->launch->machine->node.gpus);
                text += 5;
            } else {
                mds_str_add(out, "%c", *text);
            }
        mds_str_add(out, "\n");
        text += *text == '\n';
    }
}

static void head(const struct mds_job *j, struct mds_str *out)
{
    const struct mds_machine *m = j->launch->machine;
    const struct dialect *d = dialect_of(j);
    char time[32], nodes[32];

    clock_text(j->walltime_s, time, sizeof time);
    snprintf(nodes, sizeof nodes, "%lld", (long long)j->launch->nodes);
    directive(d, d->name, j->name, out);
    directive(d, m->batch.queue_option ? m->batch.queue_option : d->queue, j->queue,
              out);
    directive(d, d->project, j->project, out);
    directive(d, d->walltime, j->walltime_s > 0 ? time : NULL, out);
    directive(d, d->nodes, nodes, out);
    directives(j, m->batch.directives, out);
    directives(j, d->fixed, out);
    if (m->batch.scheduler == MDS_SCHEDULER_PBS)
        mds_str_add(out, "%s-o %s/\n", d->prefix, j->folder);
    else if (m->batch.scheduler == MDS_SCHEDULER_SLURM)
        mds_str_add(out, "%s--output=%s/job-%%j.log\n", d->prefix, j->folder);
    else if (m->batch.scheduler == MDS_SCHEDULER_COBALT)
        mds_str_add(out, "%s-O %s/job\n", d->prefix, j->folder);
}

/* Slurm warns the script, which hands the signal on: mds_pretrain finishes its step. */
static void body(const struct mds_job *j, struct mds_str *out)
{
    const struct mds_machine *m = j->launch->machine;
    int warned = m->batch.scheduler == MDS_SCHEDULER_SLURM;
    struct mds_words w = {0};

    if (m->batch.scheduler == MDS_SCHEDULER_PBS)
        mds_str_add(out, "cd \"$PBS_O_WORKDIR\" || exit 1\n");
    if (m->batch.init)
        mds_str_add(out, "%s\n", m->batch.init);
    if (m->batch.modules)
        mds_str_add(out, "module load %s || exit 1\n", m->batch.modules);
    mds_words_split(&w, warned ? "mds_launch --machine" : "exec mds_launch --machine");
    mds_words_add(&w, "%s",
                  j->launch->options->machine ? j->launch->options->machine : m->name);
    if (m->batch.scheduler == MDS_SCHEDULER_NONE)
        mds_words_add(&w, "--ranks=%lld", (long long)j->launch->ranks);
    mds_words_add(&w, "--");
    for (size_t i = 0; i < j->arguments->n; i++)
        mds_words_add(&w, "%s", j->arguments->v[i]);
    out->failed |= w.failed;
    mds_words_line(&w, " \\\n    ", out);
    mds_words_fini(&w);
    if (warned)
        mds_str_add(out,
                    " &\npid=$!\ntrap 'kill -USR1 $pid' USR1\nwait $pid\nstatus=$?\n"
                    "# a signal ends the first wait, not the run\n"
                    "if [ $status -gt 128 ]; then\n    wait $pid\n    status=$?\n"
                    "fi\nexit $status");
    mds_str_add(out, "\n");
}

void mds_job_script(const struct mds_job *j, struct mds_str *out)
{
    mds_str_add(out, "#!/bin/bash -l\n");
    head(j, out);
    mds_str_add(out,
                "# Written by mds_launch submit for %s.  There are no checkpoints "
                "yet: a job that is run\n# again begins anew.\n",
                j->launch->machine->name);
    body(j, out);
}

/* ---- submission ---- */

static enum mds_rc read_id(FILE *f, const char *command, char *id, size_t size)
{
    char line[512] = "", last[512] = "";
    int status;

    while (fgets(line, sizeof line, f))
        if (line[strspn(line, " \n")])
            snprintf(last, sizeof last, "%s", line);
    status = pclose(f);
    if (status != 0)
        return mds_fail(MDS_EUSER, "'%s' failed with status %d; it printed: %.200s",
                        command, WIFEXITED(status) ? WEXITSTATUS(status) : status,
                        last[0] ? last : "nothing");
    last[strcspn(last, " \n;")] = '\0';
    snprintf(id, size, "%.*s", (int)size - 1, last);
    return id[0] ? MDS_OK : mds_fail(MDS_EUSER, "'%s' printed no job id", command);
}

/* What the batch system says on standard error stays visible. */
enum mds_rc mds_job_submit(const struct mds_job *j, const char *path, const char *after,
                           char *id, size_t size)
{
    const struct dialect *d = dialect_of(j);
    struct mds_str command = {0};
    enum mds_rc rc;
    FILE *f;

    mds_str_add(&command, "%s ", d->submit);
    if (after && d->after)
        mds_str_add(&command, "%s%s ", d->after, after);
    mds_quote(path, &command);
    if (j->launch->machine->batch.scheduler == MDS_SCHEDULER_NONE)
        mds_str_add(&command, " >%s/job.log 2>&1 && echo local", j->folder);
    if (command.failed) {
        mds_str_fini(&command);
        return mds_fail(MDS_EMEM, "no host memory for a command");
    }
    fflush(stdout);
    f = popen(command.s, "re");
    rc = f ? read_id(f, command.s, id, size)
           : mds_fail(MDS_EIO, "%s: %s", command.s, strerror(errno));
    mds_str_fini(&command);
    return rc;
}
