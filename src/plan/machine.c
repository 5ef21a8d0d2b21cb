/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading machines/NAME.yaml. */
#include "base/alloc.h"
#include "base/str.h"
#include "base/units.h"
#include "config/options.h"
#include "config/tree.h"
#include "plan/machine_impl.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* State of the reader. */
struct reader {
    const struct mds_tree *t;
    struct mds_machine *m;
    struct mds_diag *diag;
    char origin[PATH_MAX + 16];
};

static const char *origin_of(struct reader *r, const struct mds_node *n)
{
    snprintf(r->origin, sizeof r->origin, "%s:%d", r->t->name, n->line);
    return r->origin;
}

/* ---- names and faults ---- */

/* Sections that have their own readers. */
static const char *const other_sections[] = {"environment", "queues", "settings",
                                             "attention"};

/* `what` key is unknown; near: the nearest known one, or NULL. */
static void fault_unknown_name(struct reader *r, const struct mds_node *n,
                               const char *what, const char *key, const char *near)
{
    char hint[MDS_HINT_SIZE];

    mds_diag_fault(r->diag, origin_of(r, n), "unknown %s %s; %s", what, key,
                   mds_str_hint(near, "docs/new-machine.md lists them", hint));
}

enum { MOST_FACTS = 128 };

static void fault_unknown_section(struct reader *r, const struct mds_node *n)
{
    char text[MOST_FACTS][32];
    const char *names[MOST_FACTS], *near;
    size_t count = 0;

    for (const struct mds_option *o = mds_machine_facts.options;
         o->help && count < MOST_FACTS; o++) {
        snprintf(text[count], sizeof text[count], "%.*s", (int)strcspn(o->key, "."),
                 o->key);
        names[count] = text[count];
        count++;
    }
    near = mds_str_nearest(n->key, names, count);
    if (!near)
        near = mds_str_nearest(n->key, other_sections,
                               sizeof other_sections / sizeof *other_sections);
    fault_unknown_name(r, n, "section", n->key, near);
}

static void fault_unknown_fact(struct reader *r, const struct mds_node *n,
                               const char *key)
{
    const char *names[MOST_FACTS];
    size_t count = 0;

    for (const struct mds_option *o = mds_machine_facts.options;
         o->help && count < MOST_FACTS; o++)
        names[count++] = o->key;
    fault_unknown_name(r, n, "fact", key, mds_str_nearest(key, names, count));
}

/* ---- sources ---- */

static int is_date(const char *text)
{
    int y = 0, m = 0, d = 0, n = 0;

    return sscanf(text, "%4d-%2d-%2d%n", &y, &m, &d, &n) == 3 && n == 10 &&
           text[n] == '\0' && m >= 1 && m <= 12 && d >= 1 && d <= 31;
}

/* Whether a key gives the source or date of the whole section. */
static int is_origin(const struct mds_node *n)
{
    return strcmp(n->key, "source") == 0 || strcmp(n->key, "date") == 0;
}

/* Whether map has a source and a date; a malformed date is a fault of its own. */
static int has_source(struct reader *r, const struct mds_node *map)
{
    const struct mds_node *source = mds_node_get(map, "source");
    const struct mds_node *date = mds_node_get(map, "date");

    if (date && (!date->text || !is_date(date->text)))
        mds_diag_fault(r->diag, origin_of(r, date), "date '%s': must be YYYY-MM-DD",
                       date->text ? date->text : "");
    return source && source->text && *source->text && date;
}

/* ---- facts ---- */

/* The items of a list in one text; NULL if they are not all words. */
static char *join_texts(const struct mds_node *list, const char *between)
{
    struct mds_str b = {0};

    for (const struct mds_node *n = list->first; n; n = n->next) {
        if (n->kind != MDS_NODE_SCALAR) {
            mds_str_fini(&b);
            return NULL;
        }
        mds_str_add(&b, "%s%s", b.len ? between : "", n->text);
    }
    return b.s;
}

static void store_fact(struct reader *r, size_t row, const struct mds_node *n,
                       const char *key)
{
    enum mds_option_type type = mds_machine_facts.options[row].type;
    int listable = type == MDS_OPT_WORDS || type == MDS_OPT_STRING;
    char *joined;

    if (n->kind == MDS_NODE_SCALAR && *n->text) {
        mds_settings_put(&r->m->facts, row, n->text, MDS_LEVEL_FILE, origin_of(r, n),
                         key, r->diag);
        return;
    }
    joined = n->kind == MDS_NODE_LIST && listable
                 ? join_texts(n, type == MDS_OPT_WORDS ? " " : "\n")
                 : NULL;
    if (joined)
        mds_settings_put(&r->m->facts, row, joined, MDS_LEVEL_FILE, origin_of(r, n),
                         key, r->diag);
    else
        mds_diag_fault(r->diag, origin_of(r, n), "%s: must be %s", key,
                       listable ? "a text or a list of texts" : "one value");
    free(joined);
}

