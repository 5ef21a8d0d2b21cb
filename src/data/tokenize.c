/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/tokenize.h"

#include "base/minmax.h"
#include "data/tokenize_fasta.h"

#include <stdio.h>
#include <string.h>

/* ---- token ids as text ---- */

/* One document per line: decimal numbers separated by blanks, commas or brackets, so a
 * line may be a JSON list.  Empty lines are skipped. */
struct id_lines {
    struct mds_reader *reader; /* borrowed */
    const unsigned char *block;
    size_t pos, len;
    int64_t line;   /* from 1 */
    int64_t limit;  /* ids must be smaller */
    int64_t number; /* the digits read so far, or -1 between numbers */
};

/* Where a read stopped: inside a line, at its end, at the end of the input. */
enum stop { AT_INSIDE, AT_LINE, AT_END };

/* -1 at the end of the file. */
static enum mds_rc next_byte(struct id_lines *l, int *c)
{
    if (l->pos == l->len) {
        MDS_TRY(mds_reader_next(l->reader, &l->block, &l->len));
        l->pos = 0;
    }
    *c = l->len > 0 ? l->block[l->pos++] : -1;
    return MDS_OK;
}

static enum mds_rc add_digit(struct id_lines *l, int digit)
{
    l->number = (l->number < 0 ? 0 : l->number) * 10 + digit;
    if (l->number >= l->limit)
        return mds_fail(MDS_EUSER,
                        "%s:%lld: an id of %lld or more, but --vocab-size is %lld",
                        mds_reader_name(l->reader), (long long)l->line,
                        (long long)l->number, (long long)l->limit);
    return MDS_OK;
}

static enum mds_rc refuse_byte(const struct id_lines *l, int c)
{
    char shown[8];

    snprintf(shown, sizeof shown, c > ' ' && c <= '~' ? "'%c'" : "<%02x>", (unsigned)c);
    return mds_fail(
        MDS_EUSER,
        "%s:%lld: %s is not part of a token id: tokenize text first (docs/data.md)",
        mds_reader_name(l->reader), (long long)l->line, shown);
}

/* Read up to `capacity` ids of this line.  MDS_EUSER, with file and line, for anything
 * that is not an id. */
static enum mds_rc read_ids(struct id_lines *l, int32_t *ids, size_t capacity,
                            size_t *n, enum stop *at)
{
    int c;

    *at = AT_INSIDE;
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
            *at = c < 0 ? AT_END : AT_LINE;
            l->line++;
            break;
        }
        if (!memchr(" \t\r,[]", c, 6))
            return refuse_byte(l, c);
    }
    return MDS_OK;
}

/* ---- bytes ---- */

static enum mds_rc tokenize_bytes(struct mds_make_input *t)
{
    const unsigned char *block;
    size_t n;

    for (;;) {
        MDS_TRY(mds_reader_next(t->reader, &block, &n));
        if (n == 0)
            break;
        for (size_t done = 0; done < n;) {
            size_t take = mds_min(n - done, (size_t)MDS_MAKE_BLOCK);

            for (size_t i = 0; i < take; i++)
                t->ids[i] = block[done + i];
            MDS_TRY(mds_make_input_add(t, t->ids, NULL, take));
            done += take;
        }
    }
    t->stats.records++;
    if (mds_reader_raw_bytes(t->reader) == 0) {
        t->stats.skipped++;
        return MDS_OK;
    }
    return mds_make_input_end_document(t);
}

/* ---- lines of ids ---- */

static void count_empty_line(struct mds_make_input *t, int64_t line)
{
    if (t->stats.empty++ > 0)
        return;
    t->stats.empty_line = line;
    t->stats.empty_input = t->input;
}

/* Add one line as a document; *more is 0 after the last one. */
static enum mds_rc add_id_line(struct mds_make_input *t, struct id_lines *lines,
                               int *more)
{
    enum stop at = AT_INSIDE;
    int32_t last = -1;
    size_t n;

    while (at == AT_INSIDE) {
        MDS_TRY(read_ids(lines, t->ids, MDS_MAKE_BLOCK, &n, &at));
        if (n == 0)
            continue;
        last = t->ids[n - 1];
        MDS_TRY(mds_make_input_add(t, t->ids, NULL, n));
    }
    *more = at != AT_END;
    if (last < 0) {
        if (*more) /* nothing after the last line break is not a line */
            count_empty_line(t, lines->line - 1);
        return MDS_OK;
    }
    t->stats.records++;
    return last == t->m->vocabulary.eod ? t->sink.end_document(t->sink.to)
                                        : mds_make_input_end_document(t);
}

static enum mds_rc add_id_lines(struct mds_make_input *t)
{
    struct id_lines lines = {
        .reader = t->reader, .line = 1, .limit = t->m->vocabulary.size, .number = -1};
    int more = 1;

    while (more)
        MDS_TRY(add_id_line(t, &lines, &more));
    return MDS_OK;
}

/* ---- any input ---- */

static enum mds_rc tokenize_reader(struct mds_make_input *t)
{
    switch (t->m->vocabulary.tokenizer) {
    case MDS_TOKENIZER_IDS:
        return add_id_lines(t);
    case MDS_TOKENIZER_BYTES:
        return tokenize_bytes(t);
    default:
        return mds_tokenize_fasta(t);
    }
}

enum mds_rc mds_tokenize_input(struct mds_make_input *t, const char *path,
                               int64_t *raw_bytes, char sha256[65])
{
    enum mds_rc rc;

    t->input = path;
    t->told = 0;
    MDS_TRY(mds_reader_open(path, &t->reader));
    rc = tokenize_reader(t);
    mds_reader_sha256(t->reader, sha256);
    *raw_bytes = mds_reader_raw_bytes(t->reader);
    mds_reader_close(t->reader);
    return rc;
}
