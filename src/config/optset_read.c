/* SPDX-License-Identifier: BSD-3-Clause */
/* Sources of settings: command line, environment, trees. */
#include "config/optset_impl.h"

#include "base/alloc.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

static const char *const cli = "command line";

/* Whether several words are one value. */
static int takes_word_list(const struct mds_option *o)
{
    return o->type == MDS_OPT_WORDS || o->type == MDS_OPT_SET;
}

struct args {
    int count, at; /* at: the next one */
    char *const *v;
};

static int is_option(const char *arg)
{
    return arg[0] == '-' && (arg[1] == '-' || isalpha((unsigned char)arg[1]));
}

static void read_operand(struct mds_settings *s, char *arg, struct mds_diag *diag)
{
    if (!s->set->operands) {
        mds_diag_fault(diag, cli, "'%s' belongs to no option; see --help", arg);
        return;
    }
    if (mds_grow(&s->operands, s->operand_count, sizeof *s->operands))
        mds_diag_fault(diag, cli, "%s", mds_fail_text());
    else
        s->operands[s->operand_count++] = arg;
}

/* The words that follow, joined by blanks; *text is the caller's. */
static enum mds_rc join_words(struct args *a, char **text)
{
    struct mds_str b = {0};

    while (a->at < a->count && !is_option(a->v[a->at]))
        mds_str_add(&b, "%s%s", b.len ? " " : "", a->v[a->at++]);
    if (b.failed) {
        mds_str_fini(&b);
        return MDS_EMEM;
    }
    *text = b.s;
    return MDS_OK;
}

static void read_words(struct mds_settings *s, const struct mds_name *n,
                       const char *name, struct args *a, struct mds_diag *diag)
{
    char *text = NULL;

    if (join_words(a, &text))
        mds_diag_fault(diag, cli, "%s", mds_fail_text());
    else if (!text)
        mds_diag_fault(diag, cli, "%s needs a value", name);
    else
        mds_settings_put_name(s, n, text, MDS_LEVEL_CLI, cli, name, diag);
    free(text);
}

static void read_flag(struct mds_settings *s, const struct mds_name *n,
                      const char *name, const char *value, struct mds_diag *diag)
{
    const struct mds_option *o = &s->set->options[n->row];
    int on = value ? mds_parse_flag(value) : 1;

    if (on < 0)
        mds_diag_fault(diag, cli, "%s '%s': must be 0 or 1", name, value);
    else if (n->alias)
        mds_settings_put_name(s, n, on ? "1" : "0", MDS_LEVEL_CLI, cli, name, diag);
    else /* --no-x counts as a spelling of --x, so that the last one wins */
        mds_settings_put(s, n->row, on ^ n->negated ^ o->inverted ? "1" : "0",
                         MDS_LEVEL_CLI, cli, o->flag, diag);
}

/* The subcommand that takes it; NULL: none does. */
static const char *subcommand_of(const struct mds_option_set *set, const char *name)
{
    for (const struct mds_option *o = set->others; o && o->help; o++)
        if (o->flag && strcmp(o->flag, name) == 0)
            return o->group;
    return NULL;
}

/* A fault for an unknown option, or one of another subcommand or program. */
static void fault_unknown_option(const struct mds_option_set *set, const char *name,
                                 struct mds_diag *diag)
{
    const char *near = mds_name_nearest(set, MDS_NAME_FLAG, name);
    const char *subcommand = subcommand_of(set, name);
    char hint[MDS_HINT_SIZE];
    struct mds_name n;

    if (subcommand)
        mds_diag_fault(diag, cli, "option %s belongs to '%s'; give it after that word",
                       name, subcommand);
    else if (set->passed_to &&
             mds_name_find(set->passed_to, MDS_NAME_FLAG, name, &n) == 0)
        mds_diag_fault(diag, cli, "option %s belongs to %s: give it after --", name,
                       set->passed_to->program);
    else
        mds_diag_fault(diag, cli, "unknown option %s; %s", name,
                       mds_str_hint(near, "see --help", hint));
}

/* Skip the values of an unknown option, so that it causes one fault: all words up to
 * the next option, or only the first if the program takes operands. */
static void skip_values(const struct mds_option_set *set, const char *value,
                        struct args *a)
{
    int most = value ? 0 : set->operands ? 1 : a->count;

    while (most-- > 0 && a->at < a->count && !is_option(a->v[a->at]))
        a->at++;
}

