/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/overlap.h"

#include "base/alloc.h"
#include "io/h5.h"

#include <stdlib.h>
#include <string.h>

struct input {
    char *path, *sha256;
    int source;
};

struct inputs {
    struct input *list;
    size_t n;
};

static enum mds_rc add_input(struct inputs *all, char *path, char *sha256, int source)
{
    struct input *list = mds_grow(all->list, all->n, sizeof *list);

    if (!list)
        return MDS_EMEM;
    all->list = list;
    list[all->n++] = (struct input){mds_strdup(path), mds_strdup(sha256), source};
    return list[all->n - 1].path && list[all->n - 1].sha256 ? MDS_OK : MDS_EMEM;
}

static enum mds_rc add_source_inputs(struct inputs *all, struct mds_source *s,
                                     int source)
{
    char **paths, **sums;
    int64_t n;
    enum mds_rc rc = MDS_OK;

    if (!s->ops->inputs || s->ops->inputs(s, &paths, &sums, &n))
        return MDS_OK;
    for (int64_t i = 0; i < n && !rc; i++)
        rc = add_input(all, paths[i], sums[i], source);
    mds_h5_free_strings(paths, n);
    mds_h5_free_strings(sums, n);
    return rc;
}

static int compare_by_sha256(const void *a, const void *b)
{
    const struct input *x = a, *y = b;
    int order = strcmp(x->sha256, y->sha256);

    return order ? order : x->source - y->source;
}

static void free_inputs(struct inputs *all)
{
    for (size_t i = 0; i < all->n; i++) {
        free(all->list[i].path);
        free(all->list[i].sha256);
    }
    free(all->list);
}

/* The first two inputs with the same contents that must not be shared; 0 if none. */
static int find_shared_input(const struct inputs *all,
                             int (*apart)(const void *context, int a, int b),
                             const void *context, struct input **a, struct input **b)
{
    for (size_t i = 0; i < all->n; i++)
        for (size_t j = i + 1; j < all->n; j++) {
            *a = &all->list[i];
            *b = &all->list[j];
            if (strcmp((*a)->sha256, (*b)->sha256) != 0)
                break;
            if ((*a)->source != (*b)->source &&
                apart(context, (*a)->source, (*b)->source))
                return 1;
        }
    return 0;
}

enum mds_rc mds_sources_overlap(struct mds_source **sources, int n,
                                int (*apart)(const void *context, int a, int b),
                                const void *context, int *a, int *b, char **input)
{
    struct inputs all = {0};
    struct input *one, *other;
    enum mds_rc rc = MDS_OK;

    *input = NULL;
    for (int k = 0; k < n && !rc; k++)
        rc = add_source_inputs(&all, sources[k], k);
    if (!rc && all.n > 1)
        qsort(all.list, all.n, sizeof *all.list, compare_by_sha256);
    if (!rc && find_shared_input(&all, apart, context, &one, &other)) {
        *a = one->source;
        *b = other->source;
        *input = one->path;
        one->path = NULL;
    }
    free_inputs(&all);
    return rc;
}
