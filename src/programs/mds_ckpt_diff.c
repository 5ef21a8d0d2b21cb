/* SPDX-License-Identifier: BSD-3-Clause */
/* mds_ckpt diff: how two checkpoints differ. */
#include "base/alloc.h"
#include "base/units.h"
#include "ckpt/reader.h"
#include "config/tree.h"
#include "programs/mds_ckpt.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- how two tensors differ ---- */

/* The difference of one tensor in two checkpoints, a and b. */
struct distance {
    double relative; /* |a - b| / |a| in the L2 norm; infinite if only |a| is 0 */
    double most;     /* the largest |a - b| of any element */
    int64_t unequal; /* number of elements whose bits differ */
};

struct sums {
    double squares, of_difference, most;
    int64_t unequal;
};

static void add_differences(const float *a, const float *b, int64_t n, struct sums *s)
{
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);

        s->squares += (double)a[i] * (double)a[i];
        if (memcmp(&a[i], &b[i], sizeof a[i]) == 0)
            continue;
        if (isnan(d))
            d = INFINITY;
        s->unequal++;
        s->of_difference += d * d;
        if (s->most < d)
            s->most = d;
    }
}

static struct distance distance_from_sums(const struct sums *s)
{
    struct distance d = {.most = s->most, .unequal = s->unequal};

    if (s->of_difference > 0)
        d.relative = s->squares > 0 && isfinite(s->of_difference)
                         ? sqrt(s->of_difference / s->squares)
                         : INFINITY;
    return d;
}

/* Compare the first `rows` rows of a's tensor ta and b's tensor tb; both have the same
 * number of columns.  A NaN in only one of them counts as an infinite difference. */
static enum mds_rc compare_tensors(struct mds_ckpt_reader *a, int64_t ta,
                                   struct mds_ckpt_reader *b, int64_t tb,
                                   enum mds_ckpt_what what, int64_t rows,
                                   struct distance *out)
{
    struct mds_ckpt_tensor t = mds_ckpt_reader_index(a)->tensor[ta];
    int64_t elements = mds_ckpt_rows_buffer(mds_ckpt_reader_index(a));
    float *va = mds_zalloc((size_t)elements, sizeof *va);
    float *vb = mds_zalloc((size_t)elements, sizeof *vb);
    enum mds_rc rc = va && vb ? MDS_OK : MDS_EMEM;
    struct mds_ckpt_part part = {0};
    struct sums s = {0};

    t.rows = rows;
    while (!rc && mds_ckpt_next_rows(&t, elements, &part)) {
        rc = mds_ckpt_reader_part(a, what, ta, &part, va);
        if (!rc)
            rc = mds_ckpt_reader_part(b, what, tb, &part, vb);
        if (!rc)
            add_differences(va, vb, part.rows * part.cols, &s);
    }
    free(va);
    free(vb);
    if (!rc)
        *out = distance_from_sums(&s);
    return rc;
}

struct diff {
    struct mds_ckpt_input a, b;
    double tolerance;
    int states;                  /* of enum mds_ckpt_what to compare */
    int64_t compared, different; /* of tensors' states */
    int64_t others;              /* differences other than of values */
    double worst, most;
    const char *worst_name, *most_name;
};

/* ---- configuration ---- */

static void diff_setting(struct diff *d, const char *map, const char *key,
                         const struct mds_node *a, const struct mds_node *b)
{
    const char *left = a && a->text ? a->text : "-";
    const char *right = b && b->text ? b->text : "-";
    char path[64];

    if (strcmp(left, right) == 0)
        return;
    snprintf(path, sizeof path, "%s.%s", map, key);
    printf("configuration: %s: %s | %s\n", path, left, right);
    d->others += mds_config_affects_model(path);
}

