/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/make.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/progress.h"
#include "base/units.h"
#include "data/fasta.h"
#include "data/id_lines.h"
#include "data/record_file.h"
#include "data/token_file.h"
#include "io/reader.h"

#include <stdlib.h>
#include <sys/stat.h>

enum { BLOCK = 48 * 1024 }; /* bases at a time */

struct work {
    const struct mds_make *m;
    struct mds_token_file *file;
    const char *input;         /* the one being read */
    struct mds_reader *reader; /* of it */
    struct mds_record_file record;
    unsigned char *bases; /* [BLOCK] */
    int32_t *ids;         /* [BLOCK] */
    struct mds_make_stats stats;
    struct mds_progress progress;
};

static enum mds_tokenizer make_tokenizer(const struct work *w)
{
    return w->m->vocabulary.tokenizer;
}

static void log_progress(struct work *w)
{
    char bytes[32], tokens[32];

    if (!mds_progress_is_due(&w->progress))
        return;
    mds_info(
        "%s: %s read, %s tokens so far", mds_reader_name(w->reader),
        mds_format_bytes((double)mds_reader_raw_bytes(w->reader), bytes, sizeof bytes),
        mds_format_count((double)mds_token_file_tokens(w->file), tokens,
                         sizeof tokens));
}

static enum mds_rc add_ids(struct work *w, size_t n)
{
    int32_t unknown = mds_tokenizer_unknown(make_tokenizer(w));

    for (size_t i = 0; i < n; i++)
        w->stats.unknown += w->ids[i] == unknown;
    log_progress(w);
    return mds_token_file_add(w->file, w->ids, n);
}

/* The tokens of that many bases. */
static int64_t count_tokens(const struct work *w, int64_t bases)
{
    int64_t each = mds_tokenizer_bases(make_tokenizer(w));

    return bases < each ? 0
                        : (bases - each) / mds_tokenizer_stride(make_tokenizer(w)) + 1;
}

/* One document: the stored record on one strand, without its first `frame` bases and
 * without a last incomplete token. */
static enum mds_rc add_document(struct work *w, int reverse, int frame)
{
    enum mds_tokenizer t = make_tokenizer(w);
    int64_t stride = mds_tokenizer_stride(t), whole, n;

    whole = count_tokens(w, w->record.length - frame);
    for (int64_t done = 0; done < whole; done += n) {
        int64_t at = frame + done * stride, bases;

        n = mds_min(whole - done, count_tokens(w, BLOCK));
        bases = (n - 1) * stride + mds_tokenizer_bases(t);
        at = reverse ? w->record.length - at - bases : at;
        MDS_TRY(mds_record_file_read(&w->record, at, w->bases, (size_t)bases));
        if (reverse)
            mds_bases_reverse(w->bases, (size_t)bases);
        MDS_TRY(add_ids(w, mds_tokenizer_encode(t, w->bases, (size_t)bases, w->ids)));
    }
    return mds_token_file_end_document(w->file);
}

static enum mds_rc tokenize_record(struct work *w)
{
    const struct mds_reading *r = &w->m->reading;
    int documents = mds_reading_documents(r), frame, reverse;

    w->stats.records++;
    mds_reading_document(r, documents - 1, &frame, &reverse); /* the last frame */
    if (count_tokens(w, w->record.length - frame) == 0) {
        w->stats.skipped++;
        return MDS_OK;
    }
    for (int i = 0; i < documents; i++) {
        mds_reading_document(r, i, &frame, &reverse);
        MDS_TRY(add_document(w, reverse, frame));
    }
    return MDS_OK;
}

static enum mds_rc store_record(struct work *w, struct mds_fasta *fasta)
{
    size_t n;

    mds_record_file_clear(&w->record);
    for (;;) {
        MDS_TRY(mds_fasta_read(fasta, w->bases, BLOCK, &n));
        if (n == 0)
            return MDS_OK;
        log_progress(w);
        MDS_TRY(mds_record_file_append(&w->record, w->bases, n));
    }
}

static enum mds_rc tokenize_records(struct work *w, struct mds_fasta *fasta)
{
    int64_t before = w->stats.records;
    int found;

    for (;;) {
        MDS_TRY(mds_fasta_next(fasta, &found));
        if (!found)
            break;
        MDS_TRY(store_record(w, fasta));
        MDS_TRY(tokenize_record(w));
    }
    if (w->stats.records == before)
        return mds_fail(MDS_EUSER, "%s: no '>' line in it: is this a FASTA file?",
                        mds_reader_name(w->reader));
    return MDS_OK;
}

static enum mds_rc tokenize_fasta(struct work *w)
{
    struct mds_fasta *fasta;
    enum mds_rc rc;

    MDS_TRY(mds_fasta_create(w->reader, &fasta));
    rc = tokenize_records(w, fasta);
    mds_fasta_destroy(fasta);
    return rc;
}

static enum mds_rc tokenize_bytes(struct work *w)
{
    const unsigned char *block;
    size_t n;

    for (;;) {
        MDS_TRY(mds_reader_next(w->reader, &block, &n));
        if (n == 0)
            break;
        for (size_t done = 0; done < n;) {
            size_t take = n - done < BLOCK ? n - done : BLOCK;

            for (size_t i = 0; i < take; i++)
                w->ids[i] = block[done + i];
            MDS_TRY(add_ids(w, take));
            done += take;
        }
    }
    w->stats.records++;
    if (mds_reader_raw_bytes(w->reader) == 0) {
        w->stats.skipped++;
        return MDS_OK;
    }
    return mds_token_file_end_document(w->file);
}

