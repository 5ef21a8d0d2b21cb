/* SPDX-License-Identifier: BSD-3-Clause */
/* One run against another of the same model: how far apart are losses (of steps, and of
 * an evaluation at the end), gradient norms, start weights, first gradients and final
 * weights?
 *
 *     compare [--losses TOLERANCE [--norms TOLERANCE]] REFERENCE RUN
 *
 * Both are folders with steps.jsonl (--metrics-jsonl), weights.safetensors and
 * grads.safetensors (--trace-dir), final.safetensors (--export-weights).  Prints the
 * worst figures on one line, and on further lines where a limit was passed; then the
 * status is 1.  With --losses nothing but losses is compared, by absolute difference,
 * and with --norms gradient norms, by relative difference.
 */
#include "base/status.h"
#include "ckpt/safetensors.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_SIZE = 4096, LINE_SIZE = 8192, MAX_STEPS = 1000 };

/* The largest of many differences; NaN is larger than all. */
struct figure {
    const char *what;
    double limit, worst;
    char where[128];
};

static void note(struct figure *f, double difference, const char *where)
{
    if (isnan(f->worst) || difference <= f->worst)
        return;
    f->worst = difference;
    snprintf(f->where, sizeof f->where, "%s", where);
}

static int passes(const struct figure *f)
{
    return f->worst <= f->limit;
}

/* 0 / 0 is 0: both are nothing. */
static double ratio(double difference, double size)
{
    return difference == 0 ? 0 : difference / size;
}

/* ---- losses and gradient norms ---- */

struct steps {
    int n;
    double loss[MAX_STEPS], norm[MAX_STEPS];
    double evaluated, targets; /* the last evaluation's loss and targets */
};

/* The number behind "key": in a line of JSON, or NaN. */
static double number(const char *line, const char *key)
{
    const char *at = strstr(line, key);

    return at ? strtod(at + strlen(key), NULL) : NAN;
}

static enum mds_rc read_steps(const char *dir, struct steps *s)
{
    char path[PATH_SIZE], line[LINE_SIZE];
    FILE *f;

    snprintf(path, sizeof path, "%s/steps.jsonl", dir);
    f = fopen(path, "r");
    if (!f)
        return mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    s->targets = NAN;
    for (s->n = 0; s->n < MAX_STEPS && fgets(line, sizeof line, f);) {
        if (strstr(line, "\"event\":\"eval\"")) {
            s->evaluated = number(line, "\"lm_loss\":");
            s->targets = number(line, "\"targets\":");
        }
        if (!strstr(line, "\"event\":\"step\""))
            continue;
        s->loss[s->n] = number(line, "\"lm_loss\":");
        s->norm[s->n] = number(line, "\"grad_norm\":");
        s->n++;
    }
    fclose(f);
    return s->n ? MDS_OK : mds_fail(MDS_EUSER, "%s: no steps", path);
}

/* relative: to the reference's value. */
static void compare_series(const double *ref, const double *run, int n, int relative,
                           struct figure *f)
{
    for (int i = 0; i < n; i++) {
        char where[32];

        snprintf(where, sizeof where, "step %d", i + 1);
        note(f, ratio(fabs(run[i] - ref[i]), relative ? fabs(ref[i]) : 1), where);
    }
}

static enum mds_rc compare_steps(const char *ref_dir, const char *run_dir, int relative,
                                 struct figure *losses, struct figure *norms)
{
    static struct steps ref, run;

    MDS_TRY(read_steps(ref_dir, &ref));
    MDS_TRY(read_steps(run_dir, &run));
    if (run.n != ref.n)
        return mds_fail(MDS_EUSER, "%s has %d steps, %s %d", run_dir, run.n, ref_dir,
                        ref.n);
    if (!(run.targets > 0 && run.targets == ref.targets))
        return mds_fail(MDS_EUSER, "%s: %.0f targets evaluated, %s %.0f", run_dir,
                        run.targets, ref_dir, ref.targets);
    compare_series(ref.loss, run.loss, ref.n, relative, losses);
    note(losses,
         ratio(fabs(run.evaluated - ref.evaluated), relative ? ref.evaluated : 1),
         "evaluation");
    compare_series(ref.norm, run.norm, ref.n, 1, norms);
    return MDS_OK;
}

/* ---- tensors ---- */

static double norm_of(const float *x, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    return sqrt(sum);
}

static double distance(const float *x, const float *y, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
    return sqrt(sum);
}

static int64_t elements(const struct mds_st_tensor *t)
{
    return (int64_t)(t->bytes / sizeof(float));
}

/* With learned positions a key's bias shifts all scores of a query alike: its true
 * gradient is 0 and what is there is rounding, which is held against the query's bias.
 */
static double size_of(const struct mds_safetensors *f, const struct mds_st_tensor *t,
                      int64_t n)
{
    const char *key = strstr(t->name, ".k.bias");
    const struct mds_st_tensor *query;
    char name[128];

    if (!key)
        return norm_of(t->data, n);
    snprintf(name, sizeof name, "%.*s.q.bias", (int)(key - t->name), t->name);
    query = mds_safetensors_find(f, name);
    return fmax(norm_of(t->data, n), query ? norm_of(query->data, elements(query)) : 0);
}