/* One fact: a value, or {value: , source: , date: }.  *sourced says whether the section
 * has a source for it; if not, one fault is enough for all of the section. */
static void read_fact(struct reader *r, const struct mds_node *section,
                      const struct mds_node *n, int *sourced)
{
    const struct mds_node *value = mds_node_get(n, "value");
    char key[128];
    size_t row;

    if (is_origin(n))
        return;
    snprintf(key, sizeof key, "%s.%s", section->key, n->key);
    row = mds_settings_row(&r->m->facts, key);
    if (row == r->m->facts.rows) {
        fault_unknown_fact(r, n, key);
        return;
    }
    if (value ? !has_source(r, n) : !*sourced) {
        mds_diag_fault(r->diag, origin_of(r, n),
                       "%s has no source and date; give them to the section, or write "
                       "%s: {value: .., source: .., date: YYYY-MM-DD}",
                       key, n->key);
        *sourced = 1;
    }
    store_fact(r, row, value ? value : n, key);
}

static void read_section(struct reader *r, const struct mds_node *section)
{
    int sourced = has_source(r, section);
    size_t length = strlen(section->key);

    for (const struct mds_option *o = mds_machine_facts.options; o->help; o++)
        if (strncmp(o->key, section->key, length) == 0 && o->key[length] == '.') {
            for (const struct mds_node *n = section->first; n; n = n->next)
                read_fact(r, section, n, &sourced);
            return;
        }
    fault_unknown_section(r, section);
}

/* ---- queues and environment ---- */

static int read_queue_number(struct reader *r, const struct mds_node *n, int64_t *out)
{
    if (n->text && mds_parse_count(n->text, out) == 0 && *out >= 0)
        return 0;
    mds_diag_fault(r->diag, origin_of(r, n), "%s: must be a number", n->key);
    return -1;
}

/* The batch system's name of a queue, if several rows are of one queue. */
static void read_queue_name(struct reader *r, const struct mds_node *n,
                            struct mds_queue *q)
{
    char *name = n->text && *n->text ? mds_strdup(n->text) : NULL;

    if (!name) {
        mds_diag_fault(r->diag, origin_of(r, n), "name: must be a queue's name");
        return;
    }
    free(q->name);
    q->name = name;
}

static void read_queue_field(struct reader *r, const struct mds_node *n,
                             struct mds_queue *q)
{
    static const char *const names[] = {"name", "min_nodes", "max_nodes", "walltime",
                                        "preemptable"};
    const char *near;
    char hint[MDS_HINT_SIZE];
    int64_t yes;

    if (strcmp(n->key, "name") == 0) {
        read_queue_name(r, n, q);
    } else if (strcmp(n->key, "min_nodes") == 0) {
        read_queue_number(r, n, &q->min_nodes);
    } else if (strcmp(n->key, "max_nodes") == 0) {
        read_queue_number(r, n, &q->max_nodes);
    } else if (strcmp(n->key, "preemptable") == 0) {
        if (read_queue_number(r, n, &yes) == 0)
            q->preemptable = yes != 0;
    } else if (strcmp(n->key, "walltime") == 0) {
        if (!n->text || mds_parse_seconds(n->text, &q->max_s) || q->max_s <= 0)
            mds_diag_fault(r->diag, origin_of(r, n), "walltime: must be a time, 6h");
    } else {
        near = mds_str_nearest(n->key, names, sizeof names / sizeof *names);
        mds_diag_fault(
            r->diag, origin_of(r, n), "queue %s: unknown key %s; %s", q->name, n->key,
            mds_str_hint(near,
                         "known are name, min_nodes, max_nodes, walltime, preemptable",
                         hint));
    }
}

static enum mds_rc read_queues(struct reader *r, const struct mds_node *section)
{
    struct mds_machine *m = r->m;

    for (const struct mds_node *n = section->first; n; n = n->next) {
        struct mds_queue *q;

        if (is_origin(n))
            continue;
        MDS_TRY(mds_grow(&m->queues, m->queue_count, sizeof *m->queues));
        q = &m->queues[m->queue_count++];
        *q = (struct mds_queue){.name = mds_strdup(n->key), .min_nodes = 1};
        if (!q->name)
            return MDS_EMEM;
        for (const struct mds_node *f = n->first; f; f = f->next)
            read_queue_field(r, f, q);
        if (q->max_nodes < q->min_nodes || q->max_s <= 0)
            mds_diag_fault(r->diag, origin_of(r, n),
                           "queue %s: must give max_nodes, no less than min_nodes, and "
                           "walltime",
                           q->name);
    }
    return MDS_OK;
}

static int is_variable_name(const char *name)
{
    size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
                            "0123456789");

    return n > 0 && name[n] == '\0' && !(name[0] >= '0' && name[0] <= '9');
}

static enum mds_rc read_environment(struct reader *r, const struct mds_node *section)
{
    struct mds_machine *m = r->m;

