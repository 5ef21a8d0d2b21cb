/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/tree.h"
#include "base/alloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum {
    MAX_DEPTH = 32,
    MAX_ENTRIES = 10000, /* of one map; keeps the search for duplicates bounded */
    MAX_BYTES = 4 << 20, /* of a file: no configuration is larger */
    READ_STEP = 64 * 1024,
};

struct reader {
    yaml_parser_t parser;
    const char *name;
};

static int event_line(const yaml_event_t *e)
{
    return (int)e->start_mark.line + 1;
}

static void node_destroy(struct mds_node *n)
{
    while (n) {
        struct mds_node *next = n->next;

        node_destroy(n->first);
        free((char *)n->key);
        free((char *)n->text);
        free(n);
        n = next;
    }
}

/* The next event; after success the caller deletes it. */
static enum mds_rc next_yaml_event(struct reader *r, yaml_event_t *e)
{
    const yaml_parser_t *p = &r->parser;
    size_t line;

    if (yaml_parser_parse(&r->parser, e))
        return MDS_OK;
    if (p->error == YAML_MEMORY_ERROR)
        return mds_fail(MDS_EMEM, "%s: no host memory to parse it", r->name);
    line = p->problem_mark.line;
    if (p->error == YAML_READER_ERROR) /* knows bytes only; the scanner is close by */
        line = p->mark.line;
    return mds_fail(MDS_EUSER, "%s:%zu: %s%s%s", r->name, line + 1,
                    p->problem ? p->problem : "not YAML", p->context ? " " : "",
                    p->context ? p->context : "");
}

/* A copy of the scalar in e. */
static enum mds_rc copy_scalar(const struct reader *r, const yaml_event_t *e,
                               const char **out)
{
    const char *text = (const char *)e->data.scalar.value;
    char *copy;

    if (e->data.scalar.anchor)
        return mds_fail(MDS_EUSER, "%s:%d: anchors (&) are not supported", r->name,
                        event_line(e));
    if (memchr(text, '\0', e->data.scalar.length))
        return mds_fail(MDS_EUSER, "%s:%d: a NUL character in a value", r->name,
                        event_line(e));
    copy = mds_strdup(text);
    if (!copy)
        return MDS_EMEM;
    *out = copy;
    return MDS_OK;
}

static enum mds_rc read_yaml_node(struct reader *r, const yaml_event_t *e, int depth,
                                  struct mds_node **out);

/* The children of parent up to the end event, through the place of the last link. */
static enum mds_rc read_yaml_list(struct reader *r, struct mds_node *parent, int depth)
{
    struct mds_node **tail = &parent->first;
    enum mds_rc rc = MDS_OK;
    int end = 0;

    while (rc == MDS_OK && !end) {
        yaml_event_t e;

        MDS_TRY(next_yaml_event(r, &e));
        end = e.type == YAML_SEQUENCE_END_EVENT;
        if (!end)
            rc = read_yaml_node(r, &e, depth + 1, tail);
        if (!end && rc == MDS_OK)
            tail = &(*tail)->next;
        yaml_event_delete(&e);
    }
    return rc;
}

static enum mds_rc check_yaml_key(const struct reader *r, const struct mds_node *map,
                                  const char *key, int entries, int line)
{
    const struct mds_node *before = mds_node_get(map, key);

    if (before)
        return mds_fail(MDS_EUSER, "%s:%d: key '%s' is given twice (first in line %d)",
                        r->name, line, key, before->line);
    if (entries >= MAX_ENTRIES)
        return mds_fail(MDS_EUSER, "%s:%d: more than %d keys in one map", r->name, line,
                        MAX_ENTRIES);
    return MDS_OK;
}

/* One entry, whose key is in e; *out is its node. */
static enum mds_rc read_yaml_entry(struct reader *r, const struct mds_node *map,
                                   const yaml_event_t *e, int entries, int depth,
                                   struct mds_node **out)
{
    const char *key = NULL;
    struct mds_node *node = NULL;
    yaml_event_t value;
    enum mds_rc rc;

    if (e->type != YAML_SCALAR_EVENT)
        return mds_fail(MDS_EUSER, "%s:%d: a key must be a plain word", r->name,
                        event_line(e));
    MDS_TRY(copy_scalar(r, e, &key));
    rc = check_yaml_key(r, map, key, entries, event_line(e));
    if (rc)
        goto free_key;
    rc = next_yaml_event(r, &value);
    if (rc)
        goto free_key;
    rc = read_yaml_node(r, &value, depth + 1, &node);
    yaml_event_delete(&value);
    if (rc)
        goto free_key;
    node->key = key;
    node->line = event_line(e);
    *out = node;
    return MDS_OK;

free_key:
    free((char *)key);
    return rc;
}

static enum mds_rc read_yaml_map(struct reader *r, struct mds_node *parent, int depth)
{
    struct mds_node **tail = &parent->first;
    enum mds_rc rc = MDS_OK;
    int end = 0;

    for (int entries = 0; rc == MDS_OK && !end; entries++) {
        yaml_event_t e;

        MDS_TRY(next_yaml_event(r, &e));
        end = e.type == YAML_MAPPING_END_EVENT;
        if (!end)
            rc = read_yaml_entry(r, parent, &e, entries, depth, tail);
        if (!end && rc == MDS_OK)
            tail = &(*tail)->next;
        yaml_event_delete(&e);
    }
    return rc;
}