/* Word embeddings are padded to a multiple that depends on the layout: of two lengths
 * the common rows are compared.  rest: what is in the others must be 0. */
static enum mds_rc compare_tensor(const struct mds_safetensors *ref,
                                  const struct mds_st_tensor *a,
                                  const struct mds_st_tensor *b, int rest,
                                  struct figure *f)
{
    int64_t na = elements(a), nb = elements(b), n = na < nb ? na : nb;
    const float *longer = na < nb ? b->data : a->data;
    int padded = strstr(a->name, "embedding.word") || strstr(a->name, "head");

    if (a->dtype != MDS_ST_F32 || b->dtype != MDS_ST_F32)
        return mds_fail(MDS_EUSER, "%s: not F32", a->name);
    if (na != nb && !padded)
        return mds_fail(MDS_EUSER, "%s: %lld elements, and %lld in the reference",
                        a->name, (long long)nb, (long long)na);
    note(f, ratio(distance(a->data, b->data, n), size_of(ref, a, n)), a->name);
    if (rest)
        note(f, norm_of(longer + n, na + nb - 2 * n) > 0 ? INFINITY : 0, a->name);
    return MDS_OK;
}

static enum mds_rc compare_opened(const struct mds_safetensors *ref,
                                  const struct mds_safetensors *run, int rest,
                                  struct figure *f)
{
    if (run->count != ref->count)
        return mds_fail(MDS_EUSER, "%s: %zu tensors, and %zu in the reference", f->what,
                        run->count, ref->count);
    for (size_t i = 0; i < ref->count; i++) {
        const struct mds_st_tensor *a = &ref->tensors[i];
        const struct mds_st_tensor *b = mds_safetensors_find(run, a->name);

        if (!b)
            return mds_fail(MDS_EUSER, "%s: no %s", f->what, a->name);
        MDS_TRY(compare_tensor(ref, a, b, rest, f));
    }
    return MDS_OK;
}

static enum mds_rc compare_files(const char *ref_dir, const char *run_dir,
                                 const char *name, int rest, struct figure *f)
{
    struct mds_safetensors *ref = NULL, *run = NULL;
    char path[PATH_SIZE];
    enum mds_rc rc;

    snprintf(path, sizeof path, "%s/%s", ref_dir, name);
    MDS_TRY(mds_safetensors_open(path, &ref));
    snprintf(path, sizeof path, "%s/%s", run_dir, name);
    rc = mds_safetensors_open(path, &run);
    if (!rc)
        rc = compare_opened(ref, run, rest, f);
    mds_safetensors_close(run);
    mds_safetensors_close(ref);
    return rc;
}

/* ---- all of it ---- */

enum { LOSSES, NORMS, START, GRADS, PARAMS, FIGURES };

static enum mds_rc compare(const char *ref, const char *run, int losses_alone,
                           struct figure *f)
{
    MDS_TRY(compare_steps(ref, run, !losses_alone, &f[LOSSES], &f[NORMS]));
    if (losses_alone)
        return MDS_OK;
    MDS_TRY(compare_files(ref, run, "weights.safetensors", 0, &f[START]));
    MDS_TRY(compare_files(ref, run, "grads.safetensors", 1, &f[GRADS]));
    return compare_files(ref, run, "final.safetensors", 0, &f[PARAMS]);
}

/* 0 if all figures are within their limits. */
static int report(const struct figure *f, int figures)
{
    int bad = 0;

    for (int i = 0; i < figures; i++)
        printf("%s%s %.1e", i ? "  " : "", f[i].what, f[i].worst);
    printf("\n");
    for (int i = 0; i < figures; i++)
        if (!passes(&f[i])) {
            printf("%s: %.2e at %s, more than %.0e\n", f[i].what, f[i].worst,
                   f[i].where, f[i].limit);
            bad = 1;
        }
    return bad;
}

int main(int argc, char **argv)
{
    struct figure f[FIGURES] = {
        [LOSSES] = {.what = "losses", .limit = 1e-5}, /* relative */
        [NORMS] = {.what = "norms", .limit = 1e-5},
        [START] = {.what = "start", .limit = 0}, /* relative L2, a tensor */
        [GRADS] = {.what = "grads", .limit = 1e-5},
        [PARAMS] = {.what = "params", .limit = 1e-4},
    };
    int losses_alone = argc >= 5 && strcmp(argv[1], "--losses") == 0;
    int norms = argc == 7 && strcmp(argv[3], "--norms") == 0;

    if (argc != 3 + 2 * losses_alone + 2 * norms) {
        fprintf(stderr, "usage: compare [--losses TOLERANCE [--norms TOLERANCE]] "
                        "REFERENCE RUN\n");
        return 2;
    }
    if (losses_alone)
        f[LOSSES].limit = strtod(argv[2], NULL);
    if (norms)
        f[NORMS].limit = strtod(argv[4], NULL);
    if (compare(argv[argc - 2], argv[argc - 1], losses_alone, f)) {
        printf("%s\n", mds_fail_text());
        return 1;
    }
    return report(f, norms ? NORMS + 1 : losses_alone ? LOSSES + 1 : FIGURES);
}
