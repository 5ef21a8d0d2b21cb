/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/preflight.h"
#include "base/alloc.h"
#include "base/events.h"
#include "base/minmax.h"
#include "base/units.h"
#include "engine/engine.h"
#include "train/consistency.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long one call may wait for another rank. */
static const double wait_limit_s = 30;

/* ---- the same software everywhere ---- */

/* The length of the name in a line "NAME VALUE"; some begin with "the". */
static size_t name_length(const char *line)
{
    size_t n = strcspn(line, " \n");

    if (strncmp(line, "the ", 4) == 0)
        n = 4 + strcspn(line + 4, " \n");
    return n;
}

/* The line of text with the same name; NULL if there is none. */
static const char *find_line(const char *text, const char *like)
{
    size_t n = name_length(like);

    for (; *text; text += strcspn(text, "\n") + 1)
        if (name_length(text) == n && strncmp(text, like, n) == 0)
            return text;
    return NULL;
}

/* A library that only one of the two ranks has loaded is no fault: some ranks may load
 * plugins that others do not need. */
static void compare_software(const char *mine, const char *first, char *fault,
                             size_t size)
{
    for (; *mine; mine += strcspn(mine, "\n") + 1) {
        const char *other = find_line(first, mine);
        size_t n = strcspn(mine, "\n"), m = other ? strcspn(other, "\n") : 0;

        if (!other || (n == m && strncmp(mine, other, n) == 0))
            continue;
        snprintf(fault, size,
                 "%.*s, but rank 0 has %.*s; install the same program, libraries and "
                 "profile on all nodes",
                 (int)mds_min((int64_t)n, 80), mine, (int)mds_min((int64_t)m, 80),
                 other);
        return;
    }
}

static enum mds_rc check_software(const struct mds_config_run *run,
                                  struct mds_comm *start, const char *version,
                                  struct mds_preflight_record *out)
{
    struct mds_str mine = {0};
    char *first = NULL;
    enum mds_rc rc;

    mds_consistency_lines(run, version, &mine);
    mds_software_lines(&mine);
    if (mine.failed)
        return MDS_EMEM;
    if (mds_comm_rank(start) == 0)
        first = mds_strdup(mine.s);
    rc = mds_broadcast_text(start, &first);
    if (!rc && !*out->fault)
        compare_software(mine.s, first, out->fault, sizeof out->fault);
    free(first);
    mds_str_fini(&mine);
    return rc;
}

/* ---- measuring ---- */

/* *any: whether any rank failed, so that all continue or none does. */
static enum mds_rc any_rank_failed(struct mds_comm *start, int failed, int *any)
{
    double vote = failed;

    MDS_TRY(mds_comm_all_reduce_f64(start, &vote, 1, MDS_COMM_MAX));
    *any = vote > 0;
    return MDS_OK;
}

static enum mds_rc measure_groups(const struct mds_world *w, const struct mds_config *c,
                                  struct mds_dev *dev, struct mds_preflight_record *out)
{
    struct mds_groups groups = {0};

    MDS_TRY(mds_groups_create(&c->parallel, w->ranks, w->rank, dev, &groups));
    MDS_TRY(mds_preflight_measure_groups(&groups, dev, out));
    mds_groups_fini(&groups);
    return MDS_OK;
}

static enum mds_rc measure(const struct mds_world *w, const struct mds_config_run *run,
                           struct mds_comm *start, const char *version,
                           struct mds_preflight_record *out)
{
    const struct mds_dev_spec device = mds_engine_device(&run->config, w);
    struct mds_dev *dev = NULL;
    enum mds_rc rc;
    int any;

