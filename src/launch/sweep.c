/* SPDX-License-Identifier: BSD-3-Clause */
/* A sweep: one run for each combination of the values in a table. */
#include "base/log.h"
#include "config/tree.h"
#include "launch/submit.h"
#include "launch/argv.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_VARIABLES = 16, MAX_RUNS = 10000 };

struct variable {
    const char *name;
    const struct mds_node *first; /* its values; a scalar is one value */
    int count;
};

struct table {
    struct variable variable[MAX_VARIABLES];
    int variables, runs;
    const struct mds_submit_line *line;
};

/* ---- the table ---- */

/* A variable that no program reads would make several runs the same. */
static enum mds_rc check_variable(const struct mds_tree *tree, const struct mds_node *n)
{
    const char *near, *nearer;
    char hint[MDS_HINT_SIZE];

    if (mds_option_set_reads(&mds_launch_options, n->key, &near) ||
        mds_option_set_reads(mds_launch_options.passed_to, n->key, &nearer))
        return MDS_OK;
    near = nearer ? nearer : near;
    return mds_fail(MDS_EUSER, "%s:%d: no program reads %s; %s", tree->name, n->line,
                    n->key, mds_str_hint(near, "see mds_pretrain --help", hint));
}

/* What sets the same on the command line, where it would win in every run; or NULL. */
static const char *find_override(const struct mds_submit_line *l, const char *name)
{
    static const char *const operands[] = {"QUEUE", "NUM_NODES", "DURATION", "PROJECT"};
    const char *word =
        mds_option_set_overrides(&mds_launch_options, name, l->argc, l->argv);

    for (size_t i = 0; i < l->operand_count && i < sizeof operands / sizeof *operands;
         i++)
        if (strcmp(operands[i], name) == 0)
            return l->operands[i];
    return word ? word
                : mds_option_set_overrides(mds_launch_options.passed_to, name, l->argc,
                                           l->argv);
}

