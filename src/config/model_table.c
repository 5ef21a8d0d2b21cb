/* SPDX-License-Identifier: BSD-3-Clause */
/* The model table: named shapes in a YAML file. */
#include "config/config_impl.h"
#include "config/optset_impl.h"

#include "base/alloc.h"
#include "base/str.h"
#include "base/units.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *table_path(struct mds_config_run *run, struct mds_diag *diag)
{
    size_t row = mds_settings_row(&run->settings, "model.table");

    if (!run->config.output.model_table) {
        char path[PATH_MAX];
        int local = mds_config_shipped_path(MDS_SRCDIR "/ALCF/models.yaml",
                                            "models.yaml", path);

        mds_settings_put(&run->settings, row, path, MDS_LEVEL_DERIVED,
                         local ? "the source tree's" : "the installed", "model.table",
                         diag);
    }
    return run->config.output.model_table;
}

static int is_other_name(const struct mds_node *shape, const char *key)
{
    const struct mds_node *also = mds_node_get(shape, "also");

    for (const struct mds_node *n = also ? also->first : NULL; n; n = n->next)
        if (n->text && strcasecmp(n->text, key) == 0)
            return 1;
    return 0;
}

static const struct mds_node *find_size(const struct mds_tree *t, const char *key)
{
    const struct mds_node *n =
        t->root && t->root->kind == MDS_NODE_MAP ? t->root->first : NULL;

    while (n && strcasecmp(n->key, key) != 0 && !is_other_name(n, key))
        n = n->next;
    return n;
}

/* Split GPT1T_20L into GPT1T and "20"; or phi4-mini-nLayers24, as ALCF's scripts write
 * it, into phi4-mini and "24".  -1 if key does not end in such a number above 0. */
static int split_layers(const char *key, char *base, char *layers, size_t size)
{
    static const char *const around[][2] = {{"_", "L"}, {"-nLayers", ""}};

    for (size_t i = 0; i < sizeof around / sizeof *around; i++) {
        const char *before = around[i][0], *after = around[i][1];
        size_t end = strlen(key), n = strlen(before), digits = 0;

        if (end < strlen(after) || strcasecmp(key + end - strlen(after), after) != 0)
            continue;
        end -= strlen(after);
        while (digits < end && isdigit((unsigned char)key[end - digits - 1]))
            digits++;
        if (digits == 0 || digits >= size || end - digits < n ||
            end - digits >= size + n ||
            strncasecmp(key + end - digits - n, before, n) != 0)
            continue;
        snprintf(base, size, "%.*s", (int)(end - digits - n), key);
        snprintf(layers, size, "%.*s", (int)digits, key + end - digits);
        return atoi(layers) > 0 ? 0 : -1;
    }
    return -1;
}

/* Write all names of the table's shapes to names, unless that is NULL; returns their
 * number. */
static size_t add_names(const struct mds_tree *t, const char **names)
{
    int is_map = t->root && t->root->kind == MDS_NODE_MAP;
    size_t n = 0;

    for (const struct mds_node *c = is_map ? t->root->first : NULL; c; c = c->next) {
        const struct mds_node *also = mds_node_get(c, "also");

        if (names)
            names[n] = c->key;
        n++;
        for (also = also ? also->first : NULL; also; also = also->next) {
            if (!also->text)
                continue;
            if (names)
                names[n] = also->text;
            n++;
        }
    }
    return n;
}

static void fault_unknown_size(const struct mds_tree *t, const char *key,
                               const char *origin, struct mds_diag *diag)
{
    const char *near, **names;
    char hint[MDS_HINT_SIZE];
    size_t n = add_names(t, NULL);

    names = mds_zalloc(n, sizeof *names);
    if (!names) {
        mds_diag_fault(diag, origin, "%s", mds_fail_text());
        return;
    }
    add_names(t, names);
    near = mds_str_nearest(key, names, n);
    mds_diag_fault(diag, origin, "model size '%s' is not in %s; %s", key, t->name,
                   mds_str_hint(near, "its keys are listed there", hint));
    free(names);
}

/* The layout with which the shape was published; nothing here depends on it. */
static void read_published_layout(struct mds_config_run *run,
                                  const struct mds_node *layout, const char *origin,
                                  struct mds_diag *diag)
{
    for (const struct mds_node *n = layout->first; n; n = n->next) {
        int64_t *to = NULL;

        if (n->key && strcmp(n->key, "tensor") == 0)
            to = &run->published_tensor;
        else if (n->key && strcmp(n->key, "pipeline") == 0)
            to = &run->published_pipeline;
        if (!to || !n->text || mds_parse_count(n->text, to) || *to < 1)
            mds_diag_fault(diag, origin,
                           "layout must give tensor and pipeline as numbers");
    }
}

