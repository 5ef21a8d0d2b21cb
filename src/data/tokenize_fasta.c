/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/tokenize_fasta.h"
#include "base/alloc.h"
#include "base/minmax.h"
#include "data/fasta.h"
#include "data/feature_join.h"
#include "data/features.h"
#include "data/record_file.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- bases of features on one record ---- */

/* The bases of features on one FASTA record: marked, or cut out. */

struct base_range {
    int64_t begin, end; /* bases begin .. end - 1 */
};

/* Disjoint ranges of bases, in order. */
struct cover {
    struct base_range *range;
    int64_t n;
};

/* The part's bases on the record, and those after its start if it goes around; returns
 * how many ranges these are. */
static int ranges_of(const struct mds_feature_part *p, int64_t length,
                     struct base_range range[2])
{
    range[0] = (struct base_range){p->begin, mds_min(p->end, length)};
    range[1] = (struct base_range){0, p->end - length};
    return p->end > length ? 2 : 1;
}

/* ---- marking ---- */

static int by_begin(const void *x, const void *y)
{
    const struct base_range *a = x, *b = y;

    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

static void merge_ranges(struct cover *c)
{
    int64_t kept = 0;

    qsort(c->range, (size_t)c->n, sizeof *c->range, by_begin);
    for (int64_t i = 1; i < c->n; i++)
        if (c->range[i].begin <= c->range[kept].end)
            c->range[kept].end = mds_max(c->range[kept].end, c->range[i].end);
        else
            c->range[++kept] = c->range[i];
    c->n = c->n > 0 ? kept + 1 : 0;
}

/* All bases in any of these parts, on a record of `length` bases. */
static enum mds_rc cover_create(const struct mds_feature_part *parts, int64_t n,
                                int64_t length, struct cover *out)
{
    *out = (struct cover){mds_zalloc(2 * (size_t)n + 1, sizeof *out->range), 0};
    if (!out->range)
        return MDS_EMEM;
    for (int64_t i = 0; i < n; i++)
        out->n += ranges_of(&parts[i], length, &out->range[out->n]);
    merge_ranges(out);
    return MDS_OK;
}

/* a zeroed struct is fine */
static void cover_fini(struct cover *c)
{
    free(c->range);
    *c = (struct cover){0};
}

/* The first range that ends behind base `at`. */
static int64_t first_range(const struct cover *c, int64_t at)
{
    int64_t low = 0, high = c->n;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;

        if (c->range[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Set MDS_BASE_MARKED in those of bases[n] that are covered; bases[0] is base `at` of
 * the record. */
static void cover_mark(const struct cover *c, int64_t at, unsigned char *bases,
                       size_t n)
{
    int64_t last = at + (int64_t)n;

    for (int64_t i = first_range(c, at); i < c->n && c->range[i].begin < last; i++)
        for (int64_t b = mds_max(c->range[i].begin, at);
             b < mds_min(c->range[i].end, last); b++)
            bases[b - at] |= MDS_BASE_MARKED;
}

/* ---- cutting out ---- */

static enum mds_rc copy_range(const struct base_range *r,
                              const struct mds_record_file *from,
                              struct mds_record_file *to)
{
    unsigned char block[1 << 14];
    int64_t n;

    for (int64_t at = r->begin; at < r->end; at += n) {
        n = mds_min(r->end - at, (int64_t)sizeof block);
        MDS_TRY(mds_record_file_read(from, at, block, (size_t)n));
        MDS_TRY(mds_record_file_append(to, block, (size_t)n));
    }
    return MDS_OK;
}

/* Copy n parts, in order, from the record to *to, which is emptied. */
static enum mds_rc feature_cut(const struct mds_feature_part *parts, int64_t n,
                               const struct mds_record_file *record,
                               struct mds_record_file *to)
{
    struct base_range range[2];

    mds_record_file_clear(to);
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < ranges_of(&parts[i], record->length, range); k++)
            MDS_TRY(copy_range(&range[k], record, to));
    return MDS_OK;
}

/* ---- records ---- */

enum { BLOCK = MDS_MAKE_BLOCK, TAG_MAX = 1024 };

struct fasta_work {
    struct mds_make_input *t;
    struct mds_fasta *fasta;
    struct mds_record_file record; /* its bases, as mds_fasta_read gives them */
    struct mds_record_file gene;   /* those of one feature, if they are cut out */
    struct cover cover;            /* the record's bases in features, if these count */
    struct mds_make_kinds kinds;
    unsigned char *bases, *plain; /* [BLOCK] as in the record; without their case */
    unsigned char *kind;          /* [BLOCK] of each token */
    int32_t tag[TAG_MAX];         /* of this record */
    unsigned char tag_kind[TAG_MAX];
    size_t tag_tokens;
};

static enum mds_tokenizer tokenizer(const struct fasta_work *w)
{
    return w->t->m->vocabulary.tokenizer;
}

/* The tokens of that many bases. */
static int64_t count_tokens(const struct fasta_work *w, int64_t bases)
{
    int64_t each = mds_tokenizer_bases(tokenizer(w));

    return bases < each ? 0 : (bases - each) / mds_tokenizer_stride(tokenizer(w)) + 1;
}

/* ---- one block ---- */

/* A token with an ambiguous base is ambiguous; one whose bases are all in features is
 * of their kind, and one whose bases are all in lower case is repeat. */
static int kind_of_token(const struct mds_make_kinds *k, const unsigned char *bases,
                         int width)
{
    int all = MDS_BASE_LOWER | MDS_BASE_MARKED;

    for (int i = 0; i < width; i++) {
        if (bases[i] % MDS_BASE_LOWER == MDS_BASE_N)
            return k->ambiguous;
        all &= bases[i];
    }
    if (all & MDS_BASE_MARKED && k->feature >= 0)
        return k->feature;
    return all & MDS_BASE_LOWER && k->repeat >= 0 ? k->repeat : 0;
}

static void find_kinds(struct fasta_work *w, size_t tokens)
{
    int width = mds_tokenizer_bases(tokenizer(w));
    int stride = mds_tokenizer_stride(tokenizer(w));
    unsigned char of_one[MDS_BASES];

    for (int i = 0; i < MDS_BASES; i++) {
        unsigned char base = (unsigned char)i;

        of_one[i] = (unsigned char)kind_of_token(&w->kinds, &base, 1);
    }
    for (size_t i = 0; i < tokens && width == 1; i++)
        w->kind[i] = of_one[w->bases[i]];
    for (size_t i = 0; i < tokens && width > 1; i++)
        w->kind[i] = (unsigned char)kind_of_token(&w->kinds,
                                                  w->bases + i * (size_t)stride, width);
}

static enum mds_rc add_bases(struct fasta_work *w, size_t n)
{
    size_t tokens;
    int special = 0;

    for (size_t i = 0; i < n; i++) {
        w->plain[i] = w->bases[i] % MDS_BASE_LOWER;
        special |= w->plain[i] == MDS_BASE_N;
    }
    tokens = mds_tokenizer_encode(tokenizer(w), w->plain, n, w->t->ids);
    special |= w->kinds.repeat >= 0 || w->cover.n > 0;
    if (special)
        find_kinds(w, tokens);
    return mds_make_input_add(w->t, w->t->ids, special ? w->kind : NULL, tokens);
}

/* ---- tags ---- */

/* The tag of this record: letters in lower case, so that none of them is a base. */
static enum mds_rc set_tag(struct fasta_work *w)
{
    static const char field[] = "{record}";
    const char *text = w->t->m->tag, *name = mds_fasta_name(w->fasta);
    struct mds_str full = {0};

    for (; *text; text++) {
        int is_field = strncmp(text, field, strlen(field)) == 0;

        if (is_field)
            mds_str_add(&full, "%s", name);
        else
            mds_str_add(&full, "%c", *text);
        text += is_field ? strlen(field) - 1 : 0;
    }
    if (full.failed)
        return MDS_EMEM;
    w->tag_tokens = mds_min(strlen(full.s), (size_t)TAG_MAX);
    for (size_t i = 0; i < w->tag_tokens; i++) {
        w->tag[i] = tolower((unsigned char)full.s[i]);
        w->tag_kind[i] = (unsigned char)w->kinds.tag;
    }
    mds_str_fini(&full);
    return MDS_OK;
}

/* Tokens until the next tag; adds the tag if that is here. */
static enum mds_rc reach_tag(struct fasta_work *w, int64_t done, int64_t *until)
{
    int64_t every = w->t->m->tag_every;

    *until = INT64_MAX;
    if (!w->t->m->tag)
        return MDS_OK;
    *until = every - done % every;
    return *until < every
               ? MDS_OK
               : mds_make_input_add(w->t, w->tag, w->tag_kind, w->tag_tokens);
}

/* ---- records ---- */

/* One document: the stored record (or feature) on one strand, without its first `frame`
 * bases and without a last incomplete token. */
static enum mds_rc add_document(struct fasta_work *w, const struct mds_record_file *r,
                                int reverse, int frame)
{
    int64_t stride = mds_tokenizer_stride(tokenizer(w)), n;
    int64_t whole = count_tokens(w, r->length - frame);

    for (int64_t done = 0; done < whole; done += n) {
        int64_t at = frame + done * stride, bases;

        MDS_TRY(reach_tag(w, done, &n));
        n = mds_min(n, mds_min(whole - done, count_tokens(w, BLOCK)));
        bases = (n - 1) * stride + mds_tokenizer_bases(tokenizer(w));
        at = reverse ? r->length - at - bases : at;
        MDS_TRY(mds_record_file_read(r, at, w->bases, (size_t)bases));
        cover_mark(&w->cover, at, w->bases, (size_t)bases);
        if (reverse)
            mds_bases_reverse(w->bases, (size_t)bases);
        MDS_TRY(add_bases(w, (size_t)bases));
    }
    return mds_make_input_end_document(w->t);
}

static enum mds_rc tokenize_whole_record(struct fasta_work *w)
{
    const struct mds_reading *r = &w->t->m->reading;
    int documents = mds_reading_documents(r), frame, reverse;

    mds_reading_document(r, documents - 1, &frame, &reverse); /* the last frame */
    if (count_tokens(w, w->record.length - frame) == 0) {
        w->t->stats.skipped++;
        return MDS_OK;
    }
    for (int i = 0; i < documents; i++) {
        mds_reading_document(r, i, &frame, &reverse);
        MDS_TRY(add_document(w, &w->record, reverse, frame));
    }
    return MDS_OK;
}

/* The sequence of n parts of a feature.  Codons begin where its phase says. */
static enum mds_rc add_feature(struct fasta_work *w,
                               const struct mds_feature_part *parts, int64_t n)
{
    int reverse = parts[0].reverse, frame;

    for (int64_t i = 1; i < n; i++)
        if (parts[i].reverse != reverse) {
            w->t->stats.both_strands++;
            return MDS_OK;
        }
    frame = parts[reverse ? n - 1 : 0].phase;
    if (tokenizer(w) != MDS_TOKENIZER_CODON)
        frame = 0;
    MDS_TRY(feature_cut(parts, n, &w->record, &w->gene));
    if (count_tokens(w, w->gene.length - frame) == 0) {
        w->t->stats.skipped++;
        return MDS_OK;
    }
    return add_document(w, &w->gene, reverse, frame);
}

static enum mds_rc cut_out_features(struct fasta_work *w,
                                    const struct mds_feature_part *parts, int64_t n)
{
    int circular = mds_features_circular(w->t->m->features, mds_fasta_name(w->fasta));
    struct mds_joined_features joined;
    enum mds_rc rc = MDS_OK;
    int64_t at = 0;

    MDS_TRY(mds_features_join(parts, n, w->record.length, circular, &joined));
    w->t->stats.apart += joined.apart;
    for (int64_t i = 0; i < joined.n && !rc; i++) {
        rc = add_feature(w, joined.part + at, joined.parts[i]);
        at += joined.parts[i];
    }
    mds_joined_features_fini(&joined);
    return rc;
}

static enum mds_rc tokenize_annotated_record(struct fasta_work *w)
{
    const struct mds_make *m = w->t->m;
    const char *name = mds_fasta_name(w->fasta);
    const struct mds_feature_part *parts;
    int64_t n = mds_features_on(m->features, name, &parts);
    enum mds_rc rc;

    w->t->stats.annotated += n > 0;
    MDS_TRY(mds_features_check(m->features, name, w->record.length, parts, n));
    if (m->feature_weight < 0)
        return cut_out_features(w, parts, n);
    MDS_TRY(cover_create(parts, n, w->record.length, &w->cover));
    rc = tokenize_whole_record(w);
    cover_fini(&w->cover);
    return rc;
}

static enum mds_rc tokenize_record(struct fasta_work *w)
{
    struct mds_make_stats *s = &w->t->stats;

    if (s->records++ == 0)
        snprintf(s->record, sizeof s->record, "%s", mds_fasta_name(w->fasta));
    return w->t->m->features ? tokenize_annotated_record(w) : tokenize_whole_record(w);
}

static enum mds_rc store_record(struct fasta_work *w)
{
    size_t n;

    mds_record_file_clear(&w->record);
    for (;;) {
        MDS_TRY(mds_fasta_read(w->fasta, w->bases, BLOCK, &n));
        if (n == 0)
            return MDS_OK;
        MDS_TRY(mds_make_input_progress(w->t));
        MDS_TRY(mds_record_file_append(&w->record, w->bases, n));
    }
}

static enum mds_rc tokenize_records(struct fasta_work *w)
{
    int64_t before = w->t->stats.records;
    int found;

    for (;;) {
        MDS_TRY(mds_fasta_next(w->fasta, &found));
        if (!found)
            break;
        if (w->t->m->tag)
            MDS_TRY(set_tag(w));
        MDS_TRY(store_record(w));
        MDS_TRY(tokenize_record(w));
    }
    if (w->t->stats.records == before)
        return mds_fail(MDS_EUSER, "%s: no '>' line in it: is this a FASTA file?",
                        mds_reader_name(w->t->reader));
    return MDS_OK;
}

static void free_buffers(struct fasta_work *w)
{
    free(w->bases);
    free(w->plain);
    free(w->kind);
}

static enum mds_rc allocate_buffers(struct fasta_work *w)
{
    w->bases = mds_zalloc(BLOCK, 1);
    w->plain = mds_zalloc(BLOCK, 1);
    w->kind = mds_zalloc(BLOCK, 1);
    return w->bases && w->plain && w->kind ? MDS_OK : MDS_EMEM;
}

enum mds_rc mds_tokenize_fasta(struct mds_make_input *t)
{
    struct fasta_work w = {.t = t, .record.fd = -1, .gene.fd = -1};
    enum mds_rc rc = allocate_buffers(&w);

    mds_make_kinds_init(t->m, &w.kinds);
    if (!rc)
        rc = mds_fasta_create(t->reader, &w.fasta);
    if (!rc)
        rc = mds_record_file_init(t->m->output, &w.record);
    if (!rc && t->m->features)
        rc = mds_record_file_init(t->m->output, &w.gene);
    if (!rc)
        rc = tokenize_records(&w);
    mds_record_file_fini(&w.gene);
    mds_record_file_fini(&w.record);
    mds_fasta_destroy(w.fasta);
    free_buffers(&w);
    return rc;
}
