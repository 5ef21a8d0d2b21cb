/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/token_file.h"

#include "base/alloc.h"
#include "base/minmax.h"
#include "config.h"
#include "io/h5.h"
#include "io/output.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Buffers of whole HDF5 chunks, so that each chunk is written once. */
enum { BUFFERED = 65536, DOCUMENTS_BUFFERED = 8192 };

struct input {
    char *path, sha256[65];
    int64_t bytes;
};

struct mds_token_file {
    struct mds_vocabulary vocabulary;
    struct mds_output output;
    struct mds_h5 *h5;
    struct mds_h5_dataset *tokens, *documents, *kinds; /* kinds: NULL without */
    enum mds_h5_type type;                             /* of ids as stored */
    unsigned char *buffer;                             /* [BUFFERED] ids as stored */
    unsigned char *kinds_here; /* [BUFFERED] of these tokens; NULL without kinds */
    int n_kinds;
    size_t buffered;
    int64_t starts[DOCUMENTS_BUFFERED];
    size_t starts_buffered;
    int64_t token_count, document_count;
    struct input *inputs;
    size_t n_inputs;
};

static enum mds_rc create_datasets(struct mds_token_file *f)
{
    MDS_TRY(mds_h5_create(f->output.partial, f->output.path, &f->h5));
    MDS_TRY(mds_h5_dataset_create(f->h5, "/tokens", f->type, &f->tokens));
    return mds_h5_dataset_create(f->h5, "/documents", MDS_H5_I64, &f->documents);
}

enum mds_rc mds_token_file_create(const char *path, const struct mds_vocabulary *v,
                                  struct mds_token_file **out)
{
    struct mds_token_file *f = mds_zalloc(1, sizeof *f);
    enum mds_rc rc;

    if (!f)
        return MDS_EMEM;
    f->vocabulary = *v;
    f->type = v->size <= 256 ? MDS_H5_U8 : v->size <= 65536 ? MDS_H5_U16 : MDS_H5_I32;
    f->buffer = mds_zalloc(BUFFERED, sizeof(int32_t));
    f->starts_buffered = 1; /* the first document starts at 0 */
    rc = f->buffer ? mds_output_open(path, &f->output) : MDS_EMEM;
    if (!rc)
        rc = create_datasets(f);
    if (rc) {
        mds_token_file_abandon(f);
        return rc;
    }
    *out = f;
    return MDS_OK;
}

/* Kind 0 for the tokens that are in the file already. */
static enum mds_rc append_first_kinds(struct mds_token_file *f)
{
    int64_t n = f->token_count - (int64_t)f->buffered;

    for (int64_t done = 0; done < n; done += BUFFERED)
        MDS_TRY(mds_h5_dataset_append(f->kinds, f->kinds_here,
                                      mds_min(n - done, BUFFERED)));
    return MDS_OK;
}

enum mds_rc mds_token_file_set_kinds(struct mds_token_file *f,
                                     const struct mds_kind *kinds, int n)
{
    if (f->kinds)
        return mds_fail(MDS_EBUG, "%s: kinds of tokens twice", f->output.path);
    f->kinds_here = mds_zalloc(BUFFERED, 1);
    if (!f->kinds_here)
        return MDS_EMEM;
    MDS_TRY(mds_kinds_write(f->h5, f->output.path, kinds, n));
    f->n_kinds = n;
    MDS_TRY(mds_h5_dataset_create(f->h5, "/kinds/of_token", MDS_H5_U8, &f->kinds));
    return append_first_kinds(f);
}

static enum mds_rc flush_tokens(struct mds_token_file *f)
{
    MDS_TRY(mds_h5_dataset_append(f->tokens, f->buffer, (int64_t)f->buffered));
    if (f->kinds)
        MDS_TRY(mds_h5_dataset_append(f->kinds, f->kinds_here, (int64_t)f->buffered));
    f->buffered = 0;
    return MDS_OK;
}

static enum mds_rc flush_documents(struct mds_token_file *f)
{
    MDS_TRY(
        mds_h5_dataset_append(f->documents, f->starts, (int64_t)f->starts_buffered));
    f->starts_buffered = 0;
    return MDS_OK;
}