static void read_shape_field(struct mds_config_run *run, const struct mds_tree *t,
                             const struct mds_node *n, const char *shape,
                             struct mds_diag *diag)
{
    struct mds_settings *s = &run->settings;
    char key[64], origin[PATH_MAX];
    size_t row;

    snprintf(key, sizeof key, "model.%s", n->key);
    snprintf(origin, sizeof origin, "%s:%d (%s)", t->name, n->line, shape);
    row = mds_settings_row(s, key);
    if (strcmp(n->key, "layout") == 0) {
        read_published_layout(run, n, origin, diag);
    } else if (row == s->rows || n->kind != MDS_NODE_SCALAR) {
        const char *near = mds_name_nearest(s->set, MDS_NAME_KEY, key);

        mds_diag_fault(diag, origin, "unknown key %s%s%s%s", n->key,
                       near ? "; did you mean " : "",
                       near ? strrchr(near, '.') + 1 : "", near ? "?" : "");
    } else {
        mds_settings_put(s, row, n->text, MDS_LEVEL_MODEL, origin, key, diag);
    }
}

size_t mds_model_shape_row(const struct mds_settings *s, const struct mds_node *n)
{
    char key[64];

    snprintf(key, sizeof key, "model.%s", n->key);
    return n->kind != MDS_NODE_SCALAR || strcmp(n->key, "seq_length") == 0
               ? s->rows
               : mds_settings_row(s, key);
}

/* What is set keeps precedence; but where the size is asked for on the command line, a
 * variable that is still exported may be another run's. */
static void warn_of_other_shape(const struct mds_config_run *run,
                                const struct mds_node *shape, struct mds_diag *diag)
{
    const struct mds_settings *s = &run->settings;
    const struct mds_setting *asked = mds_settings_of(s, "model.size_key");
    struct mds_str others = {0};

    if (asked->level != MDS_LEVEL_CLI)
        return;
    for (const struct mds_node *n = shape->first; n; n = n->next) {
        size_t row = mds_model_shape_row(s, n);
        const struct mds_setting *is = row < s->rows ? &s->of[row] : asked;

        if (is->level == MDS_LEVEL_ENV && strcmp(is->text, n->text) != 0)
            mds_str_add(&others, "%s%s %s (%s)", others.len ? ", " : "",
                        s->set->options[row].flag, is->text, is->origin);
    }
    if (others.s)
        mds_diag_warn(
            diag, asked->origin,
            "%s %s: not its own shape, but with %s; unset what you do not mean",
            mds_settings_flag(s, "model.size_key"), run->config.model.size_key,
            others.s);
    mds_str_fini(&others);
}

static void apply_size(struct mds_config_run *run, const struct mds_tree *t,
                       struct mds_diag *diag)
{
    const struct mds_setting *asked = mds_settings_of(&run->settings, "model.size_key");
    const char *key = run->config.model.size_key;
    const struct mds_node *shape = find_size(t, key);
    char base[64], layers[64] = "", origin[PATH_MAX];

    if (!shape && split_layers(key, base, layers, sizeof base) == 0)
        shape = find_size(t, base);
    if (!shape || shape->kind != MDS_NODE_MAP) {
        fault_unknown_size(t, key, asked->origin, diag);
        return;
    }
    for (const struct mds_node *n = shape->first; n; n = n->next)
        if (strcmp(n->key, "also") != 0 &&
            !(layers[0] && strcmp(n->key, "layers") == 0))
            read_shape_field(run, t, n, shape->key, diag);
    warn_of_other_shape(run, shape, diag);
    if (layers[0]) {
        snprintf(origin, sizeof origin, "%s:%d (%s)", t->name, shape->line, key);
        mds_settings_put(&run->settings,
                         mds_settings_row(&run->settings, "model.layers"), layers,
                         MDS_LEVEL_MODEL, origin, "layers", diag);
    }
}

enum mds_rc mds_model_table_load(struct mds_config_run *run, struct mds_tree **out)
{
    struct mds_diag diag = {0};
    const char *path = table_path(run, &diag);
    enum mds_rc rc = mds_diag_result(&diag);

    if (!rc)
        rc = mds_tree_load(path, out);
    mds_diag_fini(&diag);
    return rc;
}

void mds_model_table_apply(struct mds_config_run *run, struct mds_diag *diag)
{
    struct mds_tree *t = NULL;

    if (!run->config.model.size_key)
        return;
    if (mds_model_table_load(run, &t)) {
        mds_diag_fault(diag, NULL,
                       "model table %s; --model-table says where it is, and without "
                       "--model-size-key none is needed",
                       mds_fail_text());
        return;
    }
    apply_size(run, t, diag);
    mds_tree_destroy(t);
}
