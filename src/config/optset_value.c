/* SPDX-License-Identifier: BSD-3-Clause */
/* One value: from text, into and out of its field, and back to text. */
#include "config/optset_impl.h"

#include "base/units.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

int mds_parse_flag(const char *text)
{
    static const char *const yes[] = {"1", "true", "yes", "on"};
    static const char *const no[] = {"0", "false", "no", "off"};

    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        if (strcasecmp(text, yes[i]) == 0)
            return 1;
        if (strcasecmp(text, no[i]) == 0)
            return 0;
    }
    return -1;
}

static int parse_choice(const struct mds_option *o, const char *text,
                        struct mds_str *why)
{
    size_t n = 0;
    const char *near;

    for (; o->choices[n]; n++)
        if (strcasecmp(o->choices[n], text) == 0)
            return (int)n;
    mds_str_add(why, "must be %s", n > 1 ? "one of " : "");
    for (size_t i = 0; i < n; i++)
        mds_str_add(why, "%s%s", i ? ", " : "", o->choices[i]);
    near = mds_str_nearest(text, o->choices, n);
    if (near && n > 1)
        mds_str_add(why, "; did you mean %s?", near);
    return -1;
}

/* Words between blanks or commas; "~" and nothing are the empty set. */
static int parse_set(const struct mds_option *o, const char *text, int *set,
                     struct mds_str *why)
{
    static const char between[] = " ,";
    int choice = 0;

    *set = 0;
    if (strcmp(text, "~") == 0)
        return 0;
    while (*(text += strspn(text, between)) && choice >= 0) {
        size_t n = strcspn(text, between);
        struct mds_str word = {0};

        mds_str_add(&word, "%.*s", (int)n, text);
        choice = parse_choice(o, word.s ? word.s : "", why);
        if (choice >= 0)
            *set |= 1 << choice;
        mds_str_fini(&word);
        text += n;
    }
    return choice < 0 ? -1 : 0;
}

static int parse_minutes(const char *text, double *out)
{
    if (mds_parse_real(text, out) == 0) {
        *out *= 60;
        return 0;
    }
    return mds_parse_seconds(text, out);
}

/* Choices between commas: "x=N" is x with a count, and one of the others at most. */
static int parse_list(const struct mds_option *o, const char *text, struct mds_str *why)
{
    char plain[40] = "";

    for (size_t n;; text += n + 1) {
        char word[40], *equals;
        int64_t count;

        n = strcspn(text, ",");
        snprintf(word, sizeof word - 1, "%.*s", (int)n, text);
        equals = strchr(word, '=');
        if (equals && (mds_parse_count(equals + 1, &count) || (double)count < o->min ||
                       (double)count > o->max)) {
            mds_str_add(why, "%s is no number from %g to %g", word, o->min, o->max);
            return -1;
        }
        if (equals)
            memcpy(equals, "=N", sizeof "=N");
        if (parse_choice(o, word, why) < 0)
            return -1;
        if (!equals && plain[0]) {
            mds_str_add(why, "has both %s and %s; leave out one of them", plain, word);
            return -1;
        }
        if (!equals)
            memcpy(plain, word, sizeof plain);
        if (!text[n])
            return 0;
    }
}

/* A choice is stored in the table's spelling. */
static int parse_string(const struct mds_option *o, const char *text,
                        union mds_value *v, struct mds_str *why)
{
    int choice;

    v->s = *text && strcmp(text, "~") != 0 ? text : NULL;
    if (!v->s && o->fallback)
        mds_str_add(why, "must not be empty");
    if (!o->choices || !v->s)
        return v->s || !o->fallback ? 0 : -1;
    if (o->list)
        return parse_list(o, text, why);
    choice = parse_choice(o, text, why);
    if (choice < 0)
        return -1;
    v->s = o->choices[choice];
    return 0;
}

/* Parse by type, without checking the range; -1 if text is malformed.  *what says what
 * it must be. */
static int parse_number(const struct mds_option *o, const char *text,
                        union mds_value *v, const char **what)
{
    switch (o->type) {
    case MDS_OPT_INT:
        *what = "a whole number";
        return mds_parse_count(text, &v->i);
    case MDS_OPT_COUNT:
        *what = "a whole number, such as 4096 or 128k";
        return mds_parse_count(text, &v->i);
    case MDS_OPT_BYTES:
        *what = "a size, such as 32MiB";
        return mds_parse_bytes(text, &v->i);
    case MDS_OPT_SECONDS:
        *what = "a time, such as 90s, 30min, 2h or 1:30:00";
        return mds_parse_seconds(text, &v->r);
    case MDS_OPT_MINUTES:
        *what = "minutes, or a time such as 90s, 30min or 2h";
        return parse_minutes(text, &v->r);
    default:
        *what = "a number";
        return mds_parse_real(text, &v->r);
    }
}

static int is_whole(const struct mds_option *o)
{
    return o->type == MDS_OPT_INT || o->type == MDS_OPT_COUNT ||
           o->type == MDS_OPT_BYTES;
}

static int check_range(const struct mds_option *o, double v, struct mds_str *why)
{
    if (v >= o->min && v <= o->max)
        return 0;
    if (o->max >= MDS_OPT_NO_MAX)
        mds_str_add(why, "must be at least %.15g", o->min);
    else
        mds_str_add(why, "must be between %.15g and %.15g", o->min, o->max);
    return -1;
}

int mds_option_parse(const struct mds_option *o, const char *text, union mds_value *v,
                     struct mds_str *why)
{
    const char *what;

