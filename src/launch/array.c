/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs that ask for the same, as one array.  What a job asks for stands in its script:
 * it is read from there, so that scripts a user has changed are taken as they are. */
#include "launch/array.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"
#include "launch/batch_syntax.h"
#include "launch/folder.h"
#include "launch/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a run's script asks the batch system for. */
struct request {
    enum mds_scheduler scheduler;
    struct mds_str head; /* directives, but for the job's name and log */
    char warning[64];    /* the --signal directive */
    int at_once;         /* jobs of an array that the queue takes at a time; 0: all */
    int is_grouped;
};

/* ---- reading ---- */

static int has_prefix(const char *text, const char *with)
{
    return with && strncmp(text, with, strlen(with)) == 0;
}

static void parse_script_line(const char *line, struct request *r)
{
    static const enum mds_scheduler all[] = {MDS_SCHEDULER_PBS, MDS_SCHEDULER_SLURM,
                                             MDS_SCHEDULER_COBALT};
    const struct mds_batch_syntax *d;
    const char *what;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (has_prefix(line, mds_batch_syntax_of(all[i])->prefix))
            r->scheduler = all[i];
    d = mds_batch_syntax_of(r->scheduler);
    sscanf(line, MDS_JOB_MAX_RUNNING, &r->at_once);
    if (r->scheduler == MDS_SCHEDULER_NONE || !has_prefix(line, d->prefix))
        return;
    what = line + strlen(d->prefix);
    if (has_prefix(what, d->warning))
        snprintf(r->warning, sizeof r->warning, "%.63s", line);
    else if (!has_prefix(what, d->name) && !has_prefix(what, d->output))
        mds_str_add(&r->head, "%s", line);
}

static enum mds_rc read_script_request(const char *folder, struct request *r)
{
    char path[MDS_PATH_SIZE], *line = NULL;
    size_t size = 0;
    FILE *f;

    r->scheduler = MDS_SCHEDULER_NONE;
    MDS_TRY(mds_path_join(folder, "job.sh", path));
    f = fopen(path, "re");
    if (!f)
        return mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    while (getline(&line, &size, f) > 0 && strchr("#\n", line[0]))
        parse_script_line(line, r);
    free(line);
    fclose(f);
    return r->head.failed ? mds_fail(MDS_EMEM, "no host memory for %s", path) : MDS_OK;
}

/* PBS runs no array whose jobs must not be started twice. */
static int can_share_array(const struct request *a, const struct request *b)
{
    return a->scheduler == b->scheduler && mds_batch_syntax_of(a->scheduler)->array &&
           a->head.s && b->head.s && strcmp(a->head.s, b->head.s) == 0 &&
           !strstr(a->head.s, "#PBS -r n\n");
}

/* ---- writing ---- */

static long parse_warning_s(const char *warning)
{
    const char *at = strrchr(warning, '@');

    return at ? atol(at + 1) : 0;
}

/* The script of the array of runs member[0 .. n-1].  It is warned as early before the
 * walltime as any of them has to be. */
static void write_array_script(const struct request *all, char *const *folder,
                               const int *member, int n, const char *sweep_folder,
                               struct mds_str *out)
{
    const struct request *first = &all[member[0]];
    const struct mds_batch_syntax *d = mds_batch_syntax_of(first->scheduler);
    const char *warning = first->warning;

    for (int i = 1; i < n; i++)
        if (parse_warning_s(all[member[i]].warning) > parse_warning_s(warning))
            warning = all[member[i]].warning;
    mds_str_add(out, "#!/bin/bash -l\n%s%ssweep\n%s%s", d->prefix, d->name,
                first->head.s, warning);
    mds_str_add(out, "%s%s%s/%s\n%s%s%d", d->prefix, d->output, sweep_folder, d->logs,
                d->prefix, d->array, n - 1);
    if (first->at_once > 0 && first->at_once < n)
        mds_str_add(out, "%%%d", first->at_once);
    mds_str_add(out, "\n");
    mds_str_add(out,
                "# Written by mds_launch sweep: each job of the array is a run.\n");
    if (d->folder)
        mds_str_add(out, "cd \"$%s\" || exit 1\n", d->folder);
    mds_str_add(out, "case $%s in\n", d->index);
    for (int i = 0; i < n; i++) {
        mds_str_add(out, "%d) run=", i);
        mds_shell_quote(folder[member[i]], out);
        mds_str_add(out, " ;;\n");
    }
    mds_str_add(out, "esac\nexec bash -l \"$run/job.sh\"\n");
}

