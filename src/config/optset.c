/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings: defaults, who wins, and names with their aliases. */
#include "config/optset_impl.h"

#include "base/alloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static size_t count_rows(const struct mds_option_set *set)
{
    size_t n = 0;

    while (set->options[n].help)
        n++;
    return n;
}

enum mds_rc mds_option_set_select(const struct mds_option_set *set, const char *groups,
                                  struct mds_option **out)
{
    struct mds_option *rows = mds_zalloc(count_rows(set) + 1, sizeof *rows);
    size_t n = 0;

    if (!rows)
        return MDS_EMEM;
    for (const struct mds_option *o = set->options; o->help; o++)
        if (strcmp(o->group, "General") == 0 || (groups && strstr(groups, o->group)))
            rows[n++] = *o;
    *out = rows;
    return MDS_OK;
}

/* Replace *p by a copy of text (NULL stays NULL). */
static enum mds_rc replace_string(char **p, const char *text)
{
    char *copy = NULL;

    if (text) {
        copy = mds_strdup(text);
        if (!copy)
            return MDS_EMEM;
    }
    free(*p);
    *p = copy;
    return MDS_OK;
}

static enum mds_rc store_value(struct mds_settings *s, size_t row, union mds_value v)
{
    const struct mds_option *o = &s->set->options[row];
    char *field = (char *)s->values + o->offset;

    if (o->offset == MDS_OPT_UNSTORED)
        return MDS_OK;
    if (mds_option_is_text(o))
        return replace_string((char **)(void *)field, v.s);
    if (mds_option_is_int(o))
        memcpy(field, &v.n, sizeof v.n);
    else if (o->type == MDS_OPT_INT || o->type == MDS_OPT_COUNT ||
             o->type == MDS_OPT_BYTES)
        memcpy(field, &v.i, sizeof v.i);
    else
        memcpy(field, &v.r, sizeof v.r);
    return MDS_OK;
}

static enum mds_rc record_setting(struct mds_setting *is, enum mds_level level,
                                  const char *origin, const char *spelled,
                                  const char *text)
{
    MDS_TRY(replace_string(&is->origin, origin));
    MDS_TRY(replace_string(&is->spelled, spelled));
    MDS_TRY(replace_string(&is->text, text));
    is->level = level;
    return MDS_OK;
}

/* A default that does not parse is a mistake in the table. */
static enum mds_rc set_default(struct mds_settings *s, size_t row)
{
    const struct mds_option *o = &s->set->options[row];
    union mds_value v = {0};
    struct mds_str why = {0};
    int bad = o->fallback ? mds_option_parse(o, o->fallback, &v, &why)
                          : o->type == MDS_OPT_FLAG || o->type == MDS_OPT_ENUM;

    mds_str_fini(&why);
    if (bad)
        return mds_fail(MDS_EBUG, "%s: default of %s", s->set->program,
                        o->flag ? o->flag : o->key);
    MDS_TRY(store_value(s, row, v));
    return record_setting(&s->of[row], MDS_LEVEL_DEFAULT, "default",
                          o->flag ? o->flag : o->key, o->fallback);
}

enum mds_rc mds_settings_init(struct mds_settings *s, const struct mds_option_set *set,
                              void *values)
{
    enum mds_rc rc = MDS_OK;

    *s = (struct mds_settings){.set = set, .values = values, .rows = count_rows(set)};
    s->of = mds_zalloc(s->rows, sizeof *s->of);
    if (!s->of) {
        s->rows = 0;
        return MDS_EMEM;
    }
    for (size_t i = 0; i < s->rows && rc == MDS_OK; i++)
        rc = set_default(s, i);
    if (rc)
        mds_settings_fini(s);
    return rc;
}

void mds_settings_fini(struct mds_settings *s)
{
    for (size_t i = 0; i < s->rows; i++) {
        if (mds_option_is_text(&s->set->options[i]))
            store_value(s, i, (union mds_value){.s = NULL});
        free(s->of[i].origin);
        free(s->of[i].spelled);
        free(s->of[i].text);
    }
    for (size_t i = 0; i < s->foreign_count; i++)
        free(s->foreign[i].name);
    free(s->foreign);
    free(s->of);
    free(s->operands);
    *s = (struct mds_settings){0};
}

/* "environment LR" names the variable already. */
static const char *setting_origin(enum mds_level level, const char *origin)
{
    return level == MDS_LEVEL_ENV ? "environment" : origin;
}

void mds_settings_put(struct mds_settings *s, size_t row, const char *text,
                      enum mds_level level, const char *origin, const char *spelled,
                      struct mds_diag *diag)
{
    const struct mds_option *o = &s->set->options[row];
    struct mds_setting *is = &s->of[row];
    struct mds_str why = {0};
    union mds_value v = {0};