/* All settings of a's; or those that only b has. */
static void diff_section(struct diff *d, const struct mds_node *a,
                         const struct mds_node *b)
{
    const char *map = a ? a->key : b->key;

    for (const struct mds_node *n = a ? a->first : NULL; n; n = n->next)
        diff_setting(d, map, n->key, n, mds_node_get(b, n->key));
    for (const struct mds_node *n = b ? b->first : NULL; n; n = n->next)
        if (!mds_node_get(a, n->key))
            diff_setting(d, map, n->key, NULL, n);
}

static void diff_sections(struct diff *d, const struct mds_node *a,
                          const struct mds_node *b)
{
    for (const struct mds_node *n = a ? a->first : NULL; n; n = n->next)
        diff_section(d, n, mds_node_get(b, n->key));
    for (const struct mds_node *n = b ? b->first : NULL; n; n = n->next)
        if (!mds_node_get(a, n->key))
            diff_section(d, NULL, n);
}

static enum mds_rc parse_configuration(const struct mds_ckpt_index *ix,
                                       struct mds_tree **out)
{
    char *configuration, *provenance;
    enum mds_rc rc;

    MDS_TRY(mds_ckpt_index_texts(ix->path, &configuration, &provenance));
    rc = mds_tree_parse(configuration, strlen(configuration), ix->path, out);
    free(configuration);
    free(provenance);
    return rc;
}

static enum mds_rc diff_configuration(struct diff *d)
{
    struct mds_tree *a = NULL, *b = NULL;
    enum mds_rc rc = parse_configuration(d->a.ix, &a);

    if (!rc)
        rc = parse_configuration(d->b.ix, &b);
    if (!rc)
        diff_sections(d, a->root, b->root);
    mds_tree_destroy(a);
    mds_tree_destroy(b);
    return rc;
}

/* ---- state ---- */

static void diff_number(struct diff *d, const char *name, double a, double b)
{
    if (a < b || a > b) {
        printf("%s: %.15g | %.15g\n", name, a, b);
        d->others++;
    }
}

static int is_different(const struct diff *d, const struct distance *is)
{
    return d->tolerance > 0 ? is->relative > d->tolerance : is->unequal > 0;
}

/* Of experts, for their choice. */
static void diff_biases(struct diff *d)
{
    const struct mds_ckpt_state *a = &d->a.ix->state, *b = &d->b.ix->state;
    struct distance is;
    struct sums s = {0};

    diff_number(d, "biases of experts", (double)a->expert_biases,
                (double)b->expert_biases);
    for (int64_t i = 0; a->expert_biases == b->expert_biases && i < a->expert_biases;
         i++) {
        double by = fabs(a->expert_bias[i] - b->expert_bias[i]);

        s.squares += a->expert_bias[i] * a->expert_bias[i];
        s.of_difference += by * by;
        s.most = fmax(s.most, by);
        s.unequal += by > 0;
    }
    is = distance_from_sums(&s);
    if (is_different(d, &is)) {
        printf("biases of experts: relative L2 %.3g, largest %.3g\n", is.relative,
               is.most);
        d->others++;
    }
}

static void diff_state(struct diff *d)
{
    const struct mds_ckpt_state *a = &d->a.ix->state, *b = &d->b.ix->state;

    if (d->states > 1) {
        diff_number(d, "iteration", (double)a->iteration, (double)b->iteration);
        diff_number(d, "samples", (double)a->samples, (double)b->samples);
        diff_number(d, "tokens", (double)a->tokens, (double)b->tokens);
        diff_number(d, "updates", (double)a->updates, (double)b->updates);
        diff_number(d, "loss scale", a->loss_scale, b->loss_scale);
    }
    diff_number(d, "vocabulary", (double)a->vocab, (double)b->vocab);
    diff_biases(d);
}

/* ---- tensors ---- */

/* Padding rows of the vocabulary are not compared. */
static int64_t unpadded_rows(const struct mds_ckpt_index *ix,
                             const struct mds_ckpt_tensor *t)
{
    return mds_ckpt_is_by_word(t->name) && t->rows == ix->state.padded_vocab
               ? ix->state.vocab
               : t->rows;
}