static void count_empty_line(struct work *w, int64_t line)
{
    if (w->stats.empty++ > 0)
        return;
    w->stats.empty_line = line;
    w->stats.empty_input = w->input;
}

/* Add one line as a document; *more is 0 after the last one. */
static enum mds_rc add_id_line(struct work *w, struct mds_id_lines *lines, int *more)
{
    enum mds_id_lines_at at = MDS_ID_LINES_INSIDE;
    int32_t last = -1;
    size_t n;

    while (at == MDS_ID_LINES_INSIDE) {
        MDS_TRY(mds_id_lines_read(lines, w->ids, BLOCK, &n, &at));
        if (n == 0)
            continue;
        last = w->ids[n - 1];
        MDS_TRY(add_ids(w, n));
    }
    *more = at != MDS_ID_LINES_END;
    if (last < 0) {
        if (*more) /* nothing after the last line break is not a line */
            count_empty_line(w, lines->line - 1);
        return MDS_OK;
    }
    w->stats.records++;
    return last == w->m->vocabulary.eod ? mds_token_file_ended_document(w->file)
                                        : mds_token_file_end_document(w->file);
}

static enum mds_rc add_id_lines(struct work *w)
{
    struct mds_id_lines lines;
    int more = 1;

    mds_id_lines_init(&lines, w->reader, w->m->vocabulary.size);
    while (more)
        MDS_TRY(add_id_line(w, &lines, &more));
    return MDS_OK;
}

static enum mds_rc tokenize_reader(struct work *w)
{
    if (make_tokenizer(w) == MDS_TOKENIZER_IDS)
        return add_id_lines(w);
    return make_tokenizer(w) == MDS_TOKENIZER_BYTES ? tokenize_bytes(w)
                                                    : tokenize_fasta(w);
}

static enum mds_rc tokenize_input(struct work *w, const char *path)
{
    char sha256[65];
    enum mds_rc rc;

    w->input = path;
    MDS_TRY(mds_reader_open(path, &w->reader));
    rc = tokenize_reader(w);
    if (!rc) {
        mds_reader_sha256(w->reader, sha256);
        rc = mds_token_file_input(w->file, path, mds_reader_raw_bytes(w->reader),
                                  sha256);
    }
    mds_reader_close(w->reader);
    return rc;
}

/* The output must not replace an input. */
static enum mds_rc check_output(const struct mds_make *m)
{
    struct stat out, in;

    if (stat(m->output, &out))
        return MDS_OK;
    for (int i = 0; i < m->n_inputs; i++)
        if (stat(m->inputs[i], &in) == 0 && in.st_dev == out.st_dev &&
            in.st_ino == out.st_ino)
            return mds_fail(MDS_EUSER,
                            "%s: is an input and would be overwritten; give --output "
                            "another name",
                            m->output);
    return MDS_OK;
}

static enum mds_rc tokenize_inputs(struct work *w)
{
    for (int i = 0; i < w->m->n_inputs; i++)
        MDS_TRY(tokenize_input(w, w->m->inputs[i]));
    if (mds_token_file_documents(w->file) == 0)
        return mds_fail(MDS_EUSER,
                        "%s: nothing to write: no input has a single token (%s)",
                        w->m->output, mds_tokenizer_names[make_tokenizer(w)]);
    return MDS_OK;
}

static enum mds_rc finish_token_file(struct work *w)
{
    struct mds_str options = {0};
    enum mds_rc rc = MDS_EMEM;

    if (mds_tokenizer_bases(make_tokenizer(w)) > 0)
        mds_reading_write(&w->m->reading, make_tokenizer(w) == MDS_TOKENIZER_CODON,
                          &options);
    if (options.failed)
        mds_token_file_abandon(w->file);
    else
        rc = mds_token_file_finish(w->file, options.s ? options.s : "", w->m->command);
    mds_str_fini(&options);
    return rc;
}

enum mds_rc mds_make_tokens(const struct mds_make *m, struct mds_make_stats *out)
{
    struct work w = {.m = m, .record.fd = -1, .progress = mds_progress_begin()};
    enum mds_rc rc = MDS_EMEM;

    MDS_TRY(check_output(m));
    w.bases = mds_zalloc(BLOCK, 1);
    w.ids = mds_zalloc(BLOCK, sizeof *w.ids);
    if (!w.bases || !w.ids)
        goto free_buffers;
    rc = mds_token_file_create(m->output, &m->vocabulary, &w.file);
    if (rc)
        goto free_buffers;
    rc = mds_record_file_init(m->output, &w.record);
    if (!rc)
        rc = tokenize_inputs(&w);
    mds_record_file_fini(&w.record);
    if (rc) {
        mds_token_file_abandon(w.file);
        goto free_buffers;
    }
    w.stats.documents = mds_token_file_documents(w.file);
    w.stats.tokens = mds_token_file_tokens(w.file);
    rc = finish_token_file(&w);
    if (!rc)
        *out = w.stats;

free_buffers:
    free(w.ids);
    free(w.bases);
    return rc;
}