static int is_anchored(const yaml_event_t *e)
{
    return (e->type == YAML_MAPPING_START_EVENT && e->data.mapping_start.anchor) ||
           (e->type == YAML_SEQUENCE_START_EVENT && e->data.sequence_start.anchor);
}

/* The node that e begins, with all below it. */
static enum mds_rc read_yaml_node(struct reader *r, const yaml_event_t *e, int depth,
                                  struct mds_node **out)
{
    struct mds_node *n;
    enum mds_rc rc;

    if (e->type == YAML_ALIAS_EVENT || is_anchored(e))
        return mds_fail(MDS_EUSER,
                        "%s:%d: anchors (&) and aliases (*) are not supported", r->name,
                        event_line(e));
    if (depth > MAX_DEPTH)
        return mds_fail(MDS_EUSER, "%s:%d: nested more than %d deep", r->name,
                        event_line(e), MAX_DEPTH);
    n = mds_zalloc(1, sizeof *n);
    if (!n)
        return MDS_EMEM;
    n->line = event_line(e);
    if (e->type == YAML_SCALAR_EVENT) {
        n->kind = MDS_NODE_SCALAR;
        rc = copy_scalar(r, e, &n->text);
    } else if (e->type == YAML_MAPPING_START_EVENT) {
        n->kind = MDS_NODE_MAP;
        rc = read_yaml_map(r, n, depth);
    } else {
        n->kind = MDS_NODE_LIST;
        rc = read_yaml_list(r, n, depth);
    }
    if (rc) {
        node_destroy(n);
        return rc;
    }
    *out = n;
    return MDS_OK;
}

/* The whole stream: at most one document; *root stays NULL for none. */
static enum mds_rc read_stream(struct reader *r, struct mds_node **root)
{
    enum mds_rc rc = MDS_OK;
    int end = 0, documents = 0;

    while (rc == MDS_OK && !end) {
        yaml_event_t e;

        MDS_TRY(next_yaml_event(r, &e));
        if (e.type == YAML_STREAM_END_EVENT)
            end = 1;
        else if (e.type == YAML_DOCUMENT_START_EVENT && documents++ > 0)
            rc = mds_fail(MDS_EUSER, "%s:%d: a second document; only one is read",
                          r->name, event_line(&e));
        else if (e.type != YAML_STREAM_START_EVENT &&
                 e.type != YAML_DOCUMENT_START_EVENT &&
                 e.type != YAML_DOCUMENT_END_EVENT)
            rc = read_yaml_node(r, &e, 0, root);
        yaml_event_delete(&e);
    }
    return rc;
}

enum mds_rc mds_tree_parse(const char *text, size_t len, const char *name,
                           struct mds_tree **out)
{
    struct reader r = {.name = name};
    struct mds_tree *t = mds_zalloc(1, sizeof *t);
    enum mds_rc rc = MDS_EMEM;

    if (!t)
        return MDS_EMEM;
    t->name = mds_strdup(name);
    if (!t->name)
        goto destroy_tree;
    if (!yaml_parser_initialize(&r.parser)) {
        rc = mds_fail(MDS_EMEM, "%s: no host memory to parse it", name);
        goto destroy_tree;
    }
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
    rc = read_stream(&r, &t->root);
    yaml_parser_delete(&r.parser);
    if (rc)
        goto destroy_tree;
    *out = t;
    return MDS_OK;

destroy_tree:
    mds_tree_destroy(t);
    return rc;
}

/* All of f, which messages call path; *text is the caller's. */
static enum mds_rc read_whole_file(FILE *f, const char *path, char **text, size_t *len)
{
    char *buf = NULL, *more;
    size_t used = 0, got;

    do {
        more = mds_realloc(buf, used + READ_STEP, 1);
        if (!more) {
            free(buf);
            return MDS_EMEM;
        }
        buf = more;
        got = fread(buf + used, 1, READ_STEP, f);
        used += got;
    } while (got == READ_STEP && used <= MAX_BYTES);
    if (ferror(f) || used > MAX_BYTES) {
        free(buf);
        return ferror(f)
                   ? mds_fail(MDS_EIO, "%s: %s; it must be a file of settings", path,
                              strerror(errno))
                   : mds_fail(MDS_EUSER, "%s: larger than %d MiB: not a settings file",
                              path, MAX_BYTES >> 20);
    }
    *text = buf;
    *len = used;
    return MDS_OK;
}

enum mds_rc mds_tree_load(const char *path, struct mds_tree **out)
{
    FILE *f = fopen(path, "re");
    char *text = NULL;
    size_t len = 0;
    enum mds_rc rc;

    if (!f)
        return mds_fail_open(MDS_EIO, path);
    rc = read_whole_file(f, path, &text, &len);
    fclose(f);
    if (rc)
        return rc;
    rc = mds_tree_parse(text, len, path, out);
    free(text);
    return rc;
}

void mds_tree_destroy(struct mds_tree *t)
{
    if (!t)
        return;
    node_destroy(t->root);
    free(t->name);
    free(t);
}

const struct mds_node *mds_node_get(const struct mds_node *map, const char *key)
{
    if (!map || map->kind != MDS_NODE_MAP)
        return NULL;
    for (const struct mds_node *n = map->first; n; n = n->next)
        if (strcmp(n->key, key) == 0)
            return n;
    return NULL;
}