/* --help TOPIC, where a word is no operand. */
static void read_topic(struct mds_settings *s, struct args *a, struct mds_diag *diag)
{
    if (s->set->operands || a->at >= a->count || is_option(a->v[a->at]))
        return;
    s->topic = a->v[a->at++];
    if (!mds_option_topic_exists(s->set, s->topic))
        mds_diag_fault(diag, cli, "--help %s: no option has that in its name or text",
                       s->topic);
}

static void read_option(struct mds_settings *s, const char *name, const char *value,
                        struct args *a, struct mds_diag *diag)
{
    const struct mds_option *o;
    struct mds_name n;

    if (mds_name_find(s->set, MDS_NAME_FLAG, name, &n)) {
        if (!mds_foreign_keep(s, name, diag))
            fault_unknown_option(s->set, name, diag);
        skip_values(s->set, value, a);
        return;
    }
    o = &s->set->options[n.row];
    if (o->type == MDS_OPT_ACTION) {
        if (!s->action)
            s->action = o->action;
        if (o->action == MDS_ACTION_HELP)
            read_topic(s, a, diag);
    } else if (o->type == MDS_OPT_FLAG || (n.alias && n.alias->on)) {
        read_flag(s, &n, name, value, diag);
    } else if (value) {
        mds_settings_put_name(s, &n, value, MDS_LEVEL_CLI, cli, name, diag);
    } else if (takes_word_list(o)) {
        read_words(s, &n, name, a, diag);
    } else if (a->at >= a->count || strncmp(a->v[a->at], "--", 2) == 0) {
        mds_diag_fault(diag, cli, "%s needs a value", name);
    } else {
        mds_settings_put_name(s, &n, a->v[a->at++], MDS_LEVEL_CLI, cli, name, diag);
    }
}

void mds_settings_read_args(struct mds_settings *s, int argc, char *const *argv,
                            struct mds_diag *diag)
{
    struct args a = {.count = argc, .at = 1, .v = argv};
    size_t foreign = s->foreign_count;
    int options = 1;

    while (a.at < a.count) {
        char *arg = a.v[a.at++];
        const char *equals = strchr(arg, '=');
        struct mds_name known;
        char *name;

        if (options && strcmp(arg, "--") == 0) {
            options = 0;
        } else if (!options || !is_option(arg)) {
            read_operand(s, arg, diag);
        } else {
            name = strndup(arg, equals ? (size_t)(equals - arg) : strlen(arg));
            if (name && s->set->passes_unknown &&
                mds_name_find(s->set, MDS_NAME_FLAG, name, &known))
                read_operand(s, arg, diag);
            else if (name)
                read_option(s, name, equals ? equals + 1 : NULL, &a, diag);
            else
                mds_diag_fault(diag, cli, "no host memory");
            free(name);
        }
    }
    mds_foreign_report(s, foreign, diag);
}

/* An empty variable counts as unset, as scripts have it. */
static void read_variable(struct mds_settings *s, const char *name,
                          struct mds_diag *diag)
{
    const char *text = getenv(name);
    char origin[128];
    struct mds_name n;

    if (!text || !*text || mds_name_find(s->set, MDS_NAME_ENV, name, &n))
        return;
    snprintf(origin, sizeof origin, "environment %s", name);
    mds_settings_put_name(s, &n, text, MDS_LEVEL_ENV, origin, name, diag);
}

/* name without underscores. */
static void remove_underscores(const char *name, char *buf, size_t size)
{
    size_t n = 0;

    for (; *name && n + 1 < size; name++)
        if (*name != '_')
            buf[n++] = *name;
    buf[n] = '\0';
}

/* Whether name is likely meant to be known: SEQLEN, MODEL_SIZE, MICRO_BATCH_SIZE,
 * MODEL_SIZE_KY.  Strict, for the environment is full of other programs' names. */
static int is_likely_misspelling(const char *name, const char *known)
{
    char a[64], b[64];
    size_t la, lb;

    remove_underscores(name, a, sizeof a);
    remove_underscores(known, b, sizeof b);
    la = strlen(a);
    lb = strlen(b);
    if (la < 6 || lb < 6)
        return 0;
    if (la >= 8 && lb >= 8 && la <= lb + 1 && lb <= la + 1 &&
        mds_str_distance(a, b) == 1)
        return 1;
    if (la >= lb)
        return strncmp(a, b, lb) == 0;
    return la >= 8 && strncmp(a, b, la) == 0;
}