    if (mds_option_parse(o, text, &v, &why)) {
        mds_diag_fault(diag, setting_origin(level, origin), "%s '%s': %s", spelled,
                       text, why.s);
    } else if (level == is->level && level > MDS_LEVEL_DEFAULT &&
               strcmp(spelled, is->spelled) != 0 &&
               !mds_value_equal(o, v, mds_settings_value(s, row))) {
        mds_diag_fault(diag, setting_origin(level, origin),
                       "%s '%s' disagrees with %s '%s' (%s); they set the same option",
                       spelled, text, is->spelled, is->text,
                       setting_origin(level, is->origin));
    } else if (level >= is->level) {
        if (store_value(s, row, v) || record_setting(is, level, origin, spelled, text))
            mds_diag_fault(diag, setting_origin(level, origin), "%s", mds_fail_text());
    }
    mds_str_fini(&why);
}

void mds_settings_put_name(struct mds_settings *s, const struct mds_name *name,
                           const char *text, enum mds_level level, const char *origin,
                           const char *spelled, struct mds_diag *diag)
{
    int on;

    if (name->alias && name->alias->on) {
        on = mds_parse_flag(text);
        if (on < 0) {
            mds_diag_fault(diag, setting_origin(level, origin),
                           "%s '%s': must be 0 or 1", spelled, text);
            return;
        }
        text = on ? name->alias->on : name->alias->off;
        if (!text)
            return;
    }
    mds_settings_put(s, name->row, text, level, origin, spelled, diag);
}

/* "--fp16", "--zero-stage 1", "ZERO_STAGE=1", "parallel.zero_stage: 1" */
static void append_name_and_value(const struct mds_settings *s, size_t row,
                                  struct mds_str *out)
{
    const struct mds_option *o = &s->set->options[row];
    const struct mds_setting *is = &s->of[row];
    static const char *const between[] = {
        [MDS_LEVEL_DEFAULT] = " ",  [MDS_LEVEL_DERIVED] = " ",
        [MDS_LEVEL_MACHINE] = ": ", [MDS_LEVEL_CHECKPOINT] = ": ",
        [MDS_LEVEL_MODEL] = ": ",   [MDS_LEVEL_FILE] = ": ",
        [MDS_LEVEL_ENV] = "=",      [MDS_LEVEL_CLI] = " ",
    };
    int bare = is->level == MDS_LEVEL_CLI &&
               (o->type == MDS_OPT_FLAG || strcmp(is->spelled, o->flag) != 0);

    mds_str_add(out, "%s", is->spelled);
    if (!bare) {
        mds_str_add(out, "%s", between[is->level]);
        mds_value_format(o, mds_settings_value(s, row), out);
    }
}

/* How what stands at the path differs from what is meant; NULL if it does not, or
 * nothing can be seen there.  No option is for a pipe. */
static const char *describe_wrong_path(const char *path, enum mds_option_path meant)
{
    struct stat st;
    int seen = path && stat(path, &st) == 0;

    if (path && strcmp(path, "-") == 0)
        return "neither standard input nor output will do; give a name";
    if (meant == MDS_PATH_EITHER)
        return NULL;
    if (meant == MDS_PATH_FILE)
        return seen && S_ISDIR(st.st_mode) ? "a folder; it must be a file" : NULL;
    if (path && !seen && errno == ENOTDIR)
        return "inside of a file; it must be a folder";
    return seen && !S_ISDIR(st.st_mode) ? "a file; it must be a folder" : NULL;
}

void mds_settings_check_paths(const struct mds_settings *s, struct mds_diag *diag)
{
    for (size_t i = 0; i < s->rows; i++) {
        const struct mds_option *o = &s->set->options[i];
        struct mds_str name = {0};
        const char *wrong;

        if (o->path == MDS_PATH_NONE)
            continue;
        wrong = describe_wrong_path(mds_settings_value(s, i).s, o->path);
        if (!wrong)
            continue;
        append_name_and_value(s, i, &name);
        mds_diag_fault(diag, setting_origin(s->of[i].level, s->of[i].origin), "%s: %s",
                       name.s, wrong);
        mds_str_fini(&name);
    }
}

const char *mds_settings_flag(const struct mds_settings *s, const char *key)
{
    return s->set->options[mds_settings_row(s, key)].flag;
}

const struct mds_option *mds_option_of(const struct mds_option_set *set,
                                       const char *key)
{
    const struct mds_option *o = set->options;

    while (!o->key || strcmp(o->key, key) != 0)
        o++;
    return o;
}

size_t mds_settings_row(const struct mds_settings *s, const char *key)
{
    for (size_t i = 0; i < s->rows; i++)
        if (s->set->options[i].key && strcmp(s->set->options[i].key, key) == 0)
            return i;
    return s->rows;
}

const struct mds_setting *mds_settings_of(const struct mds_settings *s, const char *key)
{
    return &s->of[mds_settings_row(s, key)];
}

