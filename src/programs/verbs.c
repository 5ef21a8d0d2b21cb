/* SPDX-License-Identifier: BSD-3-Clause */
#include "programs/verbs.h"
#include "base/alloc.h"
#include "programs/finish.h"
#include "programs/start.h"

#include <stdlib.h>
#include <string.h>

/* A verb's part of the program's options. */
struct part {
    struct mds_option_set set;
    struct mds_option *rows;
};

static int is_of(const struct mds_option *o, const struct mds_verb *v)
{
    if (strcmp(o->group, "General") == 0)
        return 1;
    return v && strstr(v->groups ? v->groups : v->name, o->group) != NULL;
}

/* v NULL: of no verb.  The rows are the caller's to free. */
static enum mds_rc take_part(const struct mds_program *p, const struct mds_verb *v,
                             struct part *out)
{
    size_t all = 0, n = 0;

    while (p->set->options[all].help)
        all++;
    out->set = *p->set;
    out->rows = mds_zalloc(all + 1, sizeof *out->rows);
    if (!out->rows)
        return MDS_EMEM;
    for (const struct mds_option *o = p->set->options; o->help; o++)
        if (is_of(o, v))
            out->rows[n++] = *o;
    out->set.options = out->rows;
    out->set.others = p->set->options;
    if (v) {
        out->set.synopsis = v->synopsis;
        out->set.about = v->about;
        out->set.hands_on = v->hands_on;
    }
    return MDS_OK;
}

static const struct mds_verb *find(const struct mds_program *p, const char *name)
{
    const struct mds_verb *v = p->verbs;

    while (v->name && strcmp(v->name, name) != 0)
        v++;
    return v->name ? v : NULL;
}

static enum mds_rc unknown_verb(const struct mds_program *p, const char *name)
{
    const char **names, *near, *end;
    struct mds_str all = {0};
    char hint[MDS_HINT_SIZE];
    size_t n = 0;

    for (const struct mds_verb *v = p->verbs; v->name; v++, n++)
        mds_str_add(&all, "%s%s", n ? ", " : "there is ", v->name);
    names = mds_zalloc(n, sizeof *names);
    for (size_t i = 0; names && i < n; i++)
        names[i] = p->verbs[i].name;
    near = name && names ? mds_str_nearest(name, names, n) : NULL;
    free(names);
    end = near || !all.s ? mds_str_hint(near, "see --help", hint) : all.s;
    if (name)
        mds_fail(MDS_EUSER, "unknown verb '%s'; %s", name, end);
    else
        mds_fail(MDS_EUSER, "no verb given; %s", end);
    mds_str_fini(&all);
    return MDS_EUSER;
}

/* Where another program's options follow, what stands before "--" is ours. */
static enum mds_rc read_line(struct mds_call *c, const struct mds_option_set *set,
                             void *values)
{
    struct mds_diag diag = {0};
    int ours = set->behind ? 1 : c->argc;
    enum mds_rc rc;

    while (ours < c->argc && strcmp(c->argv[ours], "--") != 0)
        ours++;
    c->behind_count = ours < c->argc ? c->argc - ours - 1 : 0;
    c->behind = c->argv + c->argc - c->behind_count;
    MDS_TRY(mds_settings_init(&c->settings, set, values));
    mds_settings_read_args(&c->settings, ours, c->argv, &diag);
    mds_settings_read_env(&c->settings, &diag);
    mds_settings_check_paths(&c->settings, &diag);
    rc = mds_diag_verdict(&diag);
    mds_diag_fini(&diag);
    return rc;
}

size_t mds_call_names(const struct mds_call *c)
{
    size_t n = 0;

    while (n < c->words && strncmp(c->word[n], "--", 2) != 0)
        n++;
    return n;
}

/* An empty name is a variable that is not set, as a rule. */
static int has_empty(const struct mds_call *c)
{
    for (size_t i = 0; i < mds_call_names(c); i++)
        if (!*c->word[i])
            return 1;
    return 0;
}

/* What stands behind "--", for a verb that takes no other program's options there: its
 * words, whatever they begin with. */
static enum mds_rc take_behind(const struct mds_verb *v, struct mds_call *c)
{
    struct mds_diag diag = {0};
    enum mds_rc rc;

    if (c->behind_count == 0 || strstr(v->synopsis, "[-- "))
        return MDS_OK;
    /* From the "--" on, and the word before it, which counts as the program's name. */
    mds_settings_read_args(&c->settings, c->behind_count + 2, c->behind - 2, &diag);
    rc = mds_diag_verdict(&diag);
    mds_diag_fini(&diag);
    return rc;
}

static enum mds_rc check_words(const struct mds_program *p, const struct mds_verb *v,
                               const struct mds_call *c)
{
    if (c->words < v->least)
        return mds_fail(MDS_EUSER, "%s needs %s", v->name, v->needs);
    if (c->words > v->most)
        return mds_fail(MDS_EUSER, "'%s' is one word too many; see %s %s --help",
                        c->word[v->most], p->set->program, v->name);
    if (has_empty(c))
        return mds_fail(MDS_EUSER, "%s: a word is empty; is a variable unset?",
                        v->name);
    return MDS_OK;
}

/* v: whose --help was asked for; NULL: the program's. */
static enum mds_rc answer(const struct mds_program *p, const struct mds_verb *v,
                          enum mds_action action)
{
    struct part part = {.set = *p->set};

    if (v && action == MDS_ACTION_HELP)
        MDS_TRY(take_part(p, v, &part));
    mds_settings_answer(&part.set, action, stdout);
    free(part.rows);
    return MDS_OK;
}

static enum mds_rc call(const struct mds_program *p, struct mds_call *c)
{
    const struct mds_settings *s = &c->settings;
    const char *name = s->operand_count ? s->operands[0] : p->otherwise;
    const struct mds_verb *v = name ? find(p, name) : NULL;

    if (s->action)
        return answer(p, s->operand_count ? v : NULL, s->action);
    if (!v)
        return unknown_verb(p, name);
    MDS_TRY(take_behind(v, c));
    c->words = s->operand_count ? s->operand_count - 1 : 0;
    c->word = s->operands + (s->operand_count > 0);
    MDS_TRY(check_words(p, v, c));
    return v->run(c);
}

static enum mds_rc read_and_call(const struct mds_program *p, struct mds_call *c,
                                 void *values)
{
    const char *first = c->argc > 1 && c->argv[1][0] != '-' ? c->argv[1] : NULL;
    const struct mds_verb *v = first ? find(p, first) : NULL;
    struct part part;
    enum mds_rc rc;

    if (!p->otherwise && first && !v)
        return unknown_verb(p, first);
    MDS_TRY(take_part(p, v, &part));
    rc = read_line(c, p->otherwise ? p->set : &part.set, values);
    if (!rc)
        rc = call(p, c);
    mds_settings_fini(&c->settings);
    free(part.rows);
    return rc;
}

int mds_program_run(const struct mds_program *p, int argc, char **argv, void *values)
{
    struct mds_call c = {.argc = argc, .argv = argv};
    enum mds_rc rc;

    mds_program_start();
    rc = read_and_call(p, &c, values);
    if (!rc)
        rc = mds_stdout_flush();
    if (rc)
        mds_failure_log();
    return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}