    for (const struct mds_node *n = section->first; n; n = n->next) {
        struct mds_variable *v;

        if (is_origin(n))
            continue;
        if (!is_variable_name(n->key) || n->kind != MDS_NODE_SCALAR) {
            mds_diag_fault(
                r->diag, origin_of(r, n),
                "environment: %s must be a variable's name, with a text as its value",
                n->key);
            continue;
        }
        MDS_TRY(mds_grow(&m->environment, m->variable_count, sizeof *m->environment));
        v = &m->environment[m->variable_count++];
        *v = (struct mds_variable){mds_strdup(n->key), mds_strdup(n->text)};
        if (!v->name || !v->value)
            return MDS_EMEM;
    }
    return MDS_OK;
}

/* Check the settings that mds_pretrain will read from here.  Call it after the facts
 * are read. */
static enum mds_rc check_settings(struct reader *r, const struct mds_node *section)
{
    struct mds_tree part = *r->t;
    struct mds_config values = {0};
    struct mds_settings s;

    MDS_TRY(mds_settings_init(&s, &mds_pretrain_options, &values));
    part.root = (struct mds_node *)section;
    mds_settings_read_tree(&s, MDS_LEVEL_MACHINE, &part, r->diag);
    if (!mds_machine_supports_type(r->m, values.train.type))
        mds_diag_fault(
            r->diag, mds_settings_of(&s, "model.dtype")->origin,
            "model.dtype bf16: needs gpu.capability 8.0, and it is %.1f; use fp16",
            r->m->gpu.capability);
    mds_settings_fini(&s);
    return MDS_OK;
}

/* ---- the whole ---- */

/* A list of queues, variables or attention rates. */
static enum mds_rc read_list(struct reader *r, const struct mds_node *n)
{
    if (!has_source(r, n))
        mds_diag_fault(r->diag, origin_of(r, n), "%s: no source and date; add both",
                       n->key);
    if (strcmp(n->key, "queues") == 0)
        return read_queues(r, n);
    if (strcmp(n->key, "environment") == 0)
        return read_environment(r, n);
    return mds_machine_read_attention(r->t, n, r->m, r->diag);
}

static enum mds_rc read_profile(struct reader *r, const char *const *sections, int but)
{
    static const char *const lists[] = {"queues", "environment", "attention", NULL};
    const struct mds_node *root = r->t->root;

    if (!root || root->kind != MDS_NODE_MAP) {
        mds_diag_fault(r->diag, r->t->name,
                       "not a machine profile: must be a map of sections");
        return MDS_OK;
    }
    for (const struct mds_node *n = root->first; n; n = n->next) {
        if (strcmp(n->key, "settings") == 0 ||
            (sections && mds_str_is_in(n->key, sections) == but))
            continue;
        if (n->kind != MDS_NODE_MAP)
            mds_diag_fault(r->diag, origin_of(r, n), "%s: must be a map", n->key);
        else if (mds_str_is_in(n->key, lists))
            MDS_TRY(read_list(r, n));
        else
            read_section(r, n);
    }
    return mds_node_get(root, "settings")
               ? check_settings(r, mds_node_get(root, "settings"))
               : MDS_OK;
}

enum mds_rc mds_machine_create(const char *path, struct mds_machine **out)
{
    struct mds_machine *m = mds_zalloc(1, sizeof *m);
    enum mds_rc rc;

    if (!m)
        return MDS_EMEM;
    rc = mds_settings_init(&m->facts, &mds_machine_facts, m);
    m->path = mds_strdup(path);
    if (!rc && !m->path)
        rc = MDS_EMEM;
    if (rc)
        mds_machine_destroy(m);
    else
        *out = m;
    return rc;
}

enum mds_rc mds_machine_read(struct mds_machine *m, const char *path,
                             const char *const *sections, int but,
                             struct mds_diag *diag)
{
    struct mds_tree *t = NULL;
    struct reader r = {.m = m, .diag = diag};
    enum mds_rc rc;

    MDS_TRY(mds_tree_load(path, &t));
    r.t = t;
    rc = read_profile(&r, sections, but);
    mds_tree_destroy(t);
    return rc;
}

enum mds_rc mds_machine_load(const char *path, struct mds_diag *diag,
                             struct mds_machine **out)
{
    struct mds_machine *m = NULL;
    enum mds_rc rc;

    MDS_TRY(mds_machine_create(path, &m));
    rc = mds_machine_read(m, path, NULL, 0, diag);
    if (!rc) {
        mds_machine_check(m, diag);
        rc = mds_diag_result(diag);
    }
    if (rc)
        mds_machine_destroy(m);
    else
        *out = m;
    return rc;
}

void mds_machine_destroy(struct mds_machine *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->queue_count; i++)
        free(m->queues[i].name);
    for (size_t i = 0; i < m->variable_count; i++) {
        free(m->environment[i].name);
        free(m->environment[i].value);
    }
    free(m->attention);
    free(m->queues);
    free(m->environment);
    free(m->path);
    mds_settings_fini(&m->facts);
    free(m);
}
