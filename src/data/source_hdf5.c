/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/source.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/progress.h"
#include "base/units.h"
#include "data/token_file.h"
#include "data/tokenizer.h"
#include "io/h5.h"

#include <stdlib.h>
#include <string.h>

struct hdf5_source {
    struct mds_source base;
    struct mds_h5 *h5;
    struct mds_h5_dataset *tokens, *documents;
    int64_t version; /* of the format */
};

static enum mds_rc hdf5_read_ids(struct mds_source *s, int64_t first, int64_t count,
                                 int32_t *ids)
{
    struct hdf5_source *h = (struct hdf5_source *)s;

    MDS_TRY(mds_h5_dataset_read_i32(h->tokens, first, count, ids));
    return mds_h5_check_size(h->h5);
}

static enum mds_rc hdf5_read_stored_id(struct mds_source *s, int64_t token, int64_t *id)
{
    struct hdf5_source *h = (struct hdf5_source *)s;

    return mds_h5_dataset_read_i64(h->tokens, token, 1, id);
}

static enum mds_rc hdf5_read_starts(struct mds_source *s, int64_t first, int64_t count,
                                    int64_t *starts)
{
    struct hdf5_source *h = (struct hdf5_source *)s;

    return mds_h5_dataset_read_i64(h->documents, first, count, starts);
}

static enum mds_rc add_attribute(struct hdf5_source *h, const char *name,
                                 struct mds_str *out)
{
    char *value;

    if (!mds_h5_has(h->h5, name))
        return MDS_OK;
    MDS_TRY(mds_h5_get_string(h->h5, name, &value));
    if (*value)
        mds_str_add(out, "%-12s %s\n", name, value);
    free(value);
    return MDS_OK;
}

static enum mds_rc hdf5_read_inputs(struct mds_source *s, char ***paths, char ***sums,
                                    int64_t *n)
{
    struct hdf5_source *h = (struct hdf5_source *)s;
    int64_t n_sums = 0;
    enum mds_rc rc;

    MDS_TRY(mds_h5_get_strings(h->h5, "/inputs/path", paths, n));
    rc = mds_h5_get_strings(h->h5, "/inputs/sha256", sums, &n_sums);
    if (!rc && n_sums == *n)
        return MDS_OK;
    if (!rc) {
        mds_h5_free_strings(*sums, n_sums);
        rc = mds_fail(MDS_EUSER, "%s: /inputs lists differ in length", s->path);
    }
    mds_h5_free_strings(*paths, *n);
    return rc;
}

/* "input  PATH (N bytes, sha256 HEX)", one line each */
static enum mds_rc add_inputs_provenance(struct hdf5_source *h, struct mds_str *out)
{
    char **paths, **sums;
    struct mds_h5_dataset *sizes = NULL;
    int64_t n, size;
    enum mds_rc rc;

    MDS_TRY(hdf5_read_inputs(&h->base, &paths, &sums, &n));
    rc = mds_h5_dataset_open(h->h5, "/inputs/bytes", &sizes);
    if (!rc && mds_h5_dataset_length(sizes) != n)
        rc = mds_fail(MDS_EUSER, "%s: /inputs lists differ in length", h->base.path);
    for (int64_t i = 0; i < n && !rc; i++) {
        rc = mds_h5_dataset_read_i64(sizes, i, 1, &size);
        mds_str_add(out, "%-12s %s (%lld bytes, sha256 %s)\n", "input", paths[i],
                    (long long)size, sums[i]);
    }
    (void)mds_h5_dataset_close(sizes);
    mds_h5_free_strings(sums, n);
    mds_h5_free_strings(paths, n);
    return rc;
}

static enum mds_rc add_provenance(struct mds_source *s, struct mds_str *out)
{
    struct hdf5_source *h = (struct hdf5_source *)s;

