/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/tokenize.h"

#include "base/minmax.h"
#include "data/id_lines.h"
#include "data/tokenize_fasta.h"

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
static enum mds_rc add_id_line(struct mds_make_input *t, struct mds_id_lines *lines,
                               int *more)
{
    enum mds_id_lines_at at = MDS_ID_LINES_INSIDE;
    int32_t last = -1;
    size_t n;

    while (at == MDS_ID_LINES_INSIDE) {
        MDS_TRY(mds_id_lines_read(lines, t->ids, MDS_MAKE_BLOCK, &n, &at));
        if (n == 0)
            continue;
        last = t->ids[n - 1];
        MDS_TRY(mds_make_input_add(t, t->ids, NULL, n));
    }
    *more = at != MDS_ID_LINES_END;
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
    struct mds_id_lines lines;
    int more = 1;

    mds_id_lines_init(&lines, t->reader, t->m->vocabulary.size);
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