static const char *find_misspelt_name(const struct mds_option_set *set,
                                      const char *name)
{
    const struct mds_option_alias *a = set->aliases;

    for (size_t i = 0; set->options[i].help; i++)
        if (set->options[i].env && is_likely_misspelling(name, set->options[i].env))
            return set->options[i].env;
    for (; a && a->name; a++)
        if (mds_alias_kind(a->name) == MDS_NAME_ENV &&
            is_likely_misspelling(name, a->name))
            return a->name;
    return NULL;
}

int mds_option_set_reads(const struct mds_option_set *set, const char *name,
                         const char **near)
{
    struct mds_name n;

    *near = NULL;
    if (mds_name_find(set, MDS_NAME_ENV, name, &n) == 0)
        return 1;
    *near = find_misspelt_name(set, name);
    if (!*near)
        *near = mds_name_nearest(set, MDS_NAME_ENV, name);
    return 0;
}

const char *mds_option_set_overrides(const struct mds_option_set *set, const char *name,
                                     int argc, char *const *argv)
{
    struct mds_name variable, flag;
    char word[64];

    if (mds_name_find(set, MDS_NAME_ENV, name, &variable))
        return NULL;
    for (int i = 0; i < argc; i++) {
        snprintf(word, sizeof word, "%.*s", (int)strcspn(argv[i], "="), argv[i]);
        if (mds_name_find(set, MDS_NAME_FLAG, word, &flag) == 0 &&
            flag.row == variable.row)
            return argv[i];
    }
    return NULL;
}

/* An unknown variable: a fault if it has the program's prefix, a warning if it looks
 * like a misspelling. */
static void check_unknown_variable(const struct mds_option_set *set, const char *name,
                                   struct mds_diag *diag)
{
    const char *unread = mds_foreign_why(set->accepted, name);
    const char *prefix = set->env_prefix, *near;
    char hint[MDS_HINT_SIZE];
    struct mds_name n;

    if (mds_name_find(set, MDS_NAME_ENV, name, &n) == 0 ||
        (set->env_others && mds_str_is_in(name, set->env_others)))
        return;
    if (prefix && strncmp(name, prefix, strlen(prefix)) == 0) {
        const char *gone = mds_foreign_why(set->gone, name);

        near = mds_name_nearest(set, MDS_NAME_ENV, name);
        mds_diag_fault(diag, "environment", "unknown variable %s; %s", name,
                       gone ? gone : mds_str_hint(near, "unset it", hint));
    } else if (unread) {
        mds_diag_warn(diag, "environment", "%s is not read: %s", name, unread);
    } else if ((near = find_misspelt_name(set, name)) != NULL) {
        mds_diag_warn(diag, "environment", "%s is not read; did you mean %s?", name,
                      near);
    }
}

void mds_settings_read_env(struct mds_settings *s, struct mds_diag *diag)
{
    const struct mds_option_alias *a = s->set->aliases;

    for (size_t i = 0; i < s->rows; i++)
        if (s->set->options[i].env)
            read_variable(s, s->set->options[i].env, diag);
    for (; a && a->name; a++)
        if (mds_alias_kind(a->name) == MDS_NAME_ENV)
            read_variable(s, a->name, diag);
    for (char **e = environ; e && *e; e++) {
        char name[128];
        const char *equals = strchr(*e, '=');

        if (equals && equals > *e && equals[1] && (size_t)(equals - *e) < sizeof name) {
            snprintf(name, sizeof name, "%.*s", (int)(equals - *e), *e);
            check_unknown_variable(s->set, name, diag);
        }
    }
}

/* A key nobody knows: the nearest key, or the key of the nearest flag (num_layers). */
static void fault_unknown_key(const struct mds_settings *s, const char *path,
                              const char *origin, struct mds_diag *diag)
{
    const char *near = mds_name_nearest(s->set, MDS_NAME_KEY, path);
    const char *last = strrchr(path, '.');
    char flag[72], hint[MDS_HINT_SIZE];
    struct mds_name n;

    snprintf(flag, sizeof flag, "--%s", last ? last + 1 : path);
    if (!near) {
        near = mds_name_nearest(s->set, MDS_NAME_FLAG, flag);
        if (near)
            near = mds_name_find(s->set, MDS_NAME_FLAG, near, &n) == 0
                       ? s->set->options[n.row].key
                       : NULL;
    }
    mds_diag_fault(diag, origin, "unknown key %s; %s", path,
                   mds_str_hint(near, "--show-config lists the keys", hint));
}

