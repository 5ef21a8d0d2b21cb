/* SPDX-License-Identifier: BSD-3-Clause */
#include "programs/subcommands.h"
#include "base/alloc.h"
#include "programs/finish.h"
#include "programs/start.h"

#include <stdlib.h>
#include <string.h>

/* The options of one subcommand. */
struct selected_options {
    struct mds_option_set set;
    struct mds_option *rows;
};

/* v NULL: the general options only.  The caller frees the rows. */
static enum mds_rc select_options(const struct mds_program *p,
                                  const struct mds_subcommand *v,
                                  struct selected_options *out)
{
    const char *groups = v && v->groups ? v->groups : v ? v->name : NULL;

    out->set = *p->set;
    MDS_TRY(mds_option_set_select(p->set, groups, &out->rows));
    out->set.options = out->rows;
    out->set.others = p->set->options;
    if (v) {
        out->set.synopsis = v->synopsis;
        out->set.about = v->about;
        out->set.passes_unknown = v->passes_unknown;
    }
    return MDS_OK;
}

static const struct mds_subcommand *find_subcommand(const struct mds_program *p,
                                                    const char *name)
{
    const struct mds_subcommand *v = p->subcommands;

    while (v->name && strcmp(v->name, name) != 0)
        v++;
    return v->name ? v : NULL;
}

static enum mds_rc fail_unknown_subcommand(const struct mds_program *p,
                                           const char *name)
{
    const char **names, *near, *end;
    struct mds_str all = {0};
    char hint[MDS_HINT_SIZE];
    size_t n = 0;

    for (const struct mds_subcommand *v = p->subcommands; v->name; v++, n++)
        mds_str_add(&all, "%s%s", n ? ", " : "there is ", v->name);
    names = mds_zalloc(n, sizeof *names);
    for (size_t i = 0; names && i < n; i++)
        names[i] = p->subcommands[i].name;
    near = name && names ? mds_str_nearest(name, names, n) : NULL;
    free(names);
    end = near || !all.s ? mds_str_hint(near, "see --help", hint) : all.s;
    if (name)
        mds_fail(MDS_EUSER, "unknown subcommand '%s'; %s", name, end);
    else
        mds_fail(MDS_EUSER, "no subcommand given; %s", end);
    mds_str_fini(&all);
    return MDS_EUSER;
}

/* With options of another program after "--", only those before it are ours. */
static enum mds_rc read_command_line(struct mds_invocation *c,
                                     const struct mds_option_set *set, void *values)
{
    struct mds_diag diag = {0};
    int ours = set->passed_to ? 1 : c->argc;
    enum mds_rc rc;

    while (ours < c->argc && strcmp(c->argv[ours], "--") != 0)
        ours++;
    c->passed_argc = ours < c->argc ? c->argc - ours - 1 : 0;
    c->passed_argv = c->argv + c->argc - c->passed_argc;
    MDS_TRY(mds_settings_init(&c->settings, set, values));
    mds_settings_read_args(&c->settings, ours, c->argv, &diag);
    mds_settings_read_env(&c->settings, &diag);
    mds_settings_check_paths(&c->settings, &diag);
    rc = mds_diag_result(&diag);
    mds_diag_fini(&diag);
    return rc;
}

size_t mds_invocation_name_count(const struct mds_invocation *c)
{
    size_t n = 0;

    while (n < c->operand_count && strncmp(c->operand[n], "--", 2) != 0)
        n++;
    return n;
}

/* An empty operand is most likely a shell variable that is not set. */
static int has_empty_operand(const struct mds_invocation *c)
{
    for (size_t i = 0; i < mds_invocation_name_count(c); i++)
        if (!*c->operand[i])
            return 1;
    return 0;
}

/* What stands behind "--", for a subcommand that takes no other program's options
 * there: its words, whatever they begin with. */
static enum mds_rc read_after_dashes(const struct mds_subcommand *v,
                                     struct mds_invocation *c)
{
    struct mds_diag diag = {0};
    enum mds_rc rc;

