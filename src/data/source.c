/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/source.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/progress.h"
#include "base/units.h"
#include "io/h5.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void mds_source_close(struct mds_source *s)
{
    if (!s)
        return;
    mds_kinds_close(s->kinds);
    s->ops->close(s);
    mds_h5_free_strings(s->words, s->n_words);
    free(s->tokenizer);
    free(s->path);
    free(s);
}

static enum mds_rc fail_id_outside_vocabulary(struct mds_source *s, int64_t token)
{
    int64_t id;

    MDS_TRY(s->ops->stored(s, token, &id));
    return mds_fail(MDS_EUSER,
                    "%s: token %lld has id %lld, outside the vocabulary of %lld words: "
                    "the file is damaged",
                    s->path, (long long)token, (long long)id, (long long)s->vocab);
}

enum mds_rc mds_source_read(struct mds_source *s, int64_t first, int64_t count,
                            int32_t *ids)
{
    if (first < 0 || count < 0 || first > s->tokens - count)
        return mds_fail(MDS_EBUG, "%s: %lld tokens requested at %lld of %lld", s->path,
                        (long long)count, (long long)first, (long long)s->tokens);
    MDS_TRY(s->ops->read(s, first, count, ids));
    for (int64_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= s->vocab)
            return fail_id_outside_vocabulary(s, first + i);
    return MDS_OK;
}

enum mds_rc mds_source_read_kinds(struct mds_source *s, int64_t first, int64_t count,
                                  unsigned char *kinds)
{
    if (!s->kinds) {
        memset(kinds, 0, (size_t)count);
        return MDS_OK;
    }
    return mds_kinds_read(s->kinds, s->path, first, count, kinds);
}

enum mds_rc mds_source_starts(struct mds_source *s, int64_t first, int64_t count,
                              int64_t *starts)
{
    if (first < 0 || count < 0 || first > s->documents + 1 - count)
        return mds_fail(MDS_EBUG, "%s: %lld documents requested at %lld of %lld",
                        s->path, (long long)count, (long long)first,
                        (long long)s->documents);
    return s->ops->starts(s, first, count, starts);
}

enum mds_rc mds_source_document_at(struct mds_source *s, int64_t token,
                                   int64_t *document)
{
    int64_t low = 0, high = s->documents; /* starts[low] <= token < starts[high] */

    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2, start;

        MDS_TRY(mds_source_starts(s, middle, 1, &start));
        if (start <= token)
            low = middle;
        else
            high = middle;
    }
    *document = low;
    return MDS_OK;
}

enum mds_rc mds_source_each_document(struct mds_source *s, int64_t first, int64_t count,
                                     enum mds_rc (*each)(void *to, int64_t first,
                                                         int64_t tokens),
                                     void *to)
{
    enum { BLOCK = 8192 };
    int64_t start[BLOCK + 1], at = first, end = first + count, document;

    MDS_TRY(mds_source_document_at(s, at, &document));
    while (at < end) {
        int64_t n = mds_min(s->documents - document, BLOCK);

        MDS_TRY(mds_source_starts(s, document, n + 1, start));
        for (int64_t i = 1; i <= n && at < end; i++) {
            int64_t next = mds_min(start[i], end);

            MDS_TRY(each(to, at, next - at));
            at = next;
        }
        document += n;
    }
    return MDS_OK;
}

enum mds_rc mds_source_provenance(struct mds_source *s, struct mds_str *out)
{
    return s->ops->provenance ? s->ops->provenance(s, out) : MDS_OK;
}

static void log_read_progress(const struct mds_source *s, int64_t done, int64_t count)
{
    char so_far[32], all[32];

    mds_info("%s: %s of %s tokens read", s->path,
             mds_format_count((double)done, so_far, sizeof so_far),
             mds_format_count((double)count, all, sizeof all));
}

/* Call take() with blocks of the tokens first .. first + count - 1. */
static enum mds_rc
for_each_block(struct mds_source *s, int64_t first, int64_t count,
               void (*take)(const int32_t *ids, int64_t n, int64_t *out), int64_t *out)
{
    enum { BLOCK = 65536 };
    struct mds_progress progress = mds_progress_begin();
    int32_t *ids = mds_zalloc(BLOCK, sizeof *ids);
    enum mds_rc rc = ids ? MDS_OK : MDS_EMEM;

    for (int64_t done = 0; done < count && !rc; done += BLOCK) {
        int64_t n = mds_min(count - done, BLOCK);

        if (mds_progress_is_due(&progress))
            log_read_progress(s, done, count);
        rc = mds_source_read(s, first + done, n, ids);
        if (!rc)
            take(ids, n, out);
    }
    free(ids);
    return rc;
}

static void add_counts(const int32_t *ids, int64_t n, int64_t *counts)
{
    for (int64_t i = 0; i < n; i++)
        counts[ids[i]]++;
}

enum mds_rc mds_source_count(struct mds_source *s, int64_t first, int64_t count,
                             int64_t *counts)
{
    return for_each_block(s, first, count, add_counts, counts);
}

enum mds_rc mds_source_count_kinds(struct mds_source *s, int64_t *counts)
{
    enum { BLOCK = 65536 };
    unsigned char kinds[BLOCK];

    for (int64_t first = 0; first < s->tokens; first += BLOCK) {
        int64_t n = mds_min(s->tokens - first, BLOCK);

        MDS_TRY(mds_source_read_kinds(s, first, n, kinds));
        for (int64_t i = 0; i < n; i++)
            counts[kinds[i]]++;
    }
    return MDS_OK;
}

static void raise_largest(const int32_t *ids, int64_t n, int64_t *largest)
{
    for (int64_t i = 0; i < n; i++)
        *largest = mds_max(*largest, ids[i]);
}

enum mds_rc mds_source_largest_id(struct mds_source *s, int64_t first, int64_t count,
                                  int64_t *largest)
{
    return for_each_block(s, first, count, raise_largest, largest);
}

double mds_entropy(const int64_t *counts, int64_t n)
{
    double total = 0, sum = 0;

    for (int64_t i = 0; i < n; i++)
        total += (double)counts[i];
    for (int64_t i = 0; i < n; i++)
        if (counts[i] > 0)
            sum -= (double)counts[i] / total * log((double)counts[i] / total);
    return sum;
}
