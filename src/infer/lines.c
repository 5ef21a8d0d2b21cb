/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/lines.h"
#include "base/alloc.h"

#include <stdlib.h>

static enum mds_rc next_byte(struct mds_infer_lines *l, int *c)
{
    if (l->at == l->end) {
        MDS_TRY(mds_reader_next(l->reader, &l->block, &l->end));
        l->at = 0;
    }
    *c = l->end > 0 ? l->block[l->at++] : -1;
    return MDS_OK;
}

enum mds_rc mds_infer_lines_next(struct mds_infer_lines *l, size_t *length)
{
    size_t n = 0;
    int c;

    l->number++;
    do {
        MDS_TRY(next_byte(l, &c));
        l->number += c == '\n' && n == 0;
        if (c < 0 || c == '\n')
            continue;
        MDS_TRY(mds_reserve(&l->text, &l->room, (int64_t)n + 2, 1));
        l->text[n++] = (char)c;
    } while (c >= 0 && !(c == '\n' && n > 0));
    if (n > 0)
        l->text[n] = '\0';
    *length = n;
    return MDS_OK;
}

void mds_infer_lines_fini(struct mds_infer_lines *l)
{
    free(l->text);
    *l = (struct mds_infer_lines){0};
}
