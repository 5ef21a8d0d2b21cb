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
    yaml_document_t doc;
    const char *name;
    char *seen; /* of each node of doc: it is in the tree */
};

static int line_of(const yaml_node_t *y)
{
    return (int)y->start_mark.line + 1;
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

static enum mds_rc copy_scalar(const struct reader *r, const yaml_node_t *y,
                               const char **out)
{
    const char *text = (const char *)y->data.scalar.value;

    if (memchr(text, '\0', y->data.scalar.length))
        return mds_fail(MDS_EUSER, "%s:%d: a NUL character in a value", r->name,
                        line_of(y));
    *out = mds_strdup(text);
    return *out ? MDS_OK : MDS_EMEM;
}

static enum mds_rc read_node(struct reader *r, int id, int depth,
                             struct mds_node **out);

/* The key of the next entry. */
static enum mds_rc read_key(struct reader *r, const struct mds_node *map, int id,
                            int entries, const char **out)
{
    const yaml_node_t *y = yaml_document_get_node(&r->doc, id);
    const struct mds_node *before;

    if (y->type != YAML_SCALAR_NODE)
        return mds_fail(MDS_EUSER, "%s:%d: a key must be a plain word", r->name,
                        line_of(y));
    before = mds_node_get(map, (const char *)y->data.scalar.value);
    if (before)
        return mds_fail(MDS_EUSER, "%s:%d: key '%s' is given twice (first in line %d)",
                        r->name, line_of(y), before->key, before->line);
    if (entries >= MAX_ENTRIES)
        return mds_fail(MDS_EUSER, "%s:%d: more than %d keys in one map", r->name,
                        line_of(y), MAX_ENTRIES);
    return copy_scalar(r, y, out);
}

static enum mds_rc read_map(struct reader *r, const yaml_node_t *y, int depth,
                            struct mds_node *map)
{
    const yaml_node_pair_t *p = y->data.mapping.pairs.start;
    struct mds_node **tail = &map->first;

    for (int i = 0; &p[i] < y->data.mapping.pairs.top; i++) {
        const char *key = NULL;
        enum mds_rc rc;

        MDS_TRY(read_key(r, map, p[i].key, i, &key));
        rc = read_node(r, p[i].value, depth + 1, tail);
        if (rc) {
            free((char *)key);
            return rc;
        }
        (*tail)->key = key;
        (*tail)->line = line_of(yaml_document_get_node(&r->doc, p[i].key));
        tail = &(*tail)->next;
    }
    return MDS_OK;
}

static enum mds_rc read_list(struct reader *r, const yaml_node_t *y, int depth,
                             struct mds_node *list)
{
    struct mds_node **tail = &list->first;

    for (const int *i = y->data.sequence.items.start; i < y->data.sequence.items.top;
         i++) {
        MDS_TRY(read_node(r, *i, depth + 1, tail));
        tail = &(*tail)->next;
    }
    return MDS_OK;
}

/* With all below it.  A node that is there twice is an alias's. */
static enum mds_rc read_node(struct reader *r, int id, int depth, struct mds_node **out)
{
    const yaml_node_t *y = yaml_document_get_node(&r->doc, id);
    struct mds_node *n;
    enum mds_rc rc;

    if (r->seen[id - 1])
        return mds_fail(MDS_EUSER,
                        "%s:%d: anchors (&) and aliases (*) are not supported", r->name,
                        line_of(y));
    if (depth > MAX_DEPTH)
        return mds_fail(MDS_EUSER, "%s:%d: nested more than %d deep", r->name,
                        line_of(y), MAX_DEPTH);
    r->seen[id - 1] = 1;
    n = mds_zalloc(1, sizeof *n);
    if (!n)
        return MDS_EMEM;
    n->line = line_of(y);
    n->kind = y->type == YAML_SCALAR_NODE    ? MDS_NODE_SCALAR
              : y->type == YAML_MAPPING_NODE ? MDS_NODE_MAP
                                             : MDS_NODE_LIST;
    rc = n->kind == MDS_NODE_SCALAR ? copy_scalar(r, y, &n->text)
         : n->kind == MDS_NODE_MAP  ? read_map(r, y, depth, n)
                                    : read_list(r, y, depth, n);
    if (rc)
        node_destroy(n);
    else
        *out = n;
    return rc;
}

static enum mds_rc load_document(yaml_parser_t *p, const char *name,
                                 yaml_document_t *out)
{
    size_t line;

    if (yaml_parser_load(p, out))
        return MDS_OK;
    if (p->error == YAML_MEMORY_ERROR)
        return mds_fail(MDS_EMEM, "%s: no host memory to parse it", name);
    line = p->problem_mark.line;
    if (p->error == YAML_READER_ERROR) /* knows bytes only; the scanner is close by */
        line = p->mark.line;
    return mds_fail(MDS_EUSER, "%s:%zu: %s%s%s", name, line + 1,
                    p->problem ? p->problem : "not YAML", p->context ? " " : "",
                    p->context ? p->context : "");
}

/* At most one document; *root stays NULL for none. */
static enum mds_rc read_stream(yaml_parser_t *p, const char *name,
                               struct mds_node **root)
{
    struct reader r = {.name = name};
    yaml_document_t second;
    enum mds_rc rc = load_document(p, name, &r.doc);

    if (rc)
        return rc;
    if (!yaml_document_get_root_node(&r.doc)) {
        yaml_document_delete(&r.doc);
        return MDS_OK;
    }
    r.seen = mds_zalloc((size_t)(r.doc.nodes.top - r.doc.nodes.start), 1);
    rc = r.seen ? read_node(&r, 1, 0, root) : MDS_EMEM;
    free(r.seen);
    yaml_document_delete(&r.doc);
    if (!rc)
        rc = load_document(p, name, &second);
    if (rc)
        return rc;
    if (yaml_document_get_root_node(&second))
        rc = mds_fail(MDS_EUSER, "%s:%d: a second document; only one is read", name,
                      (int)second.start_mark.line + 1);
    yaml_document_delete(&second);
    return rc;
}

enum mds_rc mds_tree_parse(const char *text, size_t len, const char *name,
                           struct mds_tree **out)
{
    struct mds_tree *t = mds_zalloc(1, sizeof *t);
    yaml_parser_t parser;
    enum mds_rc rc = MDS_EMEM;

    if (!t)
        return MDS_EMEM;
    t->name = mds_strdup(name);
    if (t->name && !yaml_parser_initialize(&parser)) {
        rc = mds_fail(MDS_EMEM, "%s: no host memory to parse it", name);
    } else if (t->name) {
        yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
        rc = read_stream(&parser, name, &t->root);
        yaml_parser_delete(&parser);
    }
    if (rc)
        mds_tree_destroy(t);
    else
        *out = t;
    return rc;
}

/* All of f, which messages call path; *text is the caller's. */
static enum mds_rc read_whole_file(FILE *f, const char *path, char **text, size_t *len)
{
    char *buf = NULL;
    size_t used = 0, got;

    do {
        if (mds_resize(&buf, used + READ_STEP, 1)) {
            free(buf);
            return MDS_EMEM;
        }
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
