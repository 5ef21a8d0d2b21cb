/* SPDX-License-Identifier: BSD-3-Clause */
/* The results of run folders, as tables and plots. */
#include "base/alloc.h"
#include "base/log.h"
#include "launch/events.h"
#include "launch/report_html.h"
#include "launch/results.h"
#include "launch/submit.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- one run ---- */

/* A name as CSV, Markdown and gnuplot all take it. */
static void sanitize_name(const char *text, char *name, size_t size)
{
    snprintf(name, size, "%.*s", (int)size - 1, text);
    for (char *p = name; (p = strpbrk(p, ",\"'|\\\t\n")) != NULL;)
        *p = '_';
}

static void parse_start_record(const struct mds_node *map, struct mds_result *r)
{
    const char *key = mds_event_text(map, "model_size_key");

    sanitize_name(key && *key ? key : "gpt", r->model, sizeof r->model);
    r->seq = (long)mds_event_number(map, "seq_length", 0);
    r->ranks = (int)mds_event_number(map, "ranks", 0);
    r->global = mds_event_number(map, "global_batch_size", 0);
}

/* The steps of one file. */
struct steps {
    int warm;  /* not the first step of a job */
    double *s; /* what they took, but for those first ones */
    size_t n, all;
    double samples;  /* of those in s */
    double consumed; /* up to the latest one, by the run; 0: not said */
    double first_s;
    double flops; /* of all: they differ if rows have documents */
};

/* The first step of each job warms up, so it counts only where there is no other. */
static enum mds_rc parse_step_record(const struct mds_node *map, struct mds_result *r,
                                     struct steps *t)
{
    double s = mds_event_number(map, "elapsed_s", 0), *more;
    double before = t->consumed;

    t->consumed = mds_event_number(map, "consumed_samples", 0);
    t->all++;
    t->flops +=
        mds_event_number(map, "megatron_flops_per_s_per_rank", 0) * s * r->ranks;
    mds_history_note_step(&r->history, mds_event_number(map, "wall_time_s", NAN));
    r->loss = mds_event_number(map, "lm_loss", NAN);
    r->has_loss |= isfinite(r->loss);
    r->steps = (long)mds_event_number(map, "iteration", 0);
    if (!t->warm) {
        t->warm = 1;
        t->first_s = s;
        return MDS_OK;
    }
    more = mds_grow(t->s, t->n, sizeof *more);
    if (!more)
        return MDS_EMEM;
    t->s = more;
    t->s[t->n++] = s;
    t->samples += t->consumed > before ? t->consumed - before : r->global;
    return MDS_OK;
}

static enum mds_rc parse_straggler(const struct mds_node *map, struct mds_result *r)
{
    const char *host = mds_event_text(map, "host");
    struct mds_slow_rank *more = mds_grow(r->slow, r->slows, sizeof *more);

    if (!more)
        return MDS_EMEM;
    r->slow = more;
    more += r->slows++;
    *more = (struct mds_slow_rank){.step = (long)mds_event_number(map, "iteration", 0),
                                   .rank = (int)mds_event_number(map, "rank", 0),
                                   .excess = mds_event_number(map, "excess", 0)};
    sanitize_name(host ? host : "", more->host, sizeof more->host);
    return MDS_OK;
}

static void parse_evaluation(const struct mds_node *map, struct mds_result *r)
{
    const char *split = mds_event_text(map, "split");

    if (split && strcmp(split, "validation") == 0)
        r->valid_loss = mds_event_number(map, "lm_loss", NAN);
}

/* What the reader fills in. */
struct reading {
    struct mds_result *r;
    struct steps t;
};

static enum mds_rc take_record(void *to, const char *event, const struct mds_node *map)
{
    struct reading *reading = to;

    if (strcmp(event, "step") == 0)
        return parse_step_record(map, reading->r, &reading->t);
    if (strcmp(event, "straggler") == 0)
        return parse_straggler(map, reading->r);
    if (strcmp(event, "eval") == 0)
        parse_evaluation(map, reading->r);
    if (strcmp(event, "run") == 0) {
        parse_start_record(map, reading->r);
        reading->t.warm = 0;
    }
    return MDS_OK;
}

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* The median: a step that saves or evaluates, or in which a GPU chooses algorithms,
 * says little of the others. */