    MDS_TRY(add_attribute(h, "options", out));
    MDS_TRY(add_attribute(h, "command", out));
    MDS_TRY(add_attribute(h, "created", out));
    MDS_TRY(add_attribute(h, "program", out));
    return add_inputs_provenance(h, out);
}

static void close_hdf5(struct mds_source *s)
{
    struct hdf5_source *h = (struct hdf5_source *)s;

    (void)mds_h5_dataset_close(h->tokens);
    (void)mds_h5_dataset_close(h->documents);
    (void)mds_h5_close(h->h5);
}

static const struct mds_source_ops hdf5_ops = {
    .name = "HDF5",
    .read = hdf5_read_ids,
    .stored = hdf5_read_stored_id,
    .starts = hdf5_read_starts,
    .inputs = hdf5_read_inputs,
    .provenance = add_provenance,
    .close = close_hdf5,
};

static enum mds_rc check_format(struct hdf5_source *h)
{
    char *format;
    int ours;

    if (!mds_h5_has(h->h5, "format"))
        return mds_fail(MDS_EUSER,
                        "%s: HDF5, but not a token file (no attribute 'format'): make "
                        "one with mds_data make",
                        h->base.path);
    MDS_TRY(mds_h5_get_string(h->h5, "format", &format));
    ours = strcmp(format, MDS_TOKEN_FORMAT) == 0;
    free(format);
    if (!ours)
        return mds_fail(MDS_EUSER, "%s: not a token file: make one with mds_data make",
                        h->base.path);
    MDS_TRY(mds_h5_get_int(h->h5, "format_version", &h->version));
    if (h->version < MDS_TOKEN_FORMAT_PLAIN || h->version > MDS_TOKEN_FORMAT_KINDS)
        return mds_fail(
            MDS_EUSER,
            "%s: token file of version %lld, this program reads versions %d and %d: "
            "make it again with mds_data make",
            h->base.path, (long long)h->version, MDS_TOKEN_FORMAT_PLAIN,
            MDS_TOKEN_FORMAT_KINDS);
    return MDS_OK;
}

static enum mds_rc read_vocabulary(struct hdf5_source *h)
{
    struct mds_source *s = &h->base;

    MDS_TRY(mds_h5_get_string(h->h5, "tokenizer", &s->tokenizer));
    MDS_TRY(mds_h5_get_int(h->h5, "vocab_size", &s->vocab));
    MDS_TRY(mds_h5_get_int(h->h5, "eod", &s->eod));
    if (s->vocab < 1 || s->vocab > MDS_VOCAB_MAX)
        return mds_fail(MDS_EUSER,
                        "%s: invalid vocab_size %lld: make it again with mds_data "
                        "make",
                        s->path, (long long)s->vocab);
    if (s->eod < 0 || s->eod >= s->vocab)
        return mds_fail(MDS_EUSER,
                        "%s: eod is %lld, outside the vocabulary of %lld words: make "
                        "it again with mds_data make",
                        s->path, (long long)s->eod, (long long)s->vocab);
    if (strcmp(s->tokenizer, mds_tokenizer_names[MDS_TOKENIZER_IDS]) == 0)
        return MDS_OK;
    MDS_TRY(mds_h5_get_strings(h->h5, "/vocab", &s->words, &s->n_words));
    if (s->n_words != s->vocab)
        return mds_fail(MDS_EUSER,
                        "%s: vocab_size is %lld, but /vocab has %lld words: make it "
                        "again with mds_data make",
                        s->path, (long long)s->vocab, (long long)s->n_words);
    return MDS_OK;
}

static enum mds_rc read_frames_and_strands(struct hdf5_source *h)
{
    struct mds_source *s = &h->base;
    enum mds_tokenizer t = mds_tokenizer_find(s->tokenizer);
    char *options = NULL;

