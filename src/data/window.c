/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/window.h"

#include "base/minmax.h"

/* start[at .. end - 1] = begin.  Returns end. */
static int64_t fill_document(int32_t *start, int64_t begin, int64_t at, int64_t end)
{
    for (; at < end; at++)
        start[at] = (int32_t)begin;
    return end;
}

enum mds_rc mds_window_starts(struct mds_source *s, int64_t first, int64_t count,
                              int32_t *start)
{
    enum { BLOCK = 512 };
    int64_t next[BLOCK], document, at = 0, begin = 0;

    MDS_TRY(mds_source_document_at(s, first, &document));
    while (at < count) {
        int64_t n = mds_min(s->documents - document, BLOCK);

        MDS_TRY(mds_source_starts(s, document + 1, n, next));
        for (int64_t i = 0; i < n && at < count; i++) {
            int64_t end = mds_min(next[i] - first, count);

            at = fill_document(start, begin, at, end);
            begin = end;
        }
        document += n;
    }
    return MDS_OK;
}
