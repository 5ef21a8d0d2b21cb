/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/job.h"
#include "base/events.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/units.h"
#include "launch/folder.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- limits ---- */

/* What a message shows of a value: its first line. */
static int first_line_length(const char *text)
{
    return (int)strcspn(text, "\n\r");
}

static void fault_unknown_queue(const struct mds_job *j, struct mds_diag *diag)
{
    const struct mds_machine *m = j->launch->machine;
    const char *names[64], *near = NULL;
    struct mds_str all = {0};
    size_t n = 0;

    for (size_t i = 0; i < m->queue_count && n < 64; i++) {
        if (mds_machine_queue(m, m->queues[i].name, 0) != &m->queues[i])
            continue; /* another row of that queue */
        names[n] = m->queues[i].name;
        mds_str_add(&all, "%s%s", n ? ", " : "", names[n]);
        n++;
    }
    if (j->queue)
        near = mds_str_nearest(j->queue, names, n);
    if (near)
        mds_diag_fault(diag, NULL, "queue %.*s is not one of %s; did you mean %s?",
                       first_line_length(j->queue), j->queue, m->name, near);
    else if (j->queue)
        mds_diag_fault(diag, NULL,
                       "queue %.*s is not one of %s: %s; add other queues to %s",
                       first_line_length(j->queue), j->queue, m->name,
                       all.s ? all.s : "none", m->path);
    else
        mds_diag_fault(diag, NULL, "no queue; give --queue (QUEUE), of %s one of: %s",
                       m->name, all.s ? all.s : "none");
    mds_str_fini(&all);
}

const char *mds_clock_text(double s, char *buf, size_t size)
{
    long n = (long)s;

    snprintf(buf, size, "%02ld:%02ld:%02ld", n / 3600, n / 60 % 60, n % 60);
    return buf;
}

const struct mds_scheduler *mds_job_scheduler(const struct mds_job *j)
{
    return mds_scheduler_at(j->launch->machine->batch.scheduler);
}

int64_t mds_job_nodes(const struct mds_job *j)
{
    return j->launch->nodes + j->launch->options->spare_nodes;
}

const struct mds_queue *mds_job_queue(const struct mds_job *j)
{
    return j->queue ? mds_machine_queue(j->launch->machine, j->queue, mds_job_nodes(j))
                    : NULL;
}

/* Batch systems may take a job that is over a queue's limits and never start it. */
static void check_queue(const struct mds_job *j, const struct mds_queue *first,
                        struct mds_diag *diag)
{
    const struct mds_machine *m = j->launch->machine;
    const struct mds_queue *row = mds_job_queue(j);
    struct mds_queue all = *first; /* its rows together */
    double most_s;
    char asked[32], most[32], to[64] = "";

    for (const struct mds_queue *q = first; q < m->queues + m->queue_count; q++)
        if (strcmp(q->name, all.name) == 0) {
            all.min_nodes = mds_min(all.min_nodes, q->min_nodes);
            all.max_nodes = mds_max(all.max_nodes, q->max_nodes);
            all.max_s = fmax(all.max_s, q->max_s);
        }
    most_s = row ? row->max_s : all.max_s;
    if (!row)
        mds_diag_fault(diag, NULL, "%lld node%s%s: queue %s takes %lld to %lld",
                       (long long)mds_job_nodes(j), mds_plural(mds_job_nodes(j)),
                       j->launch->options->spare_nodes > 0 ? " with the spare ones"
                                                           : "",
                       all.name, (long long)all.min_nodes, (long long)all.max_nodes);
    else if (row->max_s < all.max_s)
        snprintf(to, sizeof to, ", to %lld to %lld nodes", (long long)row->min_nodes,
                 (long long)row->max_nodes);
    if (j->walltime_s > most_s)
        mds_diag_fault(diag, NULL, "walltime %s: queue %s allows at most %s%s",
                       mds_clock_text(j->walltime_s, asked, sizeof asked), all.name,
                       mds_clock_text(most_s, most, sizeof most), to);
}

/* The job would run here and now; who names a queue or more nodes than there are did
 * not mean that, and may be on the login node of a machine without a profile. */