/* Append ids[n] to the buffer, in the stored type, and kinds[n] (NULL: 0). */
static void append_to_buffer(struct mds_token_file *f, const int32_t *ids,
                             const unsigned char *kinds, size_t n)
{
    unsigned char *bytes = f->buffer + f->buffered;
    uint16_t *words = (uint16_t *)f->buffer + f->buffered;

    if (f->type == MDS_H5_I32)
        memcpy((int32_t *)f->buffer + f->buffered, ids, n * sizeof *ids);
    else if (f->type == MDS_H5_U16)
        for (size_t i = 0; i < n; i++)
            words[i] = (uint16_t)ids[i];
    else
        for (size_t i = 0; i < n; i++)
            bytes[i] = (unsigned char)ids[i];
    for (size_t i = 0; f->kinds && i < n; i++)
        f->kinds_here[f->buffered + i] = kinds ? kinds[i] : 0;
    f->buffered += n;
}

static enum mds_rc check_kinds(const struct mds_token_file *f,
                               const unsigned char *kinds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (kinds[i] >= f->n_kinds)
            return mds_fail(MDS_EBUG, "%s: a token of kind %d of %d", f->output.path,
                            kinds[i], f->n_kinds);
    return MDS_OK;
}

static enum mds_rc add_tokens(struct mds_token_file *f, const int32_t *ids,
                              const unsigned char *kinds, size_t n)
{
    f->token_count += (int64_t)n;
    while (n > 0) {
        size_t take = BUFFERED - f->buffered < n ? BUFFERED - f->buffered : n;

        append_to_buffer(f, ids, kinds, take);
        ids += take;
        kinds = kinds ? kinds + take : NULL;
        n -= take;
        if (f->buffered == BUFFERED)
            MDS_TRY(flush_tokens(f));
    }
    return MDS_OK;
}

enum mds_rc mds_token_file_add(struct mds_token_file *f, const int32_t *ids, size_t n)
{
    return add_tokens(f, ids, NULL, n);
}

enum mds_rc mds_token_file_add_kinds(struct mds_token_file *f, const int32_t *ids,
                                     const unsigned char *kinds, size_t n)
{
    MDS_TRY(check_kinds(f, kinds, n));
    return add_tokens(f, ids, kinds, n);
}

enum mds_rc mds_token_file_ended_document(struct mds_token_file *f)
{
    f->document_count++;
    if (f->starts_buffered == DOCUMENTS_BUFFERED)
        MDS_TRY(flush_documents(f));
    f->starts[f->starts_buffered++] = f->token_count;
    return MDS_OK;
}

enum mds_rc mds_token_file_input(struct mds_token_file *f, const char *path,
                                 int64_t bytes, const char *sha256)
{
    struct input *in;

    MDS_TRY(mds_grow(&f->inputs, f->n_inputs, sizeof *f->inputs));
    in = &f->inputs[f->n_inputs];
    in->path = mds_strdup(path);
    if (!in->path)
        return MDS_EMEM;
    in->bytes = bytes;
    memcpy(in->sha256, sha256, 64);
    in->sha256[64] = '\0';
    f->n_inputs++;
    return MDS_OK;
}

int64_t mds_token_file_tokens(const struct mds_token_file *f)
{
    return f->token_count;
}

int64_t mds_token_file_documents(const struct mds_token_file *f)
{
    return f->document_count;
}

static enum mds_rc write_vocabulary(struct mds_token_file *f)
{
    int64_t n = f->vocabulary.size;
    char(*words)[8] = mds_zalloc((size_t)n, sizeof *words);
    const char **list = mds_zalloc((size_t)n, sizeof *list);
    enum mds_rc rc = MDS_EMEM;

    if (words && list) {
        for (int64_t i = 0; i < n; i++)
            list[i] = mds_tokenizer_word(f->vocabulary.tokenizer, (int32_t)i, words[i]);
        rc = mds_h5_put_strings(f->h5, "/vocab", list, n);
    }
    free(list);
    free(words);
    return rc;
}

