/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/feature_bases.h"

#include "base/alloc.h"
#include "base/minmax.h"
#include "data/fasta.h"

#include <stdlib.h>

/* The part's bases on the record, and those after its start if it goes around; returns
 * how many ranges these are. */
static int ranges_of(const struct mds_feature_part *p, int64_t length,
                     struct mds_base_range range[2])
{
    range[0] = (struct mds_base_range){p->begin, mds_min(p->end, length)};
    range[1] = (struct mds_base_range){0, p->end - length};
    return p->end > length ? 2 : 1;
}

/* ---- marking ---- */

static int by_begin(const void *x, const void *y)
{
    const struct mds_base_range *a = x, *b = y;

    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

static void merge_ranges(struct mds_cover *c)
{
    int64_t kept = 0;

    qsort(c->range, (size_t)c->n, sizeof *c->range, by_begin);
    for (int64_t i = 1; i < c->n; i++)
        if (c->range[i].begin <= c->range[kept].end)
            c->range[kept].end = mds_max(c->range[kept].end, c->range[i].end);
        else
            c->range[++kept] = c->range[i];
    c->n = c->n > 0 ? kept + 1 : 0;
}

enum mds_rc mds_cover_create(const struct mds_feature_part *parts, int64_t n,
                             int64_t length, struct mds_cover *out)
{
    *out = (struct mds_cover){mds_zalloc(2 * (size_t)n + 1, sizeof *out->range), 0};
    if (!out->range)
        return MDS_EMEM;
    for (int64_t i = 0; i < n; i++)
        out->n += ranges_of(&parts[i], length, &out->range[out->n]);
    merge_ranges(out);
    return MDS_OK;
}

void mds_cover_fini(struct mds_cover *c)
{
    free(c->range);
    *c = (struct mds_cover){0};
}

/* The first range that ends behind base `at`. */
static int64_t first_range(const struct mds_cover *c, int64_t at)
{
    int64_t low = 0, high = c->n;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;

        if (c->range[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void mds_cover_mark(const struct mds_cover *c, int64_t at, unsigned char *bases,
                    size_t n)
{
    int64_t last = at + (int64_t)n;

    for (int64_t i = first_range(c, at); i < c->n && c->range[i].begin < last; i++)
        for (int64_t b = mds_max(c->range[i].begin, at);
             b < mds_min(c->range[i].end, last); b++)
            bases[b - at] |= MDS_BASE_MARKED;
}

/* ---- cutting out ---- */

static enum mds_rc copy_range(const struct mds_base_range *r,
                              const struct mds_record_file *from,
                              struct mds_record_file *to)
{
    unsigned char block[1 << 14];
    int64_t n;

    for (int64_t at = r->begin; at < r->end; at += n) {
        n = mds_min(r->end - at, (int64_t)sizeof block);
        MDS_TRY(mds_record_file_read(from, at, block, (size_t)n));
        MDS_TRY(mds_record_file_append(to, block, (size_t)n));
    }
    return MDS_OK;
}

enum mds_rc mds_feature_cut(const struct mds_feature_part *parts, int64_t n,
                            const struct mds_record_file *record,
                            struct mds_record_file *to)
{
    struct mds_base_range range[2];

    mds_record_file_clear(to);
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < ranges_of(&parts[i], record->length, range); k++)
            MDS_TRY(copy_range(&range[k], record, to));
    return MDS_OK;
}