/* What an earlier version has written: 0 was the default. */
static void warn_gone(const struct mds_node *n, const char *path, const char *why,
                      const char *origin, struct mds_diag *diag)
{
    if (n->kind != MDS_NODE_SCALAR || strcmp(n->text, "0") != 0)
        mds_diag_warn(diag, origin, "%s is gone, and ignored; %s", path, why);
}

/* A list's words joined by blanks; NULL if it holds anything else. */
static char *join_list(const struct mds_node *list)
{
    struct mds_str b = {0};

    for (const struct mds_node *n = list->first; n; n = n->next) {
        if (n->kind != MDS_NODE_SCALAR || !*n->text) {
            mds_str_fini(&b);
            return NULL;
        }
        mds_str_add(&b, "%s%s", b.len ? " " : "", n->text);
    }
    return b.s;
}

static void read_tree_value(struct mds_settings *s, enum mds_level level,
                            const struct mds_node *n, const char *path,
                            const char *origin, struct mds_diag *diag)
{
    const char *gone = mds_foreign_why(s->set->gone, path);
    struct mds_name name;
    const struct mds_option *o;
    char *joined;

    if (mds_name_find(s->set, MDS_NAME_KEY, path, &name)) {
        if (gone)
            warn_gone(n, path, gone, origin, diag);
        else
            fault_unknown_key(s, path, origin, diag);
        return;
    }
    o = &s->set->options[name.row];
    if (n->kind == MDS_NODE_LIST) {
        joined = takes_word_list(o) ? join_list(n) : NULL;
        if (joined)
            mds_settings_put_name(s, &name, joined, level, origin, path, diag);
        else
            mds_diag_fault(diag, origin, "%s: %s", path,
                           takes_word_list(o) ? "must be words" : "must not be a list");
        free(joined);
    } else if (!*n->text && !mds_option_is_text(o) && !takes_word_list(o)) {
        mds_diag_fault(diag, origin, "%s has no value", path);
    } else {
        mds_settings_put_name(s, &name, n->text, level, origin, path, diag);
    }
}

/* "batch:" with nothing behind it, or nothing but comments. */
static int is_empty_map(const struct mds_settings *s, const struct mds_node *n,
                        const char *path)
{
    size_t len = strlen(path);

    if (n->kind != MDS_NODE_SCALAR || *n->text)
        return 0;
    for (const struct mds_option *o = s->set->options; o < s->set->options + s->rows;
         o++)
        if (o->key && strncmp(o->key, path, len) == 0 && o->key[len] == '.')
            return 1;
    return 0;
}

static void read_tree_map(struct mds_settings *s, enum mds_level level,
                          const struct mds_tree *t, const struct mds_node *map,
                          const char *prefix, struct mds_diag *diag)
{
    for (const struct mds_node *n = map->first; n; n = n->next) {
        struct mds_str path = {0}, origin = {0};
        struct mds_name name;

        mds_str_add(&path, "%s%s%s", prefix, *prefix ? "." : "", n->key);
        mds_str_add(&origin, "%s:%d", t->name, n->line);
        if (path.failed || origin.failed)
            mds_diag_fault(diag, t->name, "%s", mds_fail_text());
        else if (n->kind != MDS_NODE_MAP && !is_empty_map(s, n, path.s))
            read_tree_value(s, level, n, path.s, origin.s, diag);
        else if (mds_name_find(s->set, MDS_NAME_KEY, path.s, &name) == 0)
            mds_diag_fault(diag, origin.s, "%s must be a value, not a map", path.s);
        else
            read_tree_map(s, level, t, n, path.s, diag);
        mds_str_fini(&path);
        mds_str_fini(&origin);
    }
}

void mds_settings_read_tree(struct mds_settings *s, enum mds_level level,
                            const struct mds_tree *t, struct mds_diag *diag)
{
    if (!t->root)
        return;
    if (t->root->kind != MDS_NODE_MAP)
        mds_diag_fault(diag, t->name, "must be a map of settings, such as \"model:\"");
    else
        read_tree_map(s, level, t, t->root, "", diag);
}
