/* SPDX-License-Identifier: BSD-3-Clause */
/* One table of kinds for all files of a data set. */
#include "data/dataset_impl.h"

#include "base/alloc.h"

#include <string.h>

/* Tokens of files without kinds, if other files have some. */
static const struct mds_kind other = {"other", 1};

/* The number of a kind in the table, where it is added if it is new. */
static enum mds_rc find_or_add(struct mds_dataset *d, const struct mds_source *s,
                               const struct mds_kind *kind, unsigned char *number)
{
    int k = 0;

    while (k < d->n_kinds && strcmp(d->kind[k].name, kind->name) != 0)
        k++;
    if (k == MDS_KINDS_MAX)
        return mds_fail(MDS_EUSER,
                        "%s: with this file there are more than %d kinds of tokens: "
                        "give some of them the same name",
                        s->path, MDS_KINDS_MAX);
    if (k == d->n_kinds)
        d->kind[d->n_kinds++] = *kind;
    if (d->kind[k].weight != kind->weight)
        return mds_fail(MDS_EUSER,
                        "%s: tokens of kind '%s' weigh %g, but %g in another file: "
                        "give both the same weight, or different names",
                        s->path, kind->name, kind->weight, d->kind[k].weight);
    *number = (unsigned char)k;
    return MDS_OK;
}

static enum mds_rc merge_kinds_of(struct mds_dataset *d, int source)
{
    const struct mds_source *s = d->sources[source];
    unsigned char *number = d->kind_of + source * MDS_KINDS_MAX;

    if (!s->kinds)
        return find_or_add(d, s, &other, number);
    for (int k = 0; k < s->kinds->n; k++)
        MDS_TRY(find_or_add(d, s, &s->kinds->kind[k], number + k));
    return MDS_OK;
}

enum mds_rc mds_dataset_merge_kinds(struct mds_dataset *d)
{
    int any = 0;

    for (int i = 0; i < d->n_sources; i++)
        any |= d->sources[i]->kinds != NULL;
    if (!any)
        return MDS_OK;
    d->kind_of = mds_zalloc((size_t)d->n_sources * MDS_KINDS_MAX, 1);
    if (!d->kind_of)
        return MDS_EMEM;
    for (int i = 0; i < d->n_sources; i++)
        MDS_TRY(merge_kinds_of(d, i));
    return MDS_OK;
}

void mds_dataset_renumber_kinds(const struct mds_dataset *d, int source,
                                unsigned char *kind)
{
    const unsigned char *number = d->kind_of + source * MDS_KINDS_MAX;

    for (int64_t i = 0; i <= d->seq_length; i++)
        if (kind[i] != MDS_KIND_MASKED)
            kind[i] = number[kind[i]];
}

struct mds_kind_table mds_dataset_kinds(const struct mds_dataset *d)
{
    return (struct mds_kind_table){d->kind, d->n_kinds};
}
