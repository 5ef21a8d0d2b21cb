/* SPDX-License-Identifier: BSD-3-Clause */
/* models: the model table, and what of it fits on these nodes. */
#include "base/units.h"
#include "config/tree.h"
#include "launch/launch.h"
#include "launch/submit.h"

#include <stdio.h>
#include <string.h>

struct row {
    const struct mds_model_config *model;
    char parameters[32], fits[256];
};

/* The configuration with the shape as the table has it, whatever else sets its values:
 * NLAYERS in the environment is not about each row. */
static enum mds_rc configure_shape(const struct mds_launch *l,
                                   const struct mds_node *shape,
                                   struct mds_config_run **out)
{
    struct mds_argv key = {0};
    struct mds_diag diag = {0};
    enum mds_rc rc;

    mds_argv_add_option(&key, "--model-size-key", "%s", shape->key);
    rc = mds_launch_config(l, &key, 0, out);
    for (const struct mds_node *n = rc ? NULL : shape->first; n; n = n->next) {
        struct mds_settings *s = &(*out)->settings;
        size_t row = mds_model_shape_row(s, n);

        if (row < s->rows)
            mds_settings_put(s, row, n->text, MDS_LEVEL_CLI, shape->key, n->key, &diag);
    }
    mds_diag_fini(&diag);
    mds_argv_fini(&key);
    return rc;
}

/* Exactly, of the shape on one rank; "-" if what else is set does not allow that. */
static void fill_parameters(const struct mds_launch *l, const struct mds_node *shape,
                            struct row *r)
{
    struct mds_config_run *run = NULL;
    struct mds_diag diag = {0};
    enum mds_rc rc = configure_shape(l, shape, &run);

    if (!rc) {
        run->config.train.dry_run = 1; /* the vocabulary is assumed without data */
        rc = mds_config_resolve(run, 1, &diag);
    }
    snprintf(r->parameters, sizeof r->parameters, "-");
    if (!rc)
        mds_format_count((double)mds_model_params(&run->config.model), r->parameters,
                         sizeof r->parameters);
    mds_diag_fini(&diag);
    mds_config_run_destroy(run);
}

/* The fastest layout that is found in a sixteenth of the time of a plan. */
static void fill_fits(const struct mds_launch *l, const struct mds_config_run *run,
                      struct row *r)
{
    struct mds_plan_request request;
    struct mds_diag diag = {0};
    struct mds_str text = {0};
    struct mds_plan p = {0};
    char memory[32];
    enum mds_rc rc = mds_launch_request(l, run, &request);

    request.budget_s /= 16;
    if (!rc)
        rc = mds_plan_search(&request, &diag, &p);
    if (!rc && p.fit_count > 0) {
        mds_format_bytes((double)p.fits[0].estimate.device_bytes, memory,
                         sizeof memory);
        mds_str_add(&text, "%s: ", memory);
        mds_layout_describe(&p.fits[0].layout, l->ranks, &text);
    }
    snprintf(r->fits, sizeof r->fits, "%s",
             rc               ? mds_fail_text()
             : text.s         ? text.s
             : p.untried == 0 ? "no"
                              : "not found in time (--plan-seconds)");
    mds_plan_fini(&p);
    mds_diag_fini(&diag);
    mds_str_fini(&text);
}

/* What it takes to fit, behind `column` columns of a line: it goes on below, behind a
 * comma, so that no line has more than 100. */
static void print_fits(const char *text, int column)
{
    const int width = 100;
    int at = column;

    while (*text) {
        const char *comma = strstr(text, ", ");
        int n = comma ? (int)(comma - text) + 1 : (int)strlen(text);

        if (at > column && at + 1 + n > width) {
            printf("\n%*s", column, "");
            at = column;
        }
        at += printf("%s%.*s", at > column ? " " : "", n, text);
        text += comma ? n + 1 : n;
    }
    printf("\n");
}

static enum mds_rc print_model(const struct mds_launch *l, const struct mds_node *shape)
{
    struct mds_config_run *run = NULL;
    struct row r;
    int column;
    enum mds_rc rc = configure_shape(l, shape, &run);

    if (!rc) {
        r.model = &run->config.model;
        fill_parameters(l, shape, &r);
        fill_fits(l, run, &r);
        column =
            printf("%-14s %10s %6lld %6lld %5lld %8lld  ", shape->key, r.parameters,
                   (long long)r.model->layers, (long long)r.model->hidden,
                   (long long)r.model->heads, (long long)r.model->seq_length);
        print_fits(r.fits, column);
        fflush(stdout); /* the next takes a while */
    }
    mds_config_run_destroy(run);
    return rc;
}

static enum mds_rc print_models(const struct mds_launch *l, const struct mds_tree *t)
{
    printf("On %lld rank%s: %lld node%s of %s\n", (long long)l->ranks,
           mds_plural(l->ranks), (long long)l->nodes, mds_plural(l->nodes),
           l->machine->name);
    printf("%-14s %10s %6s %6s %5s %8s  memory of a rank, and layout\n",
           "MODEL_SIZE_KEY", "parameters", "layers", "hidden", "heads", "sequence");
    for (const struct mds_node *n = t->root ? t->root->first : NULL; n; n = n->next)
        if (n->kind == MDS_NODE_MAP)
            MDS_TRY(print_model(l, n));
    printf("\nThese are the shapes in %s.  KEY_12L is KEY with 12 layers.\n"
           "mds_launch plan -- --model-size-key KEY says more of one; SEQ_LEN, --nodes "
           "and --machine\nchange what fits.\n",
           t->name);
    return MDS_OK;
}

enum mds_rc mds_models(const struct mds_launch_options *options, int argc,
                       char *const *argv)
{
    struct mds_config_run *run = NULL;
    struct mds_tree *table = NULL;
    struct mds_launch l;
    enum mds_rc rc;

    MDS_TRY(mds_launch_open(options, 1, argc, argv, &l));
    rc = mds_launch_config(&l, NULL, 1, &run);
    if (!rc)
        rc = mds_model_table_load(run, &table);
    if (!rc)
        rc = print_models(&l, table);
    mds_tree_destroy(table);
    mds_config_run_destroy(run);
    mds_launch_close(&l);
    return rc;
}