    if (mds_dev_create(&device, &dev))
        snprintf(out->fault, sizeof out->fault, "%s", mds_fail_text());
    MDS_TRY(any_rank_failed(start, !dev, &any));
    if (any)
        goto destroy_device; /* there is nothing to compare */
    mds_preflight_measure_rank(w, &run->config, dev, out);
    /* If a rank hangs, this barrier names it.  Creating the groups is up to MPI, which
     * would hang without a message. */
    MDS_TRY(mds_comm_barrier(start));
    rc = measure_groups(w, &run->config, dev, out);
    if (rc)
        return rc; /* other ranks may still send into these buffers: do not free them */
    rc = check_software(run, start, version, out);
    if (rc)
        return rc;
destroy_device:
    mds_dev_destroy(dev);
    return MDS_OK;
}

/* ---- comparing and reporting ---- */

static void record_faults(const struct mds_preflight_record *all,
                          const struct mds_preflight_faults *found)
{
    struct mds_event e;

    for (size_t i = 0; i < found->n; i++) {
        const struct mds_preflight_fault *fault = &found->v[i];

        mds_event_begin(&e, "unfit");
        mds_event_add_int(&e, "rank", fault->rank);
        mds_event_add_text(&e, "host", all[fault->rank].host);
        mds_event_add_int(&e, "group", fault->of_group);
        mds_event_add_text(&e, "reason", fault->text);
        (void)mds_event_end(&e);
    }
}

static enum mds_rc report(const struct mds_config *c,
                          const struct mds_preflight_record *all, int ranks,
                          double *faults)
{
    const int gpu = strcmp(mds_dev_resolve(c->output.device), "cuda") == 0;
    /* CPU ranks may share cores with others; all nodes share the file system */
    const struct mds_preflight_limits limits = {
        .compute = gpu ? 0.9 : 0.5, .link = gpu ? 0.5 : 0.02, .disk = 0.1};
    struct mds_preflight_faults found;
    struct mds_str text = {0};
    enum mds_rc rc = mds_preflight_find_faults(all, ranks, &limits, &found);

    if (!rc) {
        mds_preflight_print(all, ranks, &found, &text);
        printf("%s", text.s ? text.s : "");
        fflush(stdout);
        record_faults(all, &found);
    }
    if (!rc && c->output.metrics_jsonl)
        rc = mds_preflight_write(all, ranks, &found, c->output.metrics_jsonl);
    *faults = (double)found.n;
    mds_str_fini(&text);
    free(found.v);
    return rc;
}

static enum mds_rc gather_and_report(const struct mds_config *c, struct mds_comm *start,
                                     const struct mds_preflight_record *own)
{
    int ranks = mds_comm_size(start);
    struct mds_preflight_record *all = mds_zalloc((size_t)ranks, sizeof *all);
    double faults = 0;
    enum mds_rc rc;

    if (!all)
        return MDS_EMEM;
    rc = mds_comm_gather_records(start, own, sizeof *own, all);
    if (!rc && mds_comm_rank(start) == 0)
        rc = report(c, all, ranks, &faults);
    free(all);
    MDS_TRY(rc);
    MDS_TRY(mds_comm_all_reduce_f64(start, &faults, 1, MDS_COMM_MAX));
    return faults > 0 ? mds_fail(MDS_EUSER,
                                 "preflight: %.0f fault%s, see above; leave these "
                                 "nodes out (mds_launch --exclude), or start without "
                                 "--preflight",
                                 faults, mds_plural((int64_t)faults))
                      : MDS_OK;
}

enum mds_rc mds_preflight(const struct mds_world *w, const struct mds_config_run *run,
                          struct mds_comm *start, const char *version)
{
    struct mds_preflight_record own = {.gpus = 0};
    enum mds_rc rc;

    memcpy(own.host, w->host, sizeof own.host);
    mds_comm_set_timeout_s(fmin(wait_limit_s, run->config.parallel.timeout_s));
    rc = measure(w, run, start, version, &own);
    if (!rc)
        rc = gather_and_report(&run->config, start, &own);
    mds_comm_set_timeout_s(run->config.parallel.timeout_s);
    return rc;
}