    s->is_genome = mds_tokenizer_bases(t) > 0;
    s->token_bases = s->is_genome ? mds_tokenizer_bases(t) : 1;
    s->token_stride = s->is_genome ? mds_tokenizer_stride(t) : 1;
    if (mds_h5_has(h->h5, "options"))
        MDS_TRY(mds_h5_get_string(h->h5, "options", &options));
    s->reading = mds_reading_read(options ? options : "");
    s->is_cut = options && strncmp(options, MDS_READING_FEATURES,
                                   strlen(MDS_READING_FEATURES)) == 0;
    free(options);
    return MDS_OK;
}

static void log_check_progress(const struct mds_source *s, int64_t done)
{
    char so_far[32], all[32];

    mds_info("%s: %s of %s documents checked", s->path,
             mds_format_count((double)done, so_far, sizeof so_far),
             mds_format_count((double)s->documents, all, sizeof all));
}

static enum mds_rc fail_bad_start(const struct mds_source *s, int64_t document,
                                  int64_t start, int64_t before)
{
    if (document == 0)
        return mds_fail(MDS_EUSER,
                        "%s: /documents begins with %lld, not with 0: make it again "
                        "with mds_data make",
                        s->path, (long long)start);
    return mds_fail(MDS_EUSER,
                    "%s: /documents is not increasing: entry %lld is %lld, the one "
                    "before it %lld: make it again with mds_data make",
                    s->path, (long long)document, (long long)start, (long long)before);
}

/* /documents must begin at 0, rise, and end at the number of tokens. */
static enum mds_rc check_documents(struct hdf5_source *h)
{
    enum { BLOCK = 8192 };
    struct mds_source *s = &h->base;
    struct mds_progress progress = mds_progress_begin();
    int64_t starts[BLOCK], before = -1;

    for (int64_t first = 0; first <= s->documents; first += BLOCK) {
        int64_t n = mds_min(s->documents + 1 - first, BLOCK);

        if (mds_progress_is_due(&progress))
            log_check_progress(s, first);
        MDS_TRY(mds_h5_dataset_read_i64(h->documents, first, n, starts));
        for (int64_t i = 0; i < n; i++) {
            if (starts[i] <= before || (before < 0 && starts[i] != 0))
                return fail_bad_start(s, first + i, starts[i], before);
            before = starts[i];
        }
    }
    if (before != s->tokens)
        return mds_fail(MDS_EUSER,
                        "%s: /documents ends at %lld, but /tokens has %lld: make it "
                        "again with mds_data make",
                        s->path, (long long)before, (long long)s->tokens);
    return MDS_OK;
}

static enum mds_rc open_datasets(struct hdf5_source *h)
{
    struct mds_source *s = &h->base;

    MDS_TRY(mds_h5_dataset_open(h->h5, "/tokens", &h->tokens));
    MDS_TRY(mds_h5_dataset_open(h->h5, "/documents", &h->documents));
    s->tokens = mds_h5_dataset_length(h->tokens);
    s->documents = mds_h5_dataset_length(h->documents) - 1;
    if (s->documents < 0)
        return mds_fail(MDS_EUSER, "%s: /documents is empty", s->path);
    MDS_TRY(check_documents(h));
    return h->version == MDS_TOKEN_FORMAT_KINDS
               ? mds_kinds_open(h->h5, s->path, s->tokens, &s->kinds)
               : MDS_OK;
}

enum mds_rc mds_source_open_hdf5(const char *path, struct mds_source **out)
{
    struct hdf5_source *h = mds_zalloc(1, sizeof *h);
    enum mds_rc rc;

    if (!h)
        return MDS_EMEM;
    h->base.ops = &hdf5_ops;
    h->base.path = mds_strdup(path);
    rc = h->base.path ? mds_h5_open(path, "mds_data make", &h->h5) : MDS_EMEM;
    if (!rc)
        rc = check_format(h);
    if (!rc)
        rc = read_vocabulary(h);
    if (!rc)
        rc = read_frames_and_strands(h);
    if (!rc)
        rc = open_datasets(h);
    if (rc) {
        mds_source_close(&h->base);
        return rc;
    }
    *out = &h->base;
    return MDS_OK;
}
