/* SPDX-License-Identifier: BSD-3-Clause */
/* A table of options in print: --help, --version, --show-config. */
#include "config/build.h"
#include "config/optset_impl.h"

#include <config.h>

#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 88, TEXT_COLUMN = 30, ORIGIN_COLUMN = 40 };

/* Print text from column `at` on, folded at blanks to fit `columns`; further lines
 * begin at that column, too. */
static void print_folded(FILE *f, const char *text, int at, int columns)
{
    int first = 1, indent = at;

    while (*text) {
        int word = (int)strcspn(text, " ");

        if (!first && at + 1 + word > columns) {
            fprintf(f, "\n%*s", indent, "");
            at = indent;
            first = 1;
        }
        fprintf(f, "%s%.*s", first ? "" : " ", word, text);
        at += word + !first;
        first = 0;
        text += word;
        text += strspn(text, " ");
    }
    fputc('\n', f);
}

static int takes_no_value(const struct mds_option *o)
{
    return o->type == MDS_OPT_FLAG || o->type == MDS_OPT_ACTION;
}

/* Names of one kind that set the row, besides its own: ", SEQ". */
static void add_aliases(const struct mds_option_set *set, const struct mds_option *o,
                        enum mds_name_kind kind, struct mds_str *out)
{
    const struct mds_option_alias *a = set->aliases;

    for (; a && a->name; a++) {
        int worded = a->on && strcmp(a->on, "1") != 0;

        if (o->flag && strcmp(a->means, o->flag) == 0 &&
            mds_alias_kind(a->name) == kind)
            mds_str_add(out, "%s%s%s%s%s", out->len ? ", " : "", a->name,
                        worded ? " (" : "", worded ? a->on : "", worded ? ")" : "");
    }
}

static void add_choices(const struct mds_option *o, struct mds_str *out)
{
    const char *between = o->type == MDS_OPT_SET ? "," : "|";

    for (size_t i = 0; o->choices && o->choices[i]; i++)
        mds_str_add(out, "%s%s", i ? between : "", o->choices[i]);
}

/* "--seq-length <tokens>" */
static void add_usage(const struct mds_option *o, struct mds_str *out)
{
    mds_str_add(out, "%s", o->flag);
    if (takes_no_value(o))
        return;
    mds_str_add(out, " <");
    if (o->choices)
        add_choices(o, out);
    else
        mds_str_add(out, "%s", o->unit);
    mds_str_add(out, ">");
}

static void add_default(const struct mds_option *o, struct mds_str *out)
{
    if (o->always)
        mds_str_add(out, "; always so");
    else if (o->fallback && o->type != MDS_OPT_FLAG)
        mds_str_add(out, "; default %s", o->fallback);
}

/* Help, default, and the other spellings of a row, on one long line. */
static void add_description(const struct mds_option_set *set,
                            const struct mds_option *o, struct mds_str *out)
{
    struct mds_str flags = {0}, env = {0};

    mds_str_add(out, "%s", o->help);
    if (o->type != MDS_OPT_ACTION)
        add_default(o, out);
    add_aliases(set, o, MDS_NAME_FLAG, &flags);
    if (flags.len)
        mds_str_add(out, "; also %s", flags.s);
    if (o->env)
        mds_str_add(&env, "%s%s", o->env, o->inverted ? "=0" : "");
    add_aliases(set, o, MDS_NAME_ENV, &env);
    if (env.len)
        mds_str_add(out, " [%s]", env.s);
    mds_str_fini(&flags);
    mds_str_fini(&env);
}

static void print_help_row(const struct mds_option_set *set, const struct mds_option *o,
                           FILE *f)
{
    struct mds_str left = {0}, text = {0};
    int at;

    add_usage(o, &left);
    add_description(set, o, &text);
    at = fprintf(f, "  %s", left.s ? left.s : o->flag);
    if (at + 2 > TEXT_COLUMN) {
        fputc('\n', f);
        at = 0;
    }
    fprintf(f, "%*s", TEXT_COLUMN - at, "");
    print_folded(f, text.s ? text.s : o->help, TEXT_COLUMN, COLUMNS);
    mds_str_fini(&left);
    mds_str_fini(&text);
}

/* Each line of set->about is a paragraph. */
static void print_about(const struct mds_option_set *set, FILE *f, const char *between)
{
    const char *p = set->about;

    while (*p) {
        size_t n = strcspn(p, "\n");
        struct mds_str one = {0};

        mds_str_add(&one, "%.*s", (int)n, p);
        fputs(between, f);
        print_folded(f, one.s ? one.s : "", 0, COLUMNS);
        mds_str_fini(&one);
        p += n + (p[n] == '\n');
    }
}

static void print_help_example(const struct mds_option_example *e, FILE *f)
{
    fprintf(f, "  %s\n", e->what);
    for (const char *p = e->line; *p;) {
        size_t n = strcspn(p, "\n");

        fprintf(f, "      %.*s\n", (int)n, p);
        p += n + (p[n] == '\n');
    }
}

/* "Model; Parallelism; ...": what --help TOPIC takes. */
static void print_topics(const struct mds_option_set *set, FILE *f)
{
    const char *group = "";
    struct mds_str topics = {0};

    for (const struct mds_option *o = set->options; o->help; group = o++->group)
        if (strcmp(group, o->group) != 0)
            mds_str_add(&topics, "%s %s", *group ? ";" : "", o->group);
    fprintf(f, "\n--help TOPIC: only a group, or the options with that word in name or "
               "text.  Groups:\n");
    print_folded(f, topics.s ? topics.s + 1 : "", 0, COLUMNS);
    mds_str_fini(&topics);
}

