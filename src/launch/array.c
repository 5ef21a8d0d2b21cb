/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs that ask for the same, as one array.  What a job asks for is in its run.yaml. */
#include "launch/array.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"
#include "launch/batch_syntax.h"
#include "launch/events.h"
#include "launch/folder.h"
#include "launch/job.h"
#include "launch/run_folder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a run asks the batch system for. */
struct request {
    enum mds_scheduler scheduler;
    char *head;      /* directives, but for the job's name, warning and log; owned */
    double margin_s; /* how long before the walltime it is to be warned */
    int at_once;     /* jobs of an array that the queue takes at a time; 0: all */
    int requeue;
    int is_grouped;
};

static enum mds_rc read_request(const char *folder, struct request *r)
{
    struct mds_tree *tree = NULL;
    const char *head;
    enum mds_rc rc;

    MDS_TRY(mds_run_folder_read(folder, &tree));
    head = mds_event_text(tree->root, "request");
    *r = (struct request){
        .scheduler = mds_scheduler_named(mds_event_text(tree->root, "scheduler")),
        .head = mds_strdup(head ? head : ""),
        .margin_s = mds_event_number(tree->root, "margin_s", 0),
        .at_once = (int)mds_event_number(tree->root, "array_limit", 0),
        .requeue = (int)mds_event_number(tree->root, "requeue", 1)};
    rc = r->head ? MDS_OK : MDS_EMEM;
    mds_tree_destroy(tree);
    return rc;
}

/* PBS runs no array whose jobs must not be started twice. */
static int can_share_array(const struct request *a, const struct request *b)
{
    return a->scheduler == b->scheduler && mds_batch_syntax_of(a->scheduler)->array &&
           strcmp(a->head, b->head) == 0 &&
           (a->requeue || a->scheduler != MDS_SCHEDULER_PBS);
}

/* ---- writing ---- */

/* The script of the array of runs member[0 .. n-1].  It is warned as early before the
 * walltime as any of them has to be. */
static void write_array_script(const struct request *all, char *const *folder,
                               const int *member, int n, const char *sweep_folder,
                               struct mds_str *out)
{
    const struct request *first = &all[member[0]];
    const struct mds_batch_syntax *d = mds_batch_syntax_of(first->scheduler);
    double margin_s = 0;

    for (int i = 0; i < n; i++)
        margin_s = fmax(margin_s, all[member[i]].margin_s);
    mds_str_add(out, "#!/bin/bash -l\n%s%ssweep\n%s", d->prefix, d->name, first->head);
    mds_job_warning(d, margin_s, out);
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
        rc = read_request(folder[i], &all[i]);
    if (!rc)
        submit_groups(options, all, folder, count, member, submitted);
    for (int i = 0; i < count && all; i++)
        free(all[i].head);
    free(member);
    free(all);
    return rc;
}
