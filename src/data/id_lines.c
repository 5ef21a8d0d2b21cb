/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/id_lines.h"

#include <stdio.h>
#include <string.h>

void mds_id_lines_init(struct mds_id_lines *l, struct mds_reader *r, int64_t limit)
{
    *l = (struct mds_id_lines){.reader = r, .line = 1, .limit = limit, .number = -1};
}

/* -1 at the end of the file. */
static enum mds_rc next_byte(struct mds_id_lines *l, int *c)
{
    if (l->pos == l->len) {
        MDS_TRY(mds_reader_next(l->reader, &l->block, &l->len));
        l->pos = 0;
    }
    *c = l->len > 0 ? l->block[l->pos++] : -1;
    return MDS_OK;
}

static enum mds_rc add_digit(struct mds_id_lines *l, int digit)
{
    l->number = (l->number < 0 ? 0 : l->number) * 10 + digit;
    if (l->number >= l->limit)
        return mds_fail(MDS_EUSER,
                        "%s:%lld: an id of %lld or more, but --vocab-size is %lld",
                        mds_reader_name(l->reader), (long long)l->line,
                        (long long)l->number, (long long)l->limit);
    return MDS_OK;
}

static enum mds_rc refuse_byte(const struct mds_id_lines *l, int c)
{
    char shown[8];

    snprintf(shown, sizeof shown, c > ' ' && c <= '~' ? "'%c'" : "<%02x>", (unsigned)c);
    return mds_fail(
        MDS_EUSER,
        "%s:%lld: %s is not part of a token id: tokenize text first (docs/data.md)",
        mds_reader_name(l->reader), (long long)l->line, shown);
}

enum mds_rc mds_id_lines_read(struct mds_id_lines *l, int32_t *ids, size_t capacity,
                              size_t *n, enum mds_id_lines_at *at)
{
    int c;

    *at = MDS_ID_LINES_INSIDE;
    for (*n = 0; *n < capacity;) {
        MDS_TRY(next_byte(l, &c));
        if (c >= '0' && c <= '9') {
            MDS_TRY(add_digit(l, c - '0'));
            continue;
        }
        if (l->number >= 0)
            ids[(*n)++] = (int32_t)l->number;
        l->number = -1;
        if (c == '\n' || c < 0) {
            *at = c < 0 ? MDS_ID_LINES_END : MDS_ID_LINES_LINE;
            l->line++;
            break;
        }
        if (!memchr(" \t\r,[]", c, 6))
            return refuse_byte(l, c);
    }
    return MDS_OK;
}
