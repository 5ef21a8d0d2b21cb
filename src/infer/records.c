/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/records.h"
#include "base/alloc.h"
#include "base/minmax.h"
#include "config/tree.h"
#include "data/fasta.h"
#include "data/source.h"
#include "infer/lines.h"
#include "infer/regions.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mds_infer_records {
    struct mds_vocabulary vocabulary;
    char *path;
    int64_t number; /* of the current record, from 1 */
    char text[32];  /* that, as its name */
    /* one of them */
    struct mds_source *source;
    struct mds_reader *reader;
    struct mds_fasta *fasta; /* of reader; or that has lines of JSON: */
    struct mds_infer_lines lines;
    struct mds_tree *json; /* of the current line */
    struct mds_infer_regions *regions;
    struct mds_infer_region region; /* the current one */
    /* the current record */
    unsigned char *bases;
    int64_t n_bases, base_room;
    int32_t *ids;
    int64_t n, id_room;
    const char *name;
};

/* ---- opening ---- */

/* What a text begins with, behind blanks; -1 if it is empty. */
static enum mds_rc first_byte(const char *path, int *out)
{
    struct mds_reader *r;
    const unsigned char *block;
    size_t n, i = 0;
    enum mds_rc rc;

    *out = -1;
    MDS_TRY(mds_reader_open(path, &r));
    rc = mds_reader_next(r, &block, &n);
    while (!rc && i < n && strchr(" \t\r\n", block[i]))
        i++;
    if (!rc && i < n)
        *out = block[i];
    mds_reader_close(r);
    return rc;
}

static int has_bases(const struct mds_infer_records *r)
{
    return mds_tokenizer_bases(r->vocabulary.tokenizer) > 0;
}

/* The tokenizer of a token file is the model's, as far as both are known. */
static enum mds_rc open_source(struct mds_infer_records *r)
{
    const char *own = mds_tokenizer_names[r->vocabulary.tokenizer], *its;

    MDS_TRY(mds_source_open(r->path, &r->source));
    its = r->source->tokenizer;
    if (its && strcmp(its, own) != 0)
        return mds_fail(MDS_EUSER,
                        "%s: is of tokenizer %s, and the model was trained on tokens "
                        "of %s; make it again with mds_data make --tokenizer %s",
                        r->path, its, own, own);
    if (!r->source->vocab_seen && r->source->vocab > r->vocabulary.size)
        return mds_fail(MDS_EUSER,
                        "%s: has a vocabulary of %" PRId64
                        " words, and the model one of %" PRId64
                        ": it was made with another tokenizer",
                        r->path, r->source->vocab, r->vocabulary.size);
    return MDS_OK;
}

static enum mds_rc refuse_text(const struct mds_infer_records *r)
{
    return mds_fail(MDS_EUSER,
                    "%s: the model's tokenizer (%s) does not read text; give a token "
                    "file, which mds_data makes, or --tokenizer, if you know which of "
                    "mds_data's it is",
                    r->path, mds_tokenizer_names[r->vocabulary.tokenizer]);
}

static enum mds_rc open_text(struct mds_infer_records *r, int first)
{
    if (r->vocabulary.tokenizer == MDS_TOKENIZER_IDS)
        return refuse_text(r);
    if (first < 0)
        return mds_fail(MDS_EUSER, "%s: is empty: there is nothing to read", r->path);
    MDS_TRY(mds_reader_open(r->path, &r->reader));
    r->lines.reader = r->reader;
    if (first == '{')
        return MDS_OK;
    if (!has_bases(r))
        return mds_fail(MDS_EUSER,
                        "%s: for tokenizer bytes give lines of JSON, "
                        "{\"text\": \"...\"}, or a token file",
                        r->path);
    return mds_fasta_create(r->reader, &r->fasta);
}

static enum mds_rc open_regions(struct mds_infer_records *r,
                                const struct mds_infer_inputs *inputs)
{
    if (!has_bases(r))
        return refuse_text(r);
    return mds_infer_regions_open(r->path, inputs->fasta, inputs->feature, &r->regions);
}

static enum mds_rc open_input(struct mds_infer_records *r)
{
    static const unsigned char hdf5 = 0x89;
    int first = '>';

    if (mds_source_is_megatron(r->path))
        return open_source(r);
    if (strcmp(r->path, "-") != 0)
        MDS_TRY(first_byte(r->path, &first));
    return first == hdf5 ? open_source(r) : open_text(r, first);
}

enum mds_rc mds_infer_records_open(const struct mds_infer_inputs *inputs, size_t i,
                                   const struct mds_vocabulary *v,
                                   struct mds_infer_records **out)
{
    struct mds_infer_records *r = mds_zalloc(1, sizeof *r);
    enum mds_rc rc = MDS_EMEM;