static enum mds_rc write_input_sizes(struct mds_token_file *f)
{
    struct mds_h5_dataset *set;
    enum mds_rc rc = MDS_OK, closed;

    MDS_TRY(mds_h5_dataset_create(f->h5, "/inputs/bytes", MDS_H5_I64, &set));
    for (size_t i = 0; i < f->n_inputs && !rc; i++)
        rc = mds_h5_dataset_append(set, &f->inputs[i].bytes, 1);
    closed = mds_h5_dataset_close(set);
    return rc ? rc : closed;
}

static enum mds_rc write_inputs(struct mds_token_file *f)
{
    const char **list = mds_zalloc(f->n_inputs, sizeof *list);
    enum mds_rc rc;

    if (!list)
        return MDS_EMEM;
    for (size_t i = 0; i < f->n_inputs; i++)
        list[i] = f->inputs[i].path;
    rc = mds_h5_put_strings(f->h5, "/inputs/path", list, (int64_t)f->n_inputs);
    for (size_t i = 0; i < f->n_inputs; i++)
        list[i] = f->inputs[i].sha256;
    if (!rc)
        rc = mds_h5_put_strings(f->h5, "/inputs/sha256", list, (int64_t)f->n_inputs);
    free(list);
    return rc ? rc : write_input_sizes(f);
}

static enum mds_rc write_attributes(struct mds_token_file *f, const char *options,
                                    const char *command)
{
    time_t now = time(NULL);
    struct tm utc;
    char created[32];

    gmtime_r(&now, &utc);
    strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", &utc);
    MDS_TRY(mds_h5_put_string(f->h5, "format", MDS_TOKEN_FORMAT));
    MDS_TRY(mds_h5_put_int(f->h5, "format_version",
                           f->kinds ? MDS_TOKEN_FORMAT_KINDS : MDS_TOKEN_FORMAT_PLAIN));
    MDS_TRY(mds_h5_put_string(f->h5, "tokenizer",
                              mds_tokenizer_names[f->vocabulary.tokenizer]));
    MDS_TRY(mds_h5_put_int(f->h5, "vocab_size", f->vocabulary.size));
    MDS_TRY(mds_h5_put_int(f->h5, "eod", f->vocabulary.eod));
    MDS_TRY(mds_h5_put_string(f->h5, "options", options));
    MDS_TRY(mds_h5_put_string(f->h5, "command", command));
    MDS_TRY(mds_h5_put_string(f->h5, "created", created));
    return mds_h5_put_string(f->h5, "program", PACKAGE_STRING);
}

/* Close the HDF5 file, which writes the last data. */
static enum mds_rc close_hdf5_file(struct mds_token_file *f)
{
    enum mds_rc tokens = mds_h5_dataset_close(f->tokens);
    enum mds_rc documents = mds_h5_dataset_close(f->documents);
    enum mds_rc kinds = mds_h5_dataset_close(f->kinds);
    enum mds_rc file = mds_h5_close(f->h5);

    f->tokens = f->documents = f->kinds = NULL;
    f->h5 = NULL;
    return tokens ? tokens : documents ? documents : kinds ? kinds : file;
}

enum mds_rc mds_token_file_finish(struct mds_token_file *f, const char *options,
                                  const char *command)
{
    enum mds_rc rc = flush_tokens(f);

    if (!rc)
        rc = flush_documents(f);
    if (!rc && f->vocabulary.tokenizer != MDS_TOKENIZER_IDS)
        rc = write_vocabulary(f);
    if (!rc)
        rc = write_inputs(f);
    if (!rc)
        rc = write_attributes(f, options, command);
    if (!rc)
        rc = close_hdf5_file(f);
    if (!rc)
        rc = mds_output_commit(&f->output);
    mds_token_file_abandon(f);
    return rc;
}

void mds_token_file_abandon(struct mds_token_file *f)
{
    if (!f)
        return;
    close_hdf5_file(f);
    mds_output_abandon(&f->output);
    for (size_t i = 0; i < f->n_inputs; i++)
        free(f->inputs[i].path);
    free(f->inputs);
    free(f->kinds_here);
    free(f->buffer);
    free(f);
}