static enum mds_rc add_variable(struct table *t, const struct mds_tree *tree,
                                const struct mds_node *n)
{
    struct variable *a = &t->variable[t->variables];
    const char *given;

    if (t->variables == MAX_VARIABLES)
        return mds_fail(MDS_EUSER, "%s:%d: more than %d variables", tree->name, n->line,
                        MAX_VARIABLES);
    if (n->key[strspn(n->key, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789")])
        return mds_fail(
            MDS_EUSER,
            "%s:%d: %s is not a variable; a sweep is a map such as SEQ_LEN: [2k, 32k]",
            tree->name, n->line, n->key);
    MDS_TRY(check_variable(tree, n));
    given = find_override(t->line, n->key);
    if (given)
        return mds_fail(MDS_EUSER,
                        "%s:%d: %s would not vary, as '%s' is on the command line; "
                        "leave one of them out",
                        tree->name, n->line, n->key, given);
    *a = (struct variable){.name = n->key, .first = n, .count = 1};
    if (n->kind == MDS_NODE_LIST) {
        a->first = n->first;
        a->count = 0;
        for (const struct mds_node *v = n->first; v; v = v->next) {
            if (v->kind != MDS_NODE_SCALAR)
                return mds_fail(MDS_EUSER, "%s:%d: a value of %s must be a word",
                                tree->name, v->line, n->key);
            a->count++;
        }
    }
    if (n->kind == MDS_NODE_MAP || a->count == 0)
        return mds_fail(MDS_EUSER, "%s:%d: %s must be a list of values", tree->name,
                        n->line, n->key);
    if (t->runs > MAX_RUNS / a->count)
        return mds_fail(MDS_EUSER, "%s: more than %d runs", tree->name, MAX_RUNS);
    t->runs *= a->count;
    t->variables++;
    return MDS_OK;
}

static enum mds_rc read_table(const struct mds_tree *tree,
                              const struct mds_submit_line *line, struct table *t)
{
    *t = (struct table){.runs = 1, .line = line};
    if (!tree->root || tree->root->kind != MDS_NODE_MAP)
        return mds_fail(MDS_EUSER, "%s: not a sweep: must be a map of lists",
                        tree->name);
    for (const struct mds_node *n = tree->root->first; n; n = n->next)
        MDS_TRY(add_variable(t, tree, n));
    return MDS_OK;
}

/* ---- runs ---- */

/* Whether the default name of a run contains the variable's value. */
static int is_shown_in_name(const char *variable)
{
    return strcmp(variable, "MODEL_SIZE_KEY") == 0 ||
           strcmp(variable, "SEQ_LEN") == 0 || strcmp(variable, "SEQ") == 0 ||
           strcmp(variable, "NUM_NODES") == 0;
}

/* Add "LR3e-4", which distinguishes this run from the others; of a path only the last
 * part. */
static void add_tag(const struct variable *a, struct mds_str *tag)
{
    const char *value = getenv(a->name), *slash = strrchr(value, '/');
    char *word;

    if (a->count == 1 || is_shown_in_name(a->name))
        return;
    word = strdup(slash ? slash + 1 : value);
    for (char *p = word; p && *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("._+-", *p))
            *p = '_';
    mds_str_add(tag, "%s%s%.24s", tag->len ? "-" : "", a->name, word ? word : "");
    free(word);
}

/* Export the values of run number `run`; the last variable varies fastest. */
static void set_environment_of_run(const struct table *t, int run, struct mds_str *said,
                                   struct mds_str *tag)
{
    for (int i = t->variables; i-- > 0;) {
        const struct mds_node *v = t->variable[i].first;

        for (int n = run % t->variable[i].count; n > 0; n--)
            v = v->next;
        run /= t->variable[i].count;
        setenv(t->variable[i].name, v->text, 1);
    }
    for (int i = 0; i < t->variables; i++) {
        mds_str_add(said, "%s%s=%s", i ? " " : "", t->variable[i].name,
                    getenv(t->variable[i].name));
        add_tag(&t->variable[i], tag);
    }
}

/* `submit` as a command line of its own, in the environment of one run.  Returns its
 * exit status. */
static int submit_run(const struct mds_submit_line *l, const char *tag,
                      mds_sweep_command *command)
{
    struct mds_argv w = {0};
    int status;

    mds_argv_add_split(&w, "mds_launch submit");
    mds_argv_add_option(&w, "--tag", "%s", tag);
    mds_argv_add_words(&w, (size_t)l->argc, l->argv);
    status = w.failed ? EXIT_FAILURE : command((int)w.n, w.v);
    mds_argv_fini(&w);
    return status;
}

/* Returns how many were submitted. */
static int submit_all_runs(const struct table *t, mds_sweep_command *command)
{
    int submitted = 0;

    for (int run = 0; run < t->runs; run++) {
        struct mds_str said = {0}, tag = {0};

        set_environment_of_run(t, run, &said, &tag);
        printf("run %d of %d: %s\n", run + 1, t->runs, said.s ? said.s : "");
        if (submit_run(t->line, tag.s ? tag.s : "", command) == 0)
            submitted++;
        else
            mds_warn("run %d is skipped: %s", run + 1, said.s ? said.s : "");
        mds_str_fini(&tag);
        mds_str_fini(&said);
    }
    return submitted;
}

enum mds_rc mds_sweep(const struct mds_launch_options *options, const char *path,
                      const struct mds_submit_line *line, mds_sweep_command *command)
{
    struct mds_tree *tree = NULL;
    struct table t;
    int submitted = 0, had_runs = access(options->folder, F_OK) == 0;
    enum mds_rc rc;

    MDS_TRY(mds_tree_load(path, &tree));
    rc = read_table(tree, line, &t);
    if (!rc)
        submitted = submit_all_runs(&t, command);
    mds_tree_destroy(tree);
    if (!rc && !options->print)
        printf("%d of %d runs %s\n", submitted, t.runs,
               options->write ? "written" : "submitted");
    if (!rc && !options->print && submitted == 0)
        rc = mds_fail(MDS_EUSER, "%s: no run was submitted", path);
    if (rc && !had_runs)
        rmdir(options->folder);
    return rc;
}