    if (!r)
        return MDS_EMEM;
    r->vocabulary = *v;
    r->path = mds_strdup(inputs->path[i]);
    if (r->path)
        rc = inputs->fasta ? open_regions(r, inputs) : open_input(r);
    if (rc)
        mds_infer_records_close(r);
    else
        *out = r;
    return rc;
}

void mds_infer_records_close(struct mds_infer_records *r)
{
    if (!r)
        return;
    mds_tree_destroy(r->json);
    mds_fasta_destroy(r->fasta);
    mds_reader_close(r->reader);
    mds_source_close(r->source);
    mds_infer_lines_fini(&r->lines);
    mds_infer_regions_close(r->regions);
    free(r->bases);
    free(r->ids);
    free(r->path);
    free(r);
}

/* ---- FASTA ---- */

static enum mds_rc encode_bases(struct mds_infer_records *r)
{
    MDS_TRY(mds_reserve(&r->ids, &r->id_room, mds_max(r->n_bases, 1), sizeof *r->ids));
    r->n = (int64_t)mds_tokenizer_encode(r->vocabulary.tokenizer, r->bases,
                                         (size_t)r->n_bases, r->ids);
    return MDS_OK;
}

static enum mds_rc read_bases(struct mds_infer_records *r, struct mds_fasta *f)
{
    const int64_t block = 1 << 16;
    size_t n;

    r->n_bases = 0;
    do {
        MDS_TRY(mds_reserve(&r->bases, &r->base_room, r->n_bases + block, 1));
        MDS_TRY(mds_fasta_read(f, r->bases + r->n_bases, (size_t)block, &n));
        r->n_bases += (int64_t)n;
    } while (n > 0);
    for (int64_t i = 0; i < r->n_bases; i++)
        r->bases[i] %= MDS_BASE_LOWER;
    return encode_bases(r);
}

static enum mds_rc next_of_fasta(struct mds_infer_records *r, int *found)
{
    MDS_TRY(mds_fasta_next(r->fasta, found));
    if (!*found)
        return MDS_OK;
    if (*mds_fasta_name(r->fasta))
        r->name = mds_fasta_name(r->fasta);
    return read_bases(r, r->fasta);
}

/* ---- token files ---- */

static enum mds_rc next_of_source(struct mds_infer_records *r, int *found)
{
    struct mds_source *s = r->source;
    int64_t starts[2];

    *found = r->number <= s->documents;
    if (!*found)
        return MDS_OK;
    MDS_TRY(mds_source_starts(s, r->number - 1, 2, starts));
    r->n = starts[1] - starts[0];
    MDS_TRY(mds_reserve(&r->ids, &r->id_room, mds_max(r->n, 1), sizeof *r->ids));
    MDS_TRY(mds_source_read(s, starts[0], r->n, r->ids));
    for (int64_t i = 0; i < r->n; i++)
        if (r->ids[i] >= r->vocabulary.size)
            return mds_fail(MDS_EUSER,
                            "%s: document %" PRId64
                            " has token %d, and the model %" PRId64
                            " words: it was made with another tokenizer",
                            r->path, r->number, r->ids[i], r->vocabulary.size);
    if (r->n > 0 && s->eod >= 0 && r->ids[r->n - 1] == s->eod)
        r->n--;
    return MDS_OK;
}

/* ---- lines of JSON ---- */

static const char *json_text(const struct mds_infer_records *r, const char *key)
{
    const struct mds_node *n = mds_node_get(r->json->root, key);

    return n ? n->text : NULL;
}

/* Text of bases, by way of a FASTA record. */
static enum mds_rc read_text_of_bases(struct mds_infer_records *r, const char *text)
{
    struct mds_str fasta = {0};
    struct mds_reader *reader = NULL;
    struct mds_fasta *f = NULL;
    int found;
    enum mds_rc rc = MDS_EMEM;

    mds_str_add(&fasta, ">%s\n%s\n", r->name, text);
    if (!fasta.failed)
        rc = mds_reader_memory(fasta.s, fasta.len, r->path, &reader);
    if (!rc)
        rc = mds_fasta_create(reader, &f);
    if (!rc)
        rc = mds_fasta_next(f, &found);
    if (!rc)
        rc = read_bases(r, f);
    mds_fasta_destroy(f);
    mds_reader_close(reader);
    mds_str_fini(&fasta);
    return rc;
}

static enum mds_rc read_text_of_bytes(struct mds_infer_records *r, const char *text)
{
    r->n = (int64_t)strlen(text);
    MDS_TRY(mds_reserve(&r->ids, &r->id_room, mds_max(r->n, 1), sizeof *r->ids));
    for (int64_t i = 0; i < r->n; i++)
        r->ids[i] = (unsigned char)text[i];
    return MDS_OK;
}

static enum mds_rc next_of_json(struct mds_infer_records *r, int *found)
{
    const char *text, *name;
    size_t length;

