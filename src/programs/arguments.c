#include "programs/arguments.h"
#include "base/log.h"
#include "base/str.h"
#include "base/units.h"
#include "config.h"
#include "programs/finish.h"
#include "programs/start.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = 32 }; /* of one kind: more than any table here has */

struct words {
    const char *const *name;
    size_t n;
};

static enum mds_rc there_is(const char *what, const struct words *w)
{
    struct mds_str all = {0};

    for (size_t i = 0; i < w->n; i++)
        mds_str_add(&all, "%s%s", i > 0 ? ", " : "", w->name[i]);
    mds_fail(MDS_EUSER, "%s: there is %s", what, all.s ? all.s : "none");
    mds_str_fini(&all);
    return MDS_EUSER;
}

/* "unknown KIND 'given': did you mean x?", or all that there are. */
static enum mds_rc unknown(const char *kind, const char *given, const struct words *w)
{
    const char *nearest =
        strlen(given) > 2 ? mds_str_nearest(given, w->name, w->n) : NULL;
    char what[128];

    if (nearest)
        return mds_fail(MDS_EUSER, "unknown %s '%s': did you mean %s?", kind, given,
                        nearest);
    snprintf(what, sizeof what, "unknown %s '%s'", kind, given);
    return there_is(what, w);
}

/* ---- options --------------------------------------------------------------------- */

static enum mds_rc take_choice(const struct mds_argument *is, const char *text,
                               int *out)
{
    struct words w = {.name = is->choices};

    for (; w.name[w.n]; w.n++)
        if (strcmp(text, w.name[w.n]) == 0) {
            *out = (int)w.n;
            return MDS_OK;
        }
    return unknown(is->name, text, &w);
}

static enum mds_rc take(const struct mds_argument *is, const char *text,
                        struct mds_arguments *a)
{
    void *field = (char *)a + is->offset;
    int64_t whole = 0;
    double real = 0;

    switch (is->type) {
    case MDS_ARG_FLAG:
        *(int *)field = 1;
        return MDS_OK;
    case MDS_ARG_TEXT:
        *(const char **)field = text;
        return MDS_OK;
    case MDS_ARG_CHOICE:
        return take_choice(is, text, field);
    case MDS_ARG_REAL:
        if (mds_parse_real(text, &real) != 0 || !(real >= 0))
            break;
        *(double *)field = real;
        return MDS_OK;
    case MDS_ARG_COUNT:
    case MDS_ARG_BYTES:
        if ((is->type == MDS_ARG_COUNT ? mds_parse_count(text, &whole)
                                       : mds_parse_bytes(text, &whole)) != 0 ||
            whole < 0)
            break;
        *(int64_t *)field = whole;
        return MDS_OK;
    }
    return mds_fail(MDS_EUSER, "%s '%s': give a %s, 0 or more", is->name, text,
                    is->type == MDS_ARG_REAL    ? "number"
                    : is->type == MDS_ARG_BYTES ? "size, such as 5GB"
                                                : "whole number");
}

/* The option that the word begins with, up to its end or "=". */
static const struct mds_argument *find(const struct mds_argument *table,
                                       const char *word)
{
    size_t n = strcspn(word, "=");

    for (; table->name; table++)
        if (strlen(table->name) == n && strncmp(table->name, word, n) == 0)
            return table;
    return NULL;
}

static enum mds_rc unknown_option(const struct mds_argument *table, const char *word)
{
    const char *names[NAMES];
    struct words w = {names, 0};
    char given[64];

    for (; table->name && w.n < NAMES - 2; table++)
        names[w.n++] = table->name;
    names[w.n++] = "--help";
    names[w.n++] = "--version";
    snprintf(given, sizeof given, "%.*s", (int)strcspn(word, "="), word);
    return unknown("option", given, &w);
}

