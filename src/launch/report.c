/* SPDX-License-Identifier: BSD-3-Clause */
/* The results of run folders, as tables and plots. */
#include "base/alloc.h"
#include "base/log.h"
#include "config/tree.h"
#include "launch/results.h"
#include "launch/submit.h"

#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one run ---- */

static double map_number(const struct mds_node *map, const char *key)
{
    const struct mds_node *n = mds_node_get(map, key);

    return n && n->text ? strtod(n->text, NULL) : 0;
}

/* In JSON a loss that is not finite is null. */
static double step_loss(const struct mds_node *map)
{
    const struct mds_node *n = mds_node_get(map, "lm_loss");

    return n && n->text && strcmp(n->text, "null") == 0 ? NAN
                                                        : map_number(map, "lm_loss");
}

static int is_event_named(const struct mds_node *map, const char *event)
{
    const struct mds_node *n = mds_node_get(map, "event");

    return n && n->text && strcmp(n->text, event) == 0;
}

/* A name as CSV, Markdown and gnuplot all take it. */
static void sanitize_name(const char *text, char *name, size_t size)
{
    snprintf(name, size, "%.*s", (int)size - 1, text);
    for (char *p = name; (p = strpbrk(p, ",\"'|\\\t\n")) != NULL;)
        *p = '_';
}

static void parse_start_record(const struct mds_node *map, struct mds_result *r)
{
    const struct mds_node *key = mds_node_get(map, "model_size_key");

    sanitize_name(key && key->text && *key->text && strcmp(key->text, "null") != 0
                      ? key->text
                      : "gpt",
                  r->model, sizeof r->model);
    r->seq = (long)map_number(map, "seq_length");
    r->ranks = (int)map_number(map, "ranks");
    r->global = map_number(map, "global_batch_size");
}

/* The steps of one file. */
struct steps {
    int warm;  /* not the first step of a job */
    double *s; /* what they took, but for those first ones */
    size_t n, all;
    double first_s;
    double flops; /* of all: they differ if rows have documents */
};

/* The first step of each job warms up, so it counts only where there is no other. */
static enum mds_rc parse_step_record(const struct mds_node *map, struct mds_result *r,
                                     struct steps *t)
{
    double s = map_number(map, "elapsed_s"), *more;

    t->all++;
    t->flops += map_number(map, "megatron_flops_per_s_per_rank") * s * r->ranks;
    r->loss = step_loss(map);
    r->steps = (long)map_number(map, "iteration");
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
    return MDS_OK;
}

static enum mds_rc parse_straggler(const struct mds_node *map, struct mds_result *r)
{
    const struct mds_node *host = mds_node_get(map, "host");
    struct mds_slow_rank *more = mds_grow(r->slow, r->slows, sizeof *more);

    if (!more)
        return MDS_EMEM;
    r->slow = more;
    more += r->slows++;
    *more = (struct mds_slow_rank){.step = (long)map_number(map, "iteration"),
                                   .rank = (int)map_number(map, "rank"),
                                   .excess = map_number(map, "excess")};
    sanitize_name(host && host->text ? host->text : "", more->host, sizeof more->host);
    return MDS_OK;
}

/* A line is a JSON object, which is YAML; a line cut short by a killed run is left out.
 */
static enum mds_rc parse_record(const char *line, const char *path,
                                struct mds_result *r, struct steps *t)
{
    struct mds_tree *tree = NULL;
    enum mds_rc rc = MDS_OK;

    if (mds_tree_parse(line, strlen(line), path, &tree))
        return MDS_OK;
    if (is_event_named(tree->root, "run")) {
        parse_start_record(tree->root, r);
        t->warm = 0;
    } else if (is_event_named(tree->root, "step")) {
        rc = parse_step_record(tree->root, r, t);
    } else if (is_event_named(tree->root, "straggler")) {
        rc = parse_straggler(tree->root, r);
    }
    mds_tree_destroy(tree);
    return rc;
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

/* The nodes that the run has lost, with the reasons: lines of the file `exclude`. */
static enum mds_rc read_excluded(const char *folder, const char *name,
                                 struct mds_result *r)
{
    char path[PATH_MAX], *line = NULL, **more;
    enum mds_rc rc = MDS_OK;
    size_t size = 0;
    FILE *f;

    snprintf(path, sizeof path, "%s/%s/exclude", folder, name);
    f = fopen(path, "re");
    while (!rc && f && getline(&line, &size, f) > 0) {
        line[strcspn(line, "\n")] = '\0';
        if (!line[strspn(line, " \t")] || line[0] == '#')
            continue;
        more = mds_grow(r->excluded, r->excludeds, sizeof *more);
        rc = more ? MDS_OK : MDS_EMEM;
        if (more) {
            r->excluded = more;
            more[r->excludeds++] = line;
            line = NULL; /* taken over */
            size = 0;
        }
    }
    free(line);
    if (f)
        fclose(f);
    return rc;
}

/* Of a folder without metrics r->run is "". */
static enum mds_rc read_run_metrics(const char *folder, const char *name,
                                    struct mds_result *r)
{
    char path[PATH_MAX], *line = NULL;
    enum mds_rc rc = MDS_OK;
    struct steps t = {0};
    size_t size = 0;
    FILE *f;

    *r = (struct mds_result){0};
    snprintf(path, sizeof path, "%s/%s/metrics.jsonl", folder, name);
    f = fopen(path, "re");
    if (!f)
        return MDS_OK;
    sanitize_name(name, r->run, sizeof r->run);
    while (!rc && getline(&line, &size, f) > 0)
        rc = parse_record(line, path, r, &t);
    free(line);
    fclose(f);
    r->elapsed_s = median_step_s(&t);
    r->flops = t.all > 0 ? t.flops / (double)t.all : 0;
    free(t.s);
    if (!rc)
        rc = read_excluded(folder, name, r);
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

enum mds_rc mds_report(const char *folder)
{
    struct mds_results all = {0};
    enum mds_rc rc = collect_runs(folder, &all);

    if (!rc)
        rc = mds_results_write(&all, folder);
    mds_results_fini(&all);
    return rc;
}