static void check_without_scheduler(const struct mds_job *j, struct mds_diag *diag)
{
    const struct mds_machine *m = j->launch->machine;
    int64_t asked = j->launch->options->nodes_asked;
    static const char remedy[] = "give the profile of the one you mean (--machine, "
                                 "MACHINE), or write it (docs/new-machine.md)";

    if (j->queue)
        mds_diag_fault(diag, NULL, "queue %s: %s has no batch system; %s", j->queue,
                       m->name, remedy);
    else if (asked > m->node.count)
        mds_diag_fault(diag, NULL, "%lld nodes: %s has %lld; %s", (long long)asked,
                       m->name, (long long)m->node.count, remedy);
}

static int has_scheduler(const struct mds_job *j)
{
    return j->launch->machine->batch.scheduler != MDS_SCHEDULER_NONE;
}

/* As a job's name, and in its log's: PBS reads HOST:PATH, Slurm %j.  Where a shell
 * starts the job one line will do.  Commands would take a leading - for an option. */
static int is_valid_job_name(const char *text, int scheduler)
{
    if (text[0] == '-')
        return 0;
    if (!scheduler)
        return !text[first_line_length(text)];
    return mds_shell_is_plain(text) && !strpbrk(text, ":,%");
}

static void check_folder(const struct mds_job *j, struct mds_diag *diag)
{
    const char *special = mds_job_scheduler(j)->special;
    char here[MDS_PATH_SIZE];

    if (!is_valid_job_name(j->folder, has_scheduler(j)))
        mds_diag_fault(diag, NULL,
                       "folder '%.*s' (--runs, --name): batch systems do not accept "
                       "this name; use letters, digits and _.-, with no - first",
                       first_line_length(j->folder), j->folder);
    if (special && j->folder[0] != '/' && getcwd(here, sizeof here) &&
        strpbrk(here, special))
        mds_diag_fault(diag, NULL,
                       "folder %s: the batch system interprets any of '%s' in the path "
                       "of a job's log; submit from another folder, or give --runs",
                       here, special);
}

/* It becomes a line of the script. */
static void check_project(const char *project, struct mds_diag *diag)
{
    if (!project)
        mds_diag_fault(diag, NULL, "no project; give --project (PROJECT)");
    else if (!mds_shell_is_plain(project))
        mds_diag_fault(diag, NULL,
                       "project '%.*s' (--project, PROJECT): must be letters, digits "
                       "and _.-",
                       first_line_length(project), project);
}

/* The script has this list, also in a directive. */
static void check_excluded(const char *nodes, struct mds_diag *diag)
{
    struct mds_hosts h = {0};

    if (nodes && *nodes && mds_hosts_expand(nodes, &h))
        mds_diag_fault(diag, NULL, "--exclude: %s", mds_fail_text());
    mds_hosts_fini(&h);
}

void mds_job_check(const struct mds_job *j, struct mds_diag *diag)
{
    const struct mds_machine *m = j->launch->machine;
    const struct mds_queue *q = j->queue ? mds_machine_queue(m, j->queue, 0) : NULL;

    check_folder(j, diag);
    check_excluded(j->launch->options->exclude, diag);
    if (!has_scheduler(j)) {
        check_without_scheduler(j, diag);
        return;
    }
    if (q)
        check_queue(j, q, diag);
    else
        fault_unknown_queue(j, diag);
    if (j->walltime_s <= 0)
        mds_diag_fault(diag, NULL,
                       "no walltime; give --walltime (DURATION), such as "
                       "1:00:00");
    else if (j->launch->options->margin_s >= j->walltime_s)
        mds_diag_fault(diag, NULL, "--margin must be shorter than the walltime");
    check_project(j->project, diag);
}

/* ---- submission ---- */

/* log: the folder with the command's output in job.log, or NULL. */
static enum mds_rc read_job_id(FILE *f, const char *command, const char *log, char *id,
                               size_t size)
{
    char line[512] = "", last[512] = "";
    int status;

    while (fgets(line, sizeof line, f))
        if (line[strspn(line, " \n")])
            snprintf(last, sizeof last, "%s", line);
    status = pclose(f);
    status = WIFEXITED(status) ? WEXITSTATUS(status) : status;
    if (status == MDS_EXIT_UNFINISHED && log)
        return mds_fail(MDS_EUSER,
                        "the run is not finished (status %d): see %s/job.log; continue "
                        "with: sh %s/job.sh",
                        status, log, log);
    if (status != 0 && log)
        return mds_fail(MDS_EUSER, "the job ended with status %d: see %s/job.log",
                        status, log);
    if (status != 0)
        return mds_fail(MDS_EUSER, "'%s' failed with status %d; it printed: %.200s",
                        command, status, last[0] ? last : "nothing");
    last[strcspn(last, " \n;")] = '\0';
    snprintf(id, size, "%.*s", (int)size - 1, last);
    return id[0] ? MDS_OK : mds_fail(MDS_EUSER, "'%s' printed no job id", command);
}

