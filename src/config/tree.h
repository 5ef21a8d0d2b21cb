/* SPDX-License-Identifier: BSD-3-Clause */
/* A YAML document (JSON is a subset) as a tree, with line numbers for messages. */
#ifndef MDS_CONFIG_TREE_H
#define MDS_CONFIG_TREE_H

#include "base/status.h"

#include <stddef.h>

enum mds_node_kind { MDS_NODE_SCALAR, MDS_NODE_MAP, MDS_NODE_LIST };

struct mds_node {
    enum mds_node_kind kind;
    const char *key;  /* in a map: this entry's key; else NULL */
    const char *text; /* a scalar's text, else NULL; "" for an empty value */
    int line;         /* from 1 */
    struct mds_node *first, *next; /* children in file order; next sibling */
};

struct mds_tree {
    char *name; /* for messages: the path, as a rule */
    struct mds_node *root;
};

/* Read a whole file or a text.  A syntax error, a duplicate key, an anchor or alias,
 * more than one document, or nesting past 32 is MDS_EUSER naming "name:line". */
enum mds_rc mds_tree_load(const char *path, struct mds_tree **out);
enum mds_rc mds_tree_parse(const char *text, size_t len, const char *name,
                           struct mds_tree **out);
void mds_tree_destroy(struct mds_tree *t); /* NULL is fine */

/* The entry of a map under key, or NULL (also where map is NULL or no map). */
const struct mds_node *mds_node_get(const struct mds_node *map, const char *key);

#endif