static void print_help(const struct mds_option_set *set, const char *topic, FILE *f)
{
    const char *group = NULL;

    if (!topic) {
        fprintf(f, "Usage: %s %s\n", set->program, set->synopsis);
        print_about(set, f, "\n");
        if (!set->operands)
            print_topics(set, f);
    }
    for (const struct mds_option *o = set->options; o->help; o++) {
        if (!o->flag || o->hidden || (topic && !mds_option_is_about(set, o, topic)))
            continue;
        if (!group || strcmp(group, o->group) != 0)
            fprintf(f, "\n%s:\n", o->group);
        group = o->group;
        print_help_row(set, o, f);
    }
    if (set->examples && !topic)
        fputs("\nExamples:\n", f);
    for (const struct mds_option_example *e = set->examples; !topic && e && e->what;
         e++)
        print_help_example(e, f);
}

static void print_version(const struct mds_option_set *set, FILE *f)
{
    fprintf(f, "%s %s\n", set->program, set->version);
    fprintf(f, "  %-14s %s\n", "commit", mds_build_commit);
#ifdef __clang__
    fprintf(f, "  %-14s %s\n", "compiler", __VERSION__);
#else
    fprintf(f, "  %-14s gcc %s\n", "compiler", __VERSION__);
#endif
    fputs(MDS_BUILT_WITH, f);
}

int mds_settings_print_action(const struct mds_option_set *set, enum mds_action action,
                              const char *topic, FILE *f)
{
    if (action == MDS_ACTION_HELP)
        print_help(set, topic, f);
    else if (action == MDS_ACTION_TABLE)
        mds_option_table_print(set, f);
    else if (action == MDS_ACTION_VERSION)
        print_version(set, f);
    else
        return 0;
    return 1;
}

static size_t prefix_length(const char *key)
{
    const char *dot = strchr(key, '.');

    return dot ? (size_t)(dot - key) : 0;
}

static int same_prefix(const char *a, const char *b)
{
    return prefix_length(a) == prefix_length(b) && strncmp(a, b, prefix_length(a)) == 0;
}

static int is_in_yaml(const struct mds_option *o)
{
    return o->key && o->offset != MDS_OPT_UNSTORED;
}

static void print_yaml_row(const struct mds_settings *s, size_t row, FILE *f)
{
    const struct mds_option *o = &s->set->options[row];
    size_t skip = prefix_length(o->key);
    struct mds_str line = {0}, origin = {0};

    mds_str_add(&line, "%s%s: ", skip ? "  " : "", o->key + (skip ? skip + 1 : 0));
    mds_value_format(o, mds_settings_value(s, row), &line);
    if (mds_text_needs_quotes(s->of[row].origin))
        mds_json_quote(s->of[row].origin, &origin);
    else
        mds_str_add(&origin, "%s", s->of[row].origin);
    fprintf(f, "%-*s  # %s\n", ORIGIN_COLUMN - 2, line.s ? line.s : "",
            origin.s ? origin.s : "");
    mds_str_fini(&origin);
    mds_str_fini(&line);
}

/* Whether a row before this one has shown its map already. */
static int is_map_printed(const struct mds_option *o, size_t row)
{
    for (size_t i = 0; i < row; i++)
        if (is_in_yaml(&o[i]) && same_prefix(o[i].key, o[row].key))
            return 1;
    return 0;
}

void mds_settings_show(const struct mds_settings *s, FILE *f)
{
    const struct mds_option *o = s->set->options;

    for (size_t i = 0; i < s->rows; i++) {
        if (!is_in_yaml(&o[i]) || is_map_printed(o, i))
            continue;
        if (prefix_length(o[i].key))
            fprintf(f, "%.*s:\n", (int)prefix_length(o[i].key), o[i].key);
        for (size_t j = i; j < s->rows; j++)
            if (is_in_yaml(&o[j]) && same_prefix(o[i].key, o[j].key))
                print_yaml_row(s, j, f);
    }
}

int mds_settings_is_derived(const char *line, size_t n)
{
    static const char mark[] = "  # derived: ";

    return memmem(line, n, mark, sizeof mark - 1) != NULL;
}

void mds_settings_lines(const struct mds_settings *s, const char *const *but,
                        struct mds_str *out)
{
    for (size_t i = 0; i < s->rows; i++) {
        const struct mds_option *o = &s->set->options[i];
        union mds_value v;

        if (!is_in_yaml(o) || mds_str_is_in(o->key, but))
            continue;
        v = mds_settings_value(s, i);
        mds_str_add(out, "%s ", o->flag ? o->flag : o->key);
        if (o->path == MDS_PATH_NONE)
            mds_value_format(o, v, out);
        else
            mds_str_add(out, "%s", v.s ? "a path" : "no path");
        mds_str_add(out, "\n");
    }
}

char *mds_settings_text(const struct mds_settings *s)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    if (f) {
        mds_settings_show(s, f);
        if (fclose(f) == 0)
            return text;
        free(text);
    }
    mds_fail(MDS_EMEM, "no host memory for the settings");
    return NULL;
}

void mds_settings_show_text(const char *text, FILE *f)
{
    while (*text) {
        int n = (int)strcspn(text, "\n");
        int is_derived = mds_settings_is_derived(text, (size_t)n);

        fprintf(f, "%s%.*s\n", is_derived ? "  #" : "", is_derived ? n - 1 : n,
                is_derived ? text + 1 : text);
        text += n + (text[n] == '\n');
    }
}