/* One word that is an option, and its value; *i moves past them. */
static enum mds_rc read_option(const struct mds_argument *table, int argc, char **argv,
                               int *i, struct mds_arguments *a)
{
    const struct mds_argument *is = find(table, argv[*i]);
    const char *value = strchr(argv[*i], '=');

    if (!is)
        return unknown_option(table, argv[*i]);
    if (is->type == MDS_ARG_FLAG && value)
        return mds_fail(MDS_EUSER, "%s takes no value", is->name);
    if (is->type != MDS_ARG_FLAG && !value && *i + 1 == argc)
        return mds_fail(MDS_EUSER, "%s: a value is missing", is->name);
    if (value)
        value++;
    else if (is->type != MDS_ARG_FLAG)
        value = argv[++*i];
    return take(is, value, a);
}

/* ---- the line -------------------------------------------------------------------- */

static int is_option(const char *word)
{
    return word[0] == '-' && word[1] != '\0'; /* "-" is a file */
}

/* argv[0] is the verb.  Operands move to its front, *n of them. */
static enum mds_rc read_line(const struct mds_verb *v, int argc, char **argv, int *n,
                             struct mds_arguments *a)
{
    int options = 1;

    *n = 0;
    for (int i = 1; i < argc; i++) {
        if (options && strcmp(argv[i], "--") == 0)
            options = 0;
        else if (options && is_option(argv[i]) &&
                 !(v->hands_on && !find(v->arguments, argv[i])))
            MDS_TRY(read_option(v->arguments, argc, argv, &i, a));
        else
            argv[(*n)++] = argv[i];
    }
    return MDS_OK;
}

/* name NULL: none was given. */
static enum mds_rc find_verb(const struct mds_program *p, const char *name,
                             const struct mds_verb **out)
{
    const char *names[NAMES];
    struct words w = {names, 0};

    for (const struct mds_verb *v = p->verbs; v->name && w.n < NAMES; v++) {
        if (name && strcmp(v->name, name) == 0) {
            *out = v;
            return MDS_OK;
        }
        names[w.n++] = v->name;
    }
    return name ? unknown("command", name, &w) : there_is("no command given", &w);
}

/* --help or --version before any "--"?  Printed, if so. */
static int print_action(const struct mds_program *p, int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0)
            return fputs(p->usage, stdout), 1;
        if (strcmp(argv[i], "--version") == 0)
            return printf("%s (" PACKAGE_NAME ") " PACKAGE_VERSION "\n", p->name), 1;
    }
    return 0;
}

static enum mds_rc read_all(const struct mds_program *p, int argc, char **argv,
                            const struct mds_verb **v, int *n, struct mds_arguments *a)
{
    static const struct mds_argument none[] = {{0}};

    if (argc > 1 && is_option(argv[1]))
        return unknown_option(none, argv[1]);
    MDS_TRY(find_verb(p, argc > 1 ? argv[1] : NULL, v));
    return read_line(*v, argc - 1, argv + 1, n, a);
}

int mds_program_run(const struct mds_program *p, int argc, char **argv,
                    struct mds_arguments *a)
{
    const struct mds_verb *v = NULL;
    enum mds_rc rc = MDS_OK;
    int n = 0;

    mds_program_start();
    if (!print_action(p, argc, argv)) {
        if (read_all(p, argc, argv, &v, &n, a)) {
            mds_error("%s (%s --help tells more)", mds_fail_text(), p->name);
            return EXIT_FAILURE;
        }
        rc = v->run(a, n, argv + 1);
    }
    if (!rc)
        rc = mds_stdout_flush();
    if (rc)
        mds_failure_log();
    return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}

enum mds_rc mds_operands_check(const char *verb, const char *name, int n, int want)
{
    static const char *const words[] = {"no", "one", "two"};

    if (n == want)
        return MDS_OK;
    if (n == 0)
        return mds_fail(MDS_EUSER, "%s: no %s given", verb, name);
    return mds_fail(MDS_EUSER, "%s: give %s %s, not %d", verb, words[want], name, n);
}
