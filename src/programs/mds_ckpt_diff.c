/* SPDX-License-Identifier: BSD-3-Clause */
/* mds_ckpt diff: how two checkpoints differ. */
#include "ckpt/compare.h"
#include "base/units.h"
#include "config/tree.h"
#include "programs/mds_ckpt.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Of experts, for their choice; as tensors are. */
static void diff_biases(struct diff *d)
{
    const struct mds_ckpt_state *a = &d->a.ix->state, *b = &d->b.ix->state;
    double most = 0, squares = 0, of_difference = 0, relative;

    diff_number(d, "biases of experts", (double)a->expert_biases,
                (double)b->expert_biases);
    for (int64_t i = 0; a->expert_biases == b->expert_biases && i < a->expert_biases;
         i++) {
        double by = fabs(a->expert_bias[i] - b->expert_bias[i]);

        most = fmax(most, by);
        squares += a->expert_bias[i] * a->expert_bias[i];
        of_difference += by * by;
    }
    if (most == 0)
        return;
    relative = squares > 0 ? sqrt(of_difference / squares) : INFINITY;
    if (relative > d->tolerance) {
        printf("biases of experts: relative L2 %.3g, largest %.3g\n", relative, most);
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
                              const struct mds_ckpt_distance *is)
{
    int differs = d->tolerance > 0 ? is->relative > d->tolerance : is->unequal > 0;

    d->compared++;
    if (d->worst < is->relative || !d->worst_name) {
        d->worst = is->relative;
        d->worst_name = t->name;
    }
    if (d->most < is->most || !d->most_name) {
        d->most = is->most;
        d->most_name = t->name;
    }
    if (!differs)
        return;
    d->different++;
    printf("%s %s: relative L2 %.3g, largest %.3g, %" PRId64 " numbers\n",
           mds_ckpt_group(what), t->name, is->relative, is->most, is->unequal);
}

static enum mds_rc diff_tensor(struct diff *d, int64_t ta, int64_t tb)
{
    const struct mds_ckpt_tensor *a = &d->a.ix->tensor[ta], *b = &d->b.ix->tensor[tb];
    int64_t rows = unpadded_rows(d->a.ix, a);
    struct mds_ckpt_distance is;

    if (rows != unpadded_rows(d->b.ix, b) || a->cols != b->cols) {
        printf("%s: %" PRId64 " x %" PRId64 " | %" PRId64 " x %" PRId64 "\n", a->name,
               a->rows, a->cols, b->rows, b->cols);
        d->others++;
        return MDS_OK;
    }
    for (int what = 0; what < d->states; what++) {
        MDS_TRY(mds_ckpt_compare(d->a.reader, ta, d->b.reader, tb, what, rows, &is));
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
