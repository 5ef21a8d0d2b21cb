/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the optset*.c files; not for other modules. */
#ifndef MDS_CONFIG_OPTSET_IMPL_H
#define MDS_CONFIG_OPTSET_IMPL_H

#include "base/str.h"
#include "config/optset.h"

#include <stdint.h>

union mds_value {
    int64_t i;     /* INT, COUNT, BYTES */
    double r;      /* REAL, SECONDS, MINUTES (as seconds) */
    int n;         /* FLAG, ENUM, SET */
    const char *s; /* STRING, WORDS; borrowed */
};

/* Which of the three kinds of name. */
enum mds_name_kind { MDS_NAME_FLAG, MDS_NAME_ENV, MDS_NAME_KEY };

/* A name's row, and the alias if the name is one. */
struct mds_name {
    size_t row;
    const struct mds_option_alias *alias;
    int negated; /* --no-x */
};

/* Whether union mds_value and the program's struct have it as a text. */
static inline int mds_option_is_text(const struct mds_option *o)
{
    return o->type == MDS_OPT_STRING || o->type == MDS_OPT_WORDS;
}

/* 0 and *v set, or -1 and `why` says what the value must be. */
int mds_option_parse(const struct mds_option *o, const char *text, union mds_value *v,
                     struct mds_str *why);

/* Parse a truth value: 0 or 1, or -1 if text is none. */
int mds_parse_flag(const char *text);

/* The present value: of the field, or of the text where there is no field. */
union mds_value mds_settings_value(const struct mds_settings *s, size_t row);
int mds_value_equal(const struct mds_option *o, union mds_value a, union mds_value b);

/* Append it as a user (and YAML) would write it; "~" for an unset string or set. */
void mds_value_format(const struct mds_option *o, union mds_value v,
                      struct mds_str *out);

/* Whether text has characters other than printable ASCII. */
int mds_text_needs_quotes(const char *text);

/* Whether --help TOPIC shows a row: if the topic is in the heading of a group, these
 * groups; else the rows in whose names or help it is.  Letter case does not matter. */
int mds_option_is_about(const struct mds_option_set *set, const struct mds_option *o,
                        const char *topic);
int mds_option_topic_exists(const struct mds_option_set *set, const char *topic);

enum mds_name_kind mds_alias_kind(const char *name);

/* 0 and *out set, or -1. */
int mds_name_find(const struct mds_option_set *set, enum mds_name_kind kind,
                  const char *name, struct mds_name *out);

/* The nearest name of that kind, or NULL. */
const char *mds_name_nearest(const struct mds_option_set *set, enum mds_name_kind kind,
                             const char *name);

/* The reason for a name in one of set's lists of foreign options, or NULL. */
const char *mds_foreign_why(const struct mds_option_foreign *list, const char *name);

/* Keep a flag that is in one of these lists; returns whether it is. */
int mds_foreign_keep(struct mds_settings *s, const char *name, struct mds_diag *diag);

/* Report the flags that were kept from number `first` on: one note names all that are
 * accepted, and one fault all that lack the same thing. */
void mds_foreign_report(const struct mds_settings *s, size_t first,
                        struct mds_diag *diag);

/* Put a value under a name that may be an alias. */
void mds_settings_put_name(struct mds_settings *s, const struct mds_name *name,
                           const char *text, enum mds_level level, const char *origin,
                           const char *spelled, struct mds_diag *diag);

#endif