    switch (o->type) {
    case MDS_OPT_FLAG:
        v->n = mds_parse_flag(text);
        if (v->n < 0)
            mds_str_add(why, "must be 0 or 1 (or true, false, yes, no, on, off)");
        return v->n < 0 ? -1 : 0;
    case MDS_OPT_ENUM:
        v->n = parse_choice(o, text, why);
        return v->n < 0 ? -1 : 0;
    case MDS_OPT_SET:
        return parse_set(o, text, &v->n, why);
    case MDS_OPT_STRING:
    case MDS_OPT_WORDS:
        return parse_string(o, text, v, why);
    case MDS_OPT_ACTION:
        return 0;
    default:
        if (parse_number(o, text, v, &what)) {
            mds_str_add(why, "must be %s", what);
            return -1;
        }
        return check_range(o, is_whole(o) ? (double)v->i : v->r, why);
    }
}

/* The value of a row without a field; its text was accepted before. */
static union mds_value value_of_text(const struct mds_option *o, const char *text)
{
    union mds_value v = {0};
    struct mds_str why = {0};

    if (text)
        mds_option_parse(o, text, &v, &why);
    mds_str_fini(&why);
    return v;
}

union mds_value mds_settings_value(const struct mds_settings *s, size_t row)
{
    const struct mds_option *o = &s->set->options[row];
    const char *field = (const char *)s->values + o->offset;
    union mds_value v = {0};

    if (o->offset == MDS_OPT_UNSTORED)
        return value_of_text(o, s->of[row].text);
    if (is_whole(o))
        memcpy(&v.i, field, sizeof v.i);
    else if (mds_option_is_int(o))
        memcpy(&v.n, field, sizeof v.n);
    else if (mds_option_is_text(o))
        memcpy(&v.s, field, sizeof v.s);
    else
        memcpy(&v.r, field, sizeof v.r);
    return v;
}

int mds_value_equal(const struct mds_option *o, union mds_value a, union mds_value b)
{
    if (is_whole(o))
        return a.i == b.i;
    if (mds_option_is_int(o))
        return a.n == b.n;
    if (mds_option_is_text(o))
        return a.s && b.s ? strcmp(a.s, b.s) == 0 : a.s == b.s;
    return a.r == b.r;
}

int mds_text_needs_quotes(const char *s)
{
    while (*s >= ' ' && *s <= '~')
        s++;
    return *s != '\0';
}

/* Single quotes where YAML might read something else into the text, or a JSON string.
 */
static void format_string(const char *s, struct mds_str *out)
{
    size_t plain = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                             "0123456789_./-,+");

    if (s[plain] == '\0' && (isalnum((unsigned char)s[0]) || s[0] == '/')) {
        mds_str_add(out, "%s", s);
        return;
    }
    if (mds_text_needs_quotes(s)) {
        mds_json_quote(s, out);
        return;
    }
    mds_str_add(out, "'");
    for (; *s; s++)
        mds_str_add(out, *s == '\'' ? "''" : "%c", *s);
    mds_str_add(out, "'");
}

/* The words of a set, with `between` between them. */
static void format_set(const struct mds_option *o, int set, const char *between,
                       struct mds_str *out)
{
    const char *before = "";

    for (int i = 0; o->choices[i]; i++)
        if (set & 1 << i) {
            mds_str_add(out, "%s%s", before, o->choices[i]);
            before = between;
        }
}

void mds_value_format(const struct mds_option *o, union mds_value v,
                      struct mds_str *out)
{
    char real[32];

    switch (o->type) {
    case MDS_OPT_INT:
    case MDS_OPT_COUNT:
    case MDS_OPT_BYTES:
        mds_str_add(out, "%lld", (long long)v.i);
        break;
    case MDS_OPT_FLAG:
        mds_str_add(out, "%s", v.n ? "true" : "false");
        break;
    case MDS_OPT_ENUM:
        mds_str_add(out, "%s", o->choices[v.n]);
        break;
    case MDS_OPT_SET:
        if (v.n)
            format_set(o, v.n, ",", out);
        else
            mds_str_add(out, "~");
        break;
    case MDS_OPT_STRING:
    case MDS_OPT_WORDS:
        if (v.s)
            format_string(v.s, out);
        else
            mds_str_add(out, "~");
        break;
    case MDS_OPT_ACTION:
        break;
    case MDS_OPT_REAL:
        mds_str_add(out, "%s", mds_format_real(v.r, real, sizeof real));
        break;
    case MDS_OPT_SECONDS:
    case MDS_OPT_MINUTES: /* the unit makes a bare number unambiguous */
        mds_str_add(out, "%ss", mds_format_real(v.r, real, sizeof real));
        break;
    }
}

void mds_option_text(const struct mds_option *o, int64_t value, struct mds_str *out)
{
    union mds_value v = {.i = value};

    mds_str_add(out, "%s%s", out->len ? " " : "", o->flag);
    if (o->type == MDS_OPT_FLAG)
        return;
    if (mds_option_is_int(o))
        v = (union mds_value){.n = (int)value};
    mds_str_add(out, " ");
    mds_value_format(o, v, out);
}

void mds_settings_flag_value(const struct mds_settings *s, size_t row,
                             struct mds_str *out)
{
    const struct mds_option *o = &s->set->options[row];
    union mds_value v = mds_settings_value(s, row);

    if (o->type == MDS_OPT_SET)
        format_set(o, v.n, " ", out);
    else if (!mds_option_is_text(o))
        mds_value_format(o, v, out);
    else if (v.s)
        mds_str_add(out, "%s", v.s);
}
