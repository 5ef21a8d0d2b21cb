/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/make.h"

#include "base/log.h"
#include "base/progress.h"
#include "base/units.h"
#include "data/token_file.h"
#include "data/tokenize.h"
#include "io/reader.h"

#include <sys/stat.h>

/* The output, and what the inputs give for it. */
struct work {
    const struct mds_make *m;
    struct mds_token_file *file;
    struct mds_make_kinds kinds;
    int has_kinds; /* the file has been given them */
    struct mds_progress progress;
};

/* ---- into the token file ---- */

static enum mds_rc set_kinds(struct work *w)
{
    w->has_kinds = 1;
    return mds_token_file_set_kinds(w->file, w->kinds.kind, w->kinds.n);
}

static int any_but_first(const unsigned char *kinds, size_t n)
{
    unsigned char any = 0;

    for (size_t i = 0; kinds && i < n; i++)
        any |= kinds[i];
    return any != 0;
}

/* A file whose tokens are all alike has no kinds. */
static enum mds_rc add_tokens(void *to, const int32_t *ids, const unsigned char *kinds,
                              size_t n)
{
    struct work *w = to;

    if (!w->has_kinds && any_but_first(kinds, n))
        MDS_TRY(set_kinds(w));
    return kinds && w->has_kinds ? mds_token_file_add_kinds(w->file, ids, kinds, n)
                                 : mds_token_file_add(w->file, ids, n);
}

static enum mds_rc end_document(void *to)
{
    struct work *w = to;

    return mds_token_file_ended_document(w->file);
}

static void log_progress(void *to, const struct mds_reader *r)
{
    struct work *w = to;
    char bytes[32], tokens[32];

    if (!mds_progress_is_due(&w->progress))
        return;
    mds_info("%s: %s read, %s tokens so far", mds_reader_name(r),
             mds_format_bytes((double)mds_reader_raw_bytes(r), bytes, sizeof bytes),
             mds_format_count((double)mds_token_file_tokens(w->file), tokens,
                              sizeof tokens));
}

/* ---- the inputs ---- */

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

static enum mds_rc tokenize_all(struct work *w, struct mds_make_input *t)
{
    int64_t bytes;
    char sha256[65];

    for (int i = 0; i < w->m->n_inputs; i++) {
        MDS_TRY(mds_tokenize_input(t, w->m->inputs[i], &bytes, sha256));
        MDS_TRY(mds_token_file_input(w->file, w->m->inputs[i], bytes, sha256));
    }
    if (mds_token_file_documents(w->file) == 0)
        return mds_fail(MDS_EUSER,
                        "%s: nothing to write: no input has a single token (%s)",
                        w->m->output, mds_tokenizer_names[w->m->vocabulary.tokenizer]);
    return MDS_OK;
}

static enum mds_rc tokenize_inputs(struct work *w, struct mds_make_stats *stats)
{
    struct mds_token_sink sink = {w, add_tokens, end_document, log_progress};
    struct mds_make_input t;
    enum mds_rc rc;

    mds_make_kinds_init(w->m, &w->kinds);
    if (w->m->kind)
        MDS_TRY(set_kinds(w));
    MDS_TRY(mds_make_input_init(w->m, sink, &t));
    rc = tokenize_all(w, &t);
    *stats = t.stats;
    mds_make_input_fini(&t);
    return rc;
}

static enum mds_rc finish_token_file(struct work *w)
{
    enum mds_tokenizer t = w->m->vocabulary.tokenizer;
    struct mds_str options = {0};
    enum mds_rc rc = MDS_EMEM;

    if (mds_tokenizer_bases(t) > 0)
        mds_reading_write(&w->m->reading, t == MDS_TOKENIZER_CODON, &options);
    if (options.failed)
        mds_token_file_abandon(w->file);
    else
        rc = mds_token_file_finish(w->file, options.s ? options.s : "", w->m->command);
    mds_str_fini(&options);
    return rc;
}

enum mds_rc mds_make_tokens(const struct mds_make *m, struct mds_make_stats *out)
{
    struct work w = {.m = m, .progress = mds_progress_begin()};
    struct mds_make_stats stats;
    enum mds_rc rc;

    MDS_TRY(check_output(m));
    MDS_TRY(mds_token_file_create(m->output, &m->vocabulary, &w.file));
    rc = tokenize_inputs(&w, &stats);
    if (rc) {
        mds_token_file_abandon(w.file);
        return rc;
    }
    stats.documents = mds_token_file_documents(w.file);
    stats.tokens = mds_token_file_tokens(w.file);
    MDS_TRY(finish_token_file(&w));
    *out = stats;
    return MDS_OK;
}