static void record_difference(struct diff *d, const struct mds_ckpt_tensor *t, int what,
                              const struct distance *is)
{
    d->compared++;
    if (d->worst < is->relative || !d->worst_name) {
        d->worst = is->relative;
        d->worst_name = t->name;
    }
    if (d->most < is->most || !d->most_name) {
        d->most = is->most;
        d->most_name = t->name;
    }
    if (!is_different(d, is))
        return;
    d->different++;
    printf("%s %s: relative L2 %.3g, largest %.3g, %" PRId64 " numbers\n",
           mds_ckpt_group(what), t->name, is->relative, is->most, is->unequal);
}

static enum mds_rc diff_tensor(struct diff *d, int64_t ta, int64_t tb)
{
    const struct mds_ckpt_tensor *a = &d->a.ix->tensor[ta], *b = &d->b.ix->tensor[tb];
    int64_t rows = unpadded_rows(d->a.ix, a);
    struct distance is;

    if (rows != unpadded_rows(d->b.ix, b) || a->cols != b->cols) {
        printf("%s: %" PRId64 " x %" PRId64 " | %" PRId64 " x %" PRId64 "\n", a->name,
               a->rows, a->cols, b->rows, b->cols);
        d->others++;
        return MDS_OK;
    }
    for (int what = 0; what < d->states; what++) {
        MDS_TRY(compare_tensors(d->a.reader, ta, d->b.reader, tb, what, rows, &is));
        record_difference(d, a, what, &is);
    }
    return MDS_OK;
}

static void print_only_in(struct diff *d, const struct mds_ckpt_index *ix,
                          const struct mds_ckpt_tensor *t)
{
    printf("%s: only in %s\n", t->name, ix->path);
    d->others++;
}

static enum mds_rc diff_tensors(struct diff *d)
{
    const struct mds_ckpt_index *a = d->a.ix, *b = d->b.ix;

    for (int64_t i = 0; i < a->tensors; i++) {
        int64_t other = mds_ckpt_index_find(b, a->tensor[i].name);

        if (other < 0)
            print_only_in(d, a, &a->tensor[i]);
        else
            MDS_TRY(diff_tensor(d, i, other));
    }
    for (int64_t i = 0; i < b->tensors; i++)
        if (mds_ckpt_index_find(a, b->tensor[i].name) < 0)
            print_only_in(d, b, &b->tensor[i]);
    return MDS_OK;
}

static enum mds_rc print_result(const struct diff *d)
{
    printf("%" PRId64 " list%s of numbers compared, %" PRId64 " differ%s", d->compared,
           mds_plural(d->compared), d->different, d->different == 1 ? "s" : "");
    if (d->most > 0)
        printf("; worst relative L2 %.3g in %s, largest difference %.3g in %s",
               d->worst, d->worst_name, d->most, d->most_name);
    printf("\n");
    if (d->different + d->others == 0)
        return MDS_OK;
    return mds_fail(MDS_EUSER, "%s and %s differ", d->a.ix->path, d->b.ix->path);
}

static enum mds_rc compare_checkpoints(struct diff *d)
{
    MDS_TRY(diff_configuration(d));
    diff_state(d);
    MDS_TRY(diff_tensors(d));
    return print_result(d);
}

enum mds_rc mds_ckpt_run_diff(const struct mds_invocation *c)
{
    const struct mds_ckpt_options *a = mds_ckpt_options(c);
    struct diff d = {.tolerance = a->tolerance,
                     .states = a->weights ? 1 : MDS_CKPT_STATES};
    enum mds_rc rc;

    MDS_TRY(mds_ckpt_input_open(c->operand[0], &d.a));
    rc = mds_ckpt_input_open(c->operand[1], &d.b);
    if (!rc)
        rc = compare_checkpoints(&d);
    mds_ckpt_input_close(&d.b);
    mds_ckpt_input_close(&d.a);
    return rc;
}