    if (c->passed_argc == 0 || strstr(v->synopsis, "[-- "))
        return MDS_OK;
    /* From the "--" on, and the word before it, which counts as the program's name. */
    mds_settings_read_args(&c->settings, c->passed_argc + 2, c->passed_argv - 2, &diag);
    rc = mds_diag_result(&diag);
    mds_diag_fini(&diag);
    return rc;
}

static enum mds_rc check_operands(const struct mds_program *p,
                                  const struct mds_subcommand *v,
                                  const struct mds_invocation *c)
{
    if (c->operand_count < v->least)
        return mds_fail(MDS_EUSER, "%s needs %s", v->name, v->needs);
    if (c->operand_count > v->most)
        return mds_fail(MDS_EUSER, "'%s' is one operand too many; see %s %s --help",
                        c->operand[v->most], p->set->program, v->name);
    if (has_empty_operand(c))
        return mds_fail(MDS_EUSER,
                        "%s: an operand is empty; is a shell variable unset?", v->name);
    return MDS_OK;
}

/* Of a sentence, up to the first mark that a blank or nothing follows. */
static int first_clause(const char *text)
{
    int n = 0;

    while (text[n] && text[n] != '\n' && text[n] != '(' &&
           !(strchr(".:;,", text[n]) && strchr(" \n", text[n + 1])))
        n++;
    return n;
}

/* Behind the table of options: "subcommand", name, what it does. */
static void print_subcommands(const struct mds_program *p, FILE *f)
{
    for (const struct mds_subcommand *v = p->subcommands; v->name; v++)
        fprintf(f, "subcommand\t%s\t%.*s\n", v->name, first_clause(v->about), v->about);
}

/* v: whose --help was asked for; NULL: the program's. */
static enum mds_rc print_help_or_version(const struct mds_program *p,
                                         const struct mds_subcommand *v,
                                         enum mds_action action)
{
    struct selected_options selected = {.set = *p->set};

    if (v && (action == MDS_ACTION_HELP || action == MDS_ACTION_TABLE))
        MDS_TRY(select_options(p, v, &selected));
    mds_settings_print_action(&selected.set, action, NULL, stdout);
    if (!v && action == MDS_ACTION_TABLE)
        print_subcommands(p, stdout);
    free(selected.rows);
    return MDS_OK;
}

static enum mds_rc run_subcommand(const struct mds_program *p, struct mds_invocation *c)
{
    const struct mds_settings *s = &c->settings;
    const char *name = s->operand_count ? s->operands[0] : p->default_name;
    const struct mds_subcommand *v = name ? find_subcommand(p, name) : NULL;

    if (!v && (name || !s->action))
        return fail_unknown_subcommand(p, name);
    if (s->action)
        return print_help_or_version(p, s->operand_count ? v : NULL, s->action);
    MDS_TRY(read_after_dashes(v, c));
    c->operand_count = s->operand_count ? s->operand_count - 1 : 0;
    c->operand = s->operands + (s->operand_count > 0);
    MDS_TRY(check_operands(p, v, c));
    return v->run(c);
}

static enum mds_rc read_and_run(const struct mds_program *p, struct mds_invocation *c,
                                void *values)
{
    const char *first = c->argc > 1 && c->argv[1][0] != '-' ? c->argv[1] : NULL;
    const struct mds_subcommand *v = first ? find_subcommand(p, first) : NULL;
    struct selected_options selected;
    enum mds_rc rc;

    if (!p->default_name && first && !v)
        return fail_unknown_subcommand(p, first);
    MDS_TRY(select_options(p, v, &selected));
    rc = read_command_line(c, p->default_name ? p->set : &selected.set, values);
    if (!rc)
        rc = run_subcommand(p, c);
    mds_settings_fini(&c->settings);
    free(selected.rows);
    return rc;
}

int mds_program_run(const struct mds_program *p, int argc, char **argv, void *values)
{
    int status = EXIT_SUCCESS;
    struct mds_invocation c = {.argc = argc, .argv = argv, .status = &status};
    enum mds_rc rc;

    mds_program_start();
    rc = read_and_run(p, &c, values);
    if (!rc)
        rc = mds_stdout_flush();
    if (rc)
        mds_failure_log();
    return rc ? EXIT_FAILURE : status;
}