/* Submit the script `path`, to start after job `after` has ended (NULL: at once).  id
 * receives the job's id.  Without a batch system the script is run here, its output
 * goes to the folder's job.log, and the id is "local".  more: further jobs of the chain
 * follow.  What the batch system says on standard error stays visible. */
static enum mds_rc submit_script(const struct mds_job *j, const char *path,
                                 const char *after, int more, char *id, size_t size)
{
    const struct mds_scheduler *d = mds_job_scheduler(j);
    const char *log = has_scheduler(j) ? NULL : j->folder;
    struct mds_str command = {0};
    enum mds_rc rc;
    FILE *f;

    mds_str_add(&command, "%s ", d->submit);
    if (after && d->after)
        mds_str_add(&command, "%s%s ", d->after, after);
    mds_shell_quote(path, &command);
    if (log) {
        mds_str_add(&command, " >");
        mds_shell_quote(log, &command);
        mds_str_add(&command, "/job.log 2>&1 ");
        if (more)
            mds_str_add(&command, "|| [ $? -eq %d ] ", MDS_EXIT_UNFINISHED);
        mds_str_add(&command, "&& echo local");
    }
    if (command.failed) {
        mds_str_fini(&command);
        return mds_fail(MDS_EMEM, "no host memory for a command");
    }
    fflush(stdout);
    f = popen(command.s, "re");
    rc = f ? read_job_id(f, command.s, log, id, size)
           : mds_fail(MDS_EIO, "%s: %s", command.s, strerror(errno));
    mds_str_fini(&command);
    return rc;
}

static enum mds_rc record_in_yaml(const char *folder, const char *ids)
{
    struct mds_str text = {0};
    enum mds_rc rc;

    mds_str_add(&text, "jobs: [%s]\n", ids);
    rc = text.failed ? mds_fail(MDS_EMEM, "no host memory for run.yaml")
                     : mds_folder_write(folder, "run.yaml", 1, 0644, text.s);
    mds_str_fini(&text);
    return rc;
}

static enum mds_rc record_as_event(const char *folder, const char *ids)
{
    char path[MDS_PATH_SIZE], plain[1024] = "";
    size_t n = 0;
    struct mds_event e;

    for (const char *p = ids; *p && n < sizeof plain - 1; p++)
        if (*p != ',')
            plain[n++] = *p;
    plain[n] = '\0';
    if (strncmp(plain, "local", 5) == 0) /* it is over, and has said so */
        return MDS_OK;
    MDS_TRY(mds_path_join(folder, "events.jsonl", path));
    mds_events_open(path);
    mds_event_begin(&e, "submitted");
    mds_event_add_text(&e, "jobs", plain);
    return mds_event_end(&e) ? mds_fail_write(path) : MDS_OK;
}

/* ids: "12" or "12, 13".  The jobs are submitted already, so a failure is only a
 * warning that names them. */
static void record_jobs(const char *folder, const char *ids)
{
    int failed = record_in_yaml(folder, ids) != MDS_OK;

    failed |= record_as_event(folder, ids) != MDS_OK;
    if (failed)
        mds_warn("%s: job %s is submitted, but could not be recorded: %s", folder, ids,
                 mds_fail_text());
}

enum mds_rc mds_job_submit_chain(const struct mds_job *j)
{
    struct mds_str ids = {0};
    char id[128] = "", path[MDS_PATH_SIZE];
    enum mds_rc rc = MDS_OK;

    MDS_TRY(mds_path_join(j->folder, "job.sh", path));
    for (int64_t i = 0; i < j->chain && !rc; i++) {
        char after[128];

        memcpy(after, id, sizeof after);
        rc = submit_script(j, path, i ? after : NULL, i + 1 < j->chain, id, sizeof id);
        if (!rc)
            mds_str_add(&ids, "%s%s", i ? ", " : "", id);
    }
    if (ids.len) {
        printf("%s: %s\n", j->folder, ids.s);
        record_jobs(j->folder, ids.s);
    } else if (has_scheduler(j))
        mds_folder_discard(j->folder); /* else the log says why it failed */
    mds_str_fini(&ids);
    return rc;
}