/* "1234" gives 1234_2, "1234[].polaris" gives "1234[2].polaris", quoted for YAML. */
static void array_job_id(const char *id, int i, char *out, size_t size)
{
    const char *hole = strstr(id, "[]");

    if (hole)
        snprintf(out, size, "\"%.*s[%d]%s\"", (int)(hole - id), id, i, hole + 2);
    else
        snprintf(out, size, "%s_%d", id, i);
}

static enum mds_rc submit_array(const struct mds_launch_options *o,
                                const struct request *all, char *const *folder,
                                const int *member, int n)
{
    struct mds_str script = {0};
    char sweep_folder[MDS_PATH_SIZE], path[MDS_PATH_SIZE], id[128], job[192];
    enum mds_rc rc;

    MDS_TRY(mds_folder_make(o->folder, "sweep", sweep_folder));
    MDS_TRY(mds_path_join(sweep_folder, "array.sh", path));
    write_array_script(all, folder, member, n, sweep_folder, &script);
    rc = script.failed ? mds_fail(MDS_EMEM, "no host memory for a script")
                       : mds_folder_write(sweep_folder, "array.sh", 0, 0755, script.s);
    mds_str_fini(&script);
    if (!rc)
        rc = mds_job_submit(all[member[0]].scheduler, sweep_folder, path, NULL, 0, id,
                            sizeof id);
    if (rc) {
        mds_folder_discard(sweep_folder);
        for (int i = 0; i < n; i++)
            mds_folder_discard(folder[member[i]]);
        return rc;
    }
    printf("%s: %s, an array of %d run%s\n", sweep_folder, id, n, mds_plural(n));
    for (int i = 0; i < n; i++) {
        array_job_id(id, i, job, sizeof job);
        mds_job_record(folder[member[i]], job);
    }
    return MDS_OK;
}

/* ---- all ---- */

/* Counts what was submitted, or warns. */
static void count_submitted(enum mds_rc rc, int n, const char *folder, int *submitted)
{
    if (rc == MDS_OK)
        *submitted += n;
    else
        mds_warn("%s%s was not submitted: %s", folder,
                 n > 1 ? " and the other runs of its array" : "", mds_fail_text());
}

static void submit_groups(const struct mds_launch_options *o, struct request *all,
                          char *const *folder, int n, int *member, int *submitted)
{
    for (int i = 0; i < n; i++) {
        int members = 0;

        if (all[i].is_grouped)
            continue;
        for (int k = i; k < n; k++)
            if (k == i || (o->array && o->chain == 1 && !all[k].is_grouped &&
                           can_share_array(&all[i], &all[k]))) {
                all[k].is_grouped = 1;
                member[members++] = k;
            }
        count_submitted(
            members > 1 ? submit_array(o, all, folder, member, members)
                        : mds_job_submit_chain(all[i].scheduler, folder[i], o->chain),
            members, folder[i], submitted);
    }
}

enum mds_rc mds_array_submit(const struct mds_launch_options *options,
                             char *const *folder, int count, int *submitted)
{
    struct request *all = mds_zalloc((size_t)count + 1, sizeof *all);
    int *member = mds_zalloc((size_t)count + 1, sizeof *member);
    enum mds_rc rc = all && member ? MDS_OK : MDS_EMEM;

    for (int i = 0; i < count && !rc; i++)
        rc = read_script_request(folder[i], &all[i]);
    if (!rc)
        submit_groups(options, all, folder, count, member, submitted);
    for (int i = 0; i < count && all; i++)
        mds_str_fini(&all[i].head);
    free(member);
    free(all);
    return rc;
}
