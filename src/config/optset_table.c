/* SPDX-License-Identifier: BSD-3-Clause */
/* A table of options for other programs: what is generated from it (docs/options.md,
 * the shells' completion), and which rows --help TOPIC shows. */
#include "config/optset_impl.h"

#include <string.h>

/* ---- --help TOPIC ---- */

static int group_matches(const struct mds_option *o, const char *topic)
{
    return o->flag && !o->hidden && strcasestr(o->group, topic) != NULL;
}

static int aliases_match(const struct mds_option_set *set, const struct mds_option *o,
                         const char *topic)
{
    for (const struct mds_option_alias *a = set->aliases; a && a->name; a++)
        if (strcmp(a->means, o->flag) == 0 && strcasestr(a->name, topic))
            return 1;
    return 0;
}

static int row_matches(const struct mds_option_set *set, const struct mds_option *o,
                       const char *topic)
{
    return o->flag && !o->hidden &&
           (strcasestr(o->flag, topic) || strcasestr(o->help, topic) ||
            (o->key && strcasestr(o->key, topic)) ||
            (o->env && strcasestr(o->env, topic)) || aliases_match(set, o, topic));
}

int mds_option_is_about(const struct mds_option_set *set, const struct mds_option *o,
                        const char *topic)
{
    for (const struct mds_option *any = set->options; any->help; any++)
        if (group_matches(any, topic))
            return group_matches(o, topic);
    return row_matches(set, o, topic);
}

int mds_option_topic_exists(const struct mds_option_set *set, const char *topic)
{
    for (const struct mds_option *o = set->options; o->help; o++)
        if (mds_option_is_about(set, o, topic))
            return 1;
    return 0;
}

/* ---- the table ---- */

/* "--batch-size --cpu-optimizer(cpu)": other names of one kind, with the value that a
 * name stands for. */
static void print_aliases(const struct mds_option_set *set, const struct mds_option *o,
                          enum mds_name_kind kind, const char *between, FILE *f)
{
    for (const struct mds_option_alias *a = set->aliases; a && a->name; a++)
        if (mds_alias_kind(a->name) == kind && strcmp(a->means, o->flag) == 0) {
            fprintf(f, "%s%s", between, a->name);
            if (a->on && strcmp(a->on, "1") != 0)
                fprintf(f, "(%s)", a->on);
            between = " ";
        }
}

static const char *value_of(const struct mds_option *o)
{
    if (o->type == MDS_OPT_FLAG || o->type == MDS_OPT_ACTION)
        return o->type == MDS_OPT_FLAG && !o->inverted ? "flag" : "none";
    return o->unit ? o->unit : "word";
}

static void print_row(const struct mds_option_set *set, const struct mds_option *o,
                      FILE *f)
{
    fprintf(f, "option\t%s\t%s\t", o->group, o->flag);
    print_aliases(set, o, MDS_NAME_FLAG, "", f);
    fprintf(f, "\t%s\t%s%s", o->key ? o->key : "", o->env ? o->env : "",
            o->env && o->inverted ? "=0" : "");
    print_aliases(set, o, MDS_NAME_ENV, o->env ? " " : "", f);
    fprintf(f, "\t%s\t", value_of(o));
    for (size_t i = 0; o->choices && o->choices[i]; i++)
        fprintf(f, "%s%s", i ? " " : "", o->choices[i]);
    fprintf(f, "\t%s\t%s\n",
            o->fallback && o->type != MDS_OPT_FLAG && o->type != MDS_OPT_ACTION
                ? o->fallback
                : "",
            o->help);
}

void mds_option_table_print(const struct mds_option_set *set, FILE *f)
{
    for (const struct mds_option *o = set->options; o->help; o++)
        if (o->flag && !o->hidden)
            print_row(set, o, f);
}