void mds_settings_derived(struct mds_settings *s, const char *key, const char *how)
{
    struct mds_setting *is = &s->of[mds_settings_row(s, key)];
    struct mds_str origin = {0};

    mds_str_add(&origin, "derived: %s", how);
    if (!origin.failed && replace_string(&is->origin, origin.s) == MDS_OK)
        is->level = MDS_LEVEL_DERIVED;
    mds_str_fini(&origin);
}

enum mds_name_kind mds_alias_kind(const char *name)
{
    if (name[0] == '-')
        return MDS_NAME_FLAG;
    return strpbrk(name, "abcdefghijklmnopqrstuvwxyz") ? MDS_NAME_KEY : MDS_NAME_ENV;
}

static const char *name_of_kind(const struct mds_option *o, enum mds_name_kind kind)
{
    if (kind == MDS_NAME_FLAG)
        return o->flag;
    return kind == MDS_NAME_ENV ? o->env : o->key;
}

static int find_row_by_name(const struct mds_option_set *set, enum mds_name_kind kind,
                            const char *name, size_t *row)
{
    for (size_t i = 0; set->options[i].help; i++) {
        const char *is = name_of_kind(&set->options[i], kind);

        if (is && strcmp(is, name) == 0) {
            *row = i;
            return 0;
        }
    }
    return -1;
}

/* --no-x, where --x turns a flag on. */
static int find_negated(const struct mds_option_set *set, const char *name, size_t *row)
{
    char positive[64];

    if (strncmp(name, "--no-", 5) != 0)
        return -1;
    snprintf(positive, sizeof positive, "--%s", name + 5);
    return find_row_by_name(set, MDS_NAME_FLAG, positive, row) ||
                   set->options[*row].type != MDS_OPT_FLAG ||
                   set->options[*row].inverted
               ? -1
               : 0;
}

int mds_name_find(const struct mds_option_set *set, enum mds_name_kind kind,
                  const char *name, struct mds_name *out)
{
    const struct mds_option_alias *a = set->aliases;
    size_t row = 0;

    if (find_row_by_name(set, kind, name, &row) == 0) {
        *out = (struct mds_name){.row = row};
        return 0;
    }
    if (kind == MDS_NAME_FLAG && find_negated(set, name, &row) == 0) {
        *out = (struct mds_name){.row = row, .negated = 1};
        return 0;
    }
    for (; a && a->name; a++)
        if (strcmp(a->name, name) == 0 && mds_alias_kind(name) == kind &&
            find_row_by_name(set, MDS_NAME_FLAG, a->means, &row) == 0) {
            *out = (struct mds_name){.row = row, .alias = a};
            return 0;
        }
    return -1;
}

/* What a name is about, behind the program's prefix or a flag's dashes. */
static const char *strip_prefix(const struct mds_option_set *set,
                                enum mds_name_kind kind, const char *name)
{
    const char *prefix = kind == MDS_NAME_ENV    ? set->env_prefix
                         : kind == MDS_NAME_FLAG ? "--"
                                                 : NULL;
    size_t n = prefix ? strlen(prefix) : 0;

    return n && strncmp(name, prefix, n) == 0 ? name + n : name;
}

static const char *find_hint(const struct mds_option_set *set, const char *name)
{
    const struct mds_option_alias *a = set->hints;

    while (a && a->name && strcmp(a->name, name) != 0)
        a++;
    return a ? a->means : NULL;
}

/* Prefixes are left out of the comparison: MDS_SEQ_LENGHT is near SEQ_LEN, and --ep is
 * not near --lr. */
const char *mds_name_nearest(const struct mds_option_set *set, enum mds_name_kind kind,
                             const char *name)
{
    const struct mds_option_alias *a = set->aliases;
    const char *near, *found, **names, **bares;
    size_t n = count_rows(set), used = 0;

    found = find_hint(set, name);
    if (found)
        return found;
    for (; a && a->name; a++)
        n++;
    names = mds_zalloc(2 * n, sizeof *names);
    if (!names)
        return NULL;
    for (size_t i = 0; set->options[i].help; i++)
        if (name_of_kind(&set->options[i], kind) && !set->options[i].hidden &&
            set->options[i].action != MDS_ACTION_HELP &&
            set->options[i].action != MDS_ACTION_VERSION) /* nobody meant these */
            names[used++] = name_of_kind(&set->options[i], kind);
    for (a = set->aliases; a && a->name; a++)
        if (mds_alias_kind(a->name) == kind)
            names[used++] = a->name;
    bares = names + n;
    for (size_t i = 0; i < used; i++)
        bares[i] = strip_prefix(set, kind, names[i]);
    near = mds_str_nearest(strip_prefix(set, kind, name), bares, used);
    for (size_t i = 0; near && !found; i++)
        if (bares[i] == near)
            found = names[i];
    free(names);
    return found;
}