    MDS_TRY(mds_infer_lines_next(&r->lines, &length));
    *found = length > 0;
    if (!*found)
        return MDS_OK;
    mds_tree_destroy(r->json);
    r->json = NULL;
    MDS_TRY(mds_tree_parse(r->lines.text, length, r->path, &r->json));
    text = json_text(r, "text");
    name = json_text(r, "name") ? json_text(r, "name") : json_text(r, "id");
    if (!text)
        return mds_fail(MDS_EUSER, "%s: record %" PRId64 " has no \"text\"", r->path,
                        r->number);
    if (name)
        r->name = name;
    return has_bases(r) ? read_text_of_bases(r, text) : read_text_of_bytes(r, text);
}

/* ---- regions ---- */

static enum mds_rc next_of_regions(struct mds_infer_records *r, int *found)
{
    MDS_TRY(mds_infer_regions_next(r->regions, &r->region, found));
    if (!*found)
        return MDS_OK;
    r->name = r->region.name;
    r->n_bases = r->region.n;
    MDS_TRY(mds_reserve(&r->bases, &r->base_room, r->n_bases, 1));
    MDS_TRY(mds_infer_regions_read(r->regions, &r->region, r->bases));
    return encode_bases(r);
}

/* ---- any input ---- */

static void show(const struct mds_infer_records *r, struct mds_infer_record *out)
{
    int of_bases = r->source == NULL && has_bases(r);

    *out = (struct mds_infer_record){.name = r->name,
                                     .length = of_bases ? r->n_bases : r->n,
                                     .ids = r->ids,
                                     .n = r->n,
                                     .chrom = r->fasta ? r->name : r->region.chrom,
                                     .first = r->region.first,
                                     .reverse = r->region.reverse};
}

enum mds_rc mds_infer_records_next(struct mds_infer_records *r,
                                   struct mds_infer_record *out, int *found)
{
    r->number++;
    snprintf(r->text, sizeof r->text, "%" PRId64, r->number);
    r->name = r->text;
    r->region = (struct mds_infer_region){0};
    MDS_TRY(r->source    ? next_of_source(r, found)
            : r->regions ? next_of_regions(r, found)
            : r->fasta   ? next_of_fasta(r, found)
                         : next_of_json(r, found));
    if (*found)
        show(r, out);
    return MDS_OK;
}

static enum mds_rc visit_input(const struct mds_infer_inputs *inputs, size_t i,
                               const struct mds_vocabulary *v,
                               mds_infer_visit_fn *visit, void *ctx)
{
    struct mds_infer_records *in;
    struct mds_infer_record r;
    int found = 1;
    enum mds_rc rc;

    MDS_TRY(mds_infer_records_open(inputs, i, v, &in));
    do {
        rc = mds_infer_records_next(in, &r, &found);
        if (!rc && found)
            rc = visit(ctx, in, &r);
    } while (!rc && found);
    mds_infer_records_close(in);
    return rc;
}

enum mds_rc mds_infer_records_each(const struct mds_infer_inputs *inputs,
                                   const struct mds_vocabulary *v,
                                   mds_infer_visit_fn *visit, void *ctx)
{
    for (size_t i = 0; i < inputs->n; i++)
        MDS_TRY(visit_input(inputs, i, v, visit, ctx));
    return MDS_OK;
}

int64_t mds_infer_records_raw_bytes(const struct mds_infer_records *r)
{
    return r->reader ? mds_reader_raw_bytes(r->reader) : 0;
}

const char *mds_infer_records_input(const struct mds_infer_records *r)
{
    return strcmp(r->path, "-") == 0 ? "standard input" : r->path;
}

/* Of tokens that are not of bases, too, some may have no complement: those stay. */
static void reverse_ids(struct mds_infer_records *r)
{
    enum mds_tokenizer t = r->vocabulary.tokenizer;

    for (int64_t i = 0, j = r->n - 1; i <= j; i++, j--) {
        int32_t a = mds_tokenizer_complement(t, r->ids[i]);
        int32_t b = mds_tokenizer_complement(t, r->ids[j]);
        int32_t first = a < 0 ? r->ids[i] : a;

        r->ids[i] = b < 0 ? r->ids[j] : b;
        r->ids[j] = first;
    }
}

enum mds_rc mds_infer_records_reverse(struct mds_infer_records *r,
                                      struct mds_infer_record *out)
{
    if (!has_bases(r))
        return mds_fail(MDS_EUSER,
                        "--strand: tokens of %s have no reverse complement; leave it "
                        "out",
                        mds_tokenizer_names[r->vocabulary.tokenizer]);
    if (r->source) {
        reverse_ids(r);
    } else {
        mds_bases_reverse(r->bases, (size_t)r->n_bases);
        MDS_TRY(encode_bases(r));
    }
    r->region.reverse = !r->region.reverse;
    show(r, out);
    return MDS_OK;
}
