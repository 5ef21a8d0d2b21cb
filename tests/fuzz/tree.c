/* SPDX-License-Identifier: BSD-3-Clause */
/* The YAML tree: what parses is a tree whose every text can be read and found again. */
#include "base/status.h"
#include "config/tree.h"

#include "fuzz.h"

#include <string.h>

static void walk(const struct mds_node *n, int depth)
{
    size_t sum = n->text ? strlen(n->text) : 0;

    FUZZ_CHECK(depth <= 40 && n->line >= 1 && sum < SIZE_MAX);
    FUZZ_CHECK((n->kind == MDS_NODE_SCALAR) == (n->text != NULL));
    for (const struct mds_node *c = n->first; c; c = c->next) {
        FUZZ_CHECK((n->kind == MDS_NODE_MAP) == (c->key != NULL));
        FUZZ_CHECK(!c->key || mds_node_get(n, c->key) == c);
        walk(c, depth + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mds_tree *t;

    if (mds_tree_parse((const char *)data, size, "fuzz.yaml", &t)) {
        FUZZ_CHECK(*mds_fail_text());
        return 0;
    }
    if (t->root)
        walk(t->root, 0);
    mds_tree_destroy(t);
    return 0;
}