static double median_step_s(struct steps *t)
{
    if (t->n == 0)
        return t->first_s;
    qsort(t->s, t->n, sizeof *t->s, compare_times);
    return (t->s[(t->n - 1) / 2] + t->s[t->n / 2]) / 2;
}

/* Of a folder without metrics r->run is "". */
static enum mds_rc read_run_metrics(const char *folder, const char *name,
                                    struct mds_result *r)
{
    struct reading reading = {.r = r};
    struct steps *t = &reading.t;
    char run[MDS_PATH_SIZE], path[MDS_PATH_SIZE];
    int64_t at = 0;
    enum mds_rc rc;

    *r = (struct mds_result){.valid_loss = NAN};
    MDS_TRY(mds_path_join(folder, name, run));
    MDS_TRY(mds_path_join(run, "metrics.jsonl", path));
    if (access(path, F_OK))
        return MDS_OK;
    sanitize_name(name, r->run, sizeof r->run);
    rc = mds_history_read(run, &r->history);
    if (!rc)
        rc = mds_events_read(path, &at, take_record, &reading);
    r->elapsed_s = median_step_s(t);
    if (t->n > 0) /* batches may change */
        r->global = t->samples / (double)t->n;
    r->flops = t->all > 0 ? t->flops / (double)t->all : 0;
    free(t->s);
    if (rc)
        mds_result_fini(r);
    return rc;
}

/* ---- all ---- */

static int compare_results(const void *a, const void *b)
{
    const struct mds_result *x = a, *y = b;
    int models = strcmp(x->model, y->model);

    if (models)
        return models;
    if (x->ranks != y->ranks)
        return x->ranks - y->ranks;
    if (x->seq != y->seq)
        return x->seq < y->seq ? -1 : 1;
    return strcmp(x->run, y->run);
}

/* Nothing where there is no metrics.jsonl. */
static enum mds_rc append_run_result(const char *folder, const char *name,
                                     struct mds_results *out)
{
    struct mds_result *more;

    if (name[0] == '.')
        return MDS_OK;
    more = mds_grow(out->v, out->n, sizeof *more);
    if (!more)
        return MDS_EMEM;
    out->v = more;
    MDS_TRY(read_run_metrics(folder, name, &more[out->n]));
    out->n += *more[out->n].run != '\0';
    return MDS_OK;
}

static enum mds_rc fail_no_runs(const char *folder)
{
    struct mds_result r;

    MDS_TRY(read_run_metrics(folder, ".", &r));
    mds_result_fini(&r);
    if (*r.run)
        return mds_fail(MDS_EUSER, "report: %s is a run; give the folder it is in",
                        folder);
    return mds_fail(MDS_EUSER, "report: no run in %s has a metrics.jsonl", folder);
}

static enum mds_rc collect_runs(const char *folder, struct mds_results *out)
{
    struct dirent **entries = NULL;
    int n = scandir(folder, &entries, NULL, alphasort);
    enum mds_rc rc = MDS_OK;

    if (n < 0)
        return mds_fail(MDS_EUSER, "report: %s is not a folder of runs", folder);
    for (int i = 0; i < n; i++) {
        if (!rc)
            rc = append_run_result(folder, entries[i]->d_name, out);
        free(entries[i]);
    }
    free(entries);
    if (out->n > 0)
        qsort(out->v, out->n, sizeof *out->v, compare_results);
    return !rc && out->n == 0 ? fail_no_runs(folder) : rc;
}

enum mds_rc mds_report(const struct mds_launch_options *options, const char *folder)
{
    struct mds_results all = {0};
    enum mds_rc rc = collect_runs(folder, &all);

    if (!rc)
        rc = mds_results_write(&all, folder);
    if (!rc && options->html)
        rc = mds_report_write_html(&all, folder, options->html);
    mds_results_fini(&all);
    return rc;
}
