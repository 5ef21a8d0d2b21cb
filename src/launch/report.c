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

static double number(const struct mds_node *map, const char *key)
{
    const struct mds_node *n = mds_node_get(map, key);

    return n && n->text ? strtod(n->text, NULL) : 0;
}

/* JSON has no word for a loss that is not finite but null. */
static double loss_of(const struct mds_node *map)
{
    const struct mds_node *n = mds_node_get(map, "lm_loss");

    return n && n->text && strcmp(n->text, "null") == 0 ? NAN : number(map, "lm_loss");
}

static int is_event(const struct mds_node *map, const char *event)
{
    const struct mds_node *n = mds_node_get(map, "event");

    return n && n->text && strcmp(n->text, event) == 0;
}

/* A name as CSV, Markdown and gnuplot all take it. */
static void take_name(const char *text, char *name, size_t size)
{
    snprintf(name, size, "%.*s", (int)size - 1, text);
    for (char *p = name; (p = strpbrk(p, ",\"'|\\\t\n")) != NULL;)
        *p = '_';
}

static void take_run(const struct mds_node *map, struct mds_result *r)
{
    const struct mds_node *key = mds_node_get(map, "model_size_key");

    take_name(key && key->text && *key->text && strcmp(key->text, "null") != 0
                  ? key->text
                  : "gpt",
              r->model, sizeof r->model);
    r->seq = (long)number(map, "seq_length");
    r->ranks = (int)number(map, "ranks");
    r->global = number(map, "global_batch_size");
    r->flops = number(map, "megatron_flops_per_step");
}

/* What is summed up of one file. */
struct sums {
    int warm;   /* not the first step of a job */
    long timed; /* steps in timed_s */
    double timed_s, first_s;
};

/* The first step of each job warms up, so it counts only where there is no other. */
static void take_step(const struct mds_node *map, struct mds_result *r, struct sums *t)
{
    double s = number(map, "elapsed_s");

    if (t->warm) {
        t->timed_s += s;
        t->timed++;
    } else {
        t->first_s = s;
    }
    t->warm = 1;
    r->loss = loss_of(map);
    r->steps = (long)number(map, "iteration");
}

/* A line is a JSON object, which is YAML; a line cut short by a killed run is left out.
 */
static void take_line(const char *line, const char *path, struct mds_result *r,
                      struct sums *t)
{
    struct mds_tree *tree = NULL;

    if (mds_tree_parse(line, strlen(line), path, &tree))
        return;
    if (is_event(tree->root, "run")) {
        take_run(tree->root, r);
        t->warm = 0;
    } else if (is_event(tree->root, "step")) {
        take_step(tree->root, r, t);
    }
    mds_tree_destroy(tree);
}

/* 0, or -1 if there is no such file. */
static int read_run(const char *folder, const char *name, struct mds_result *r)
{
    char path[PATH_MAX], *line = NULL;
    struct sums t = {0};
    size_t size = 0;
    FILE *f;

    *r = (struct mds_result){0};
    snprintf(path, sizeof path, "%s/%s/metrics.jsonl", folder, name);
    f = fopen(path, "re");
    if (!f)
        return -1;
    take_name(name, r->run, sizeof r->run);
    while (getline(&line, &size, f) > 0)
        take_line(line, path, r, &t);
    free(line);
    fclose(f);
    r->elapsed_s = t.timed ? t.timed_s / (double)t.timed : t.first_s;
    return 0;
}

/* ---- all ---- */

static int by_model(const void *a, const void *b)
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
static enum mds_rc add_run(const char *folder, const char *name,
                           struct mds_results *out)
{
    struct mds_result r, *more;

    if (name[0] == '.' || read_run(folder, name, &r))
        return MDS_OK;
    more = mds_grow(out->v, out->n, sizeof *more);
    if (!more)
        return MDS_EMEM;
    out->v = more;
    out->v[out->n++] = r;
    return MDS_OK;
}

static enum mds_rc refuse(const char *folder)
{
    struct mds_result r;

    if (read_run(folder, ".", &r) == 0)
        return mds_fail(MDS_EUSER, "report: %s is a run; give the folder it is in",
                        folder);
    return mds_fail(MDS_EUSER, "report: no run in %s has a metrics.jsonl", folder);
}

static enum mds_rc collect(const char *folder, struct mds_results *out)
{
    struct dirent **entries = NULL;
    int n = scandir(folder, &entries, NULL, alphasort);
    enum mds_rc rc = MDS_OK;

    if (n < 0)
        return mds_fail(MDS_EUSER, "report: %s is no folder of runs", folder);
    for (int i = 0; i < n; i++) {
        if (!rc)
            rc = add_run(folder, entries[i]->d_name, out);
        free(entries[i]);
    }
    free(entries);
    if (out->n > 0)
        qsort(out->v, out->n, sizeof *out->v, by_model);
    return !rc && out->n == 0 ? refuse(folder) : rc;
}

enum mds_rc mds_report(const char *folder)
{
    struct mds_results all = {0};
    enum mds_rc rc = collect(folder, &all);

    if (!rc)
        rc = mds_results_write(&all, folder);
    free(all.v);
    return rc;
}
