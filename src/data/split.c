/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/split.h"
#include "base/minmax.h"

#include <math.h>
#include <string.h>

const char *const mds_split_names[MDS_SPLITS] = {"training", "validation", "test"};
const char *const mds_split_options[MDS_SPLITS] = {
    "--train-data-path", "--valid-data-path", "--test-data-path"};

void mds_split_bounds(const double shares[MDS_SPLITS], int64_t tokens,
                      int64_t bounds[MDS_SPLITS + 1])
{
    double share = 0;

    bounds[0] = 0;
    for (int s = 0; s < MDS_SPLITS; s++) {
        int64_t at;

        share += shares[s];
        at = llround(share * (double)tokens);
        bounds[s + 1] = mds_min(at, tokens);
    }
    /* Tokens lost to rounding go to the last split that has a share. */
    for (int s = MDS_SPLITS; s > 0 && bounds[s] != tokens; s--) {
        bounds[s] = tokens;
        if (shares[s - 1] > 0)
            break;
    }
}

/* ---- spans ----------------------------------------------------------------------- */

static void append_span(struct mds_part *p, int64_t first, int64_t end)
{
    struct mds_span *last = p->span + p->spans - 1;

    if (end <= first)
        return;
    p->tokens += end - first;
    if (p->spans > 0 && last->first + last->tokens == first)
        last->tokens += end - first;
    else
        p->span[p->spans++] = (struct mds_span){first, end - first};
}

/* ---- whole documents ------------------------------------------------------------- */

static int64_t documents_per_record(const struct mds_source *s)
{
    return mds_reading_documents(&s->reading);
}

static int can_keep_documents(const struct mds_source *s,
                              const double shares[MDS_SPLITS], enum mds_split_at at)
{
    int64_t records = s->documents / documents_per_record(s), splits = 0;

    for (int i = 0; i < MDS_SPLITS; i++)
        splits += shares[i] > 0;
    if (at == MDS_SPLIT_AT_AUTO)
        return (!s->is_genome || s->is_cut) && records > 1 && records >= splits;
    return at == MDS_SPLIT_AT_DOCUMENTS;
}

/* *record = the record whose start is nearest to token `at`; the number of records for
 * the end. */
static enum mds_rc nearest_record(struct mds_source *s, int64_t at, int64_t *record)
{
    int64_t each = documents_per_record(s), document, start, end;

    *record = s->documents / each;
    if (at == s->tokens)
        return MDS_OK;
    MDS_TRY(mds_source_document_at(s, at, &document));
    *record = mds_min(document / each, *record - 1);
    MDS_TRY(mds_source_starts(s, *record * each, 1, &start));
    MDS_TRY(mds_source_starts(s, (*record + 1) * each, 1, &end));
    *record += at - start > end - at;
    return MDS_OK;
}

/* Move the bounds of splits to the nearest starts of documents. */
static enum mds_rc move_bounds_to_documents(struct mds_source *s,
                                            const double shares[MDS_SPLITS],
                                            int64_t bounds[MDS_SPLITS + 1])
{
    int64_t each = documents_per_record(s), records = s->documents / each;
    int64_t cut[MDS_SPLITS + 1] = {[MDS_SPLITS] = records};

    for (int i = 1; i < MDS_SPLITS; i++)
        MDS_TRY(nearest_record(s, bounds[i], &cut[i]));
    for (int i = MDS_SPLITS - 1; i > 0; i--)
        cut[i] = mds_min(cut[i], cut[i + 1] - (shares[i] > 0));
    for (int i = 1; i < MDS_SPLITS; i++) {
        cut[i] = mds_max(cut[i], cut[i - 1] + (shares[i - 1] > 0));
        cut[i] = mds_min(cut[i], records);
        bounds[i] = s->tokens;
        if (cut[i] < records)
            MDS_TRY(mds_source_starts(s, cut[i] * each, 1, &bounds[i]));
    }
    return MDS_OK;
}

/* ---- strands and frames ---------------------------------------------------------- */

/* A position between two bases of a record. */
struct cut {
    int64_t record, base;
};

static const int64_t whole_record = INT64_MAX;

/* The documents of one record: its strands and frames.  The number of bases is known
 * except for those that did not fill a token. */
struct record {
    struct mds_reading reading;
    int64_t starts[MDS_RECORD_DOCUMENTS + 1];
    int64_t bases_min, bases_max, token_bases, token_stride;
};

/* From the starts of its documents; 0 if they cannot be those of one record. */
static int init_record(const struct mds_source *s, const int64_t *starts,
                       struct record *r)
{
    int documents = mds_reading_documents(&s->reading);

    r->reading = s->reading;
    r->token_bases = s->token_bases;
    r->token_stride = s->token_stride;
    r->bases_min = 0;
    r->bases_max = INT64_MAX;
    memcpy(r->starts, starts, ((size_t)documents + 1) * sizeof *starts);
    for (int i = 0; i < documents; i++) {
        int64_t ids = starts[i + 1] - starts[i] - 1, least; /* without <eod> */
        int frame, reverse;

        mds_reading_document(&s->reading, i, &frame, &reverse);
        least = frame + (ids - 1) * s->token_stride + s->token_bases;
        r->bases_min = mds_max(r->bases_min, least);
        r->bases_max = mds_min(r->bases_max, least + s->token_stride - 1);
    }
    return r->bases_min <= r->bases_max;
}

static enum mds_rc fail_not_one_record(const struct mds_source *s, int64_t record)
{
    long long n = documents_per_record(s), first = record * n + 1;

    return mds_fail(MDS_EUSER,
                    "%s: documents %lld to %lld are not %lld strands and frames of one "
                    "record, so nothing can be held out: make it again with mds_data "
                    "make, or use --split 1,0,0 --eval-iters 0",
                    s->path, first, first + n - 1, n);
}

/* Fails for files of earlier versions that wrote fewer documents for records of less
 * than five bases. */
static enum mds_rc check_records(struct mds_source *s)
{
    enum { BLOCK = 170 };
    int64_t starts[BLOCK * MDS_RECORD_DOCUMENTS + 1], each = documents_per_record(s);
    int64_t records = s->documents / each;
    struct record r;

    for (int64_t first = 0; first < records; first += BLOCK) {
        int64_t n = mds_min(records - first, BLOCK);

        MDS_TRY(mds_source_starts(s, first * each, n * each + 1, starts));
        for (int64_t i = 0; i < n; i++)
            if (!init_record(s, starts + i * each, &r))
                return fail_not_one_record(s, first + i);
    }
    return s->documents % each ? fail_not_one_record(s, records) : MDS_OK;
}

static enum mds_rc read_record(struct mds_source *s, int64_t record, struct record *r)
{
    int64_t starts[MDS_RECORD_DOCUMENTS + 1], each = documents_per_record(s);

    MDS_TRY(mds_source_starts(s, record * each, each + 1, starts));
    return init_record(s, starts, r) ? MDS_OK : fail_not_one_record(s, record);
}

/* The cut for which the splits before it have as close to `at` tokens as possible. */
static enum mds_rc find_cut_position(struct mds_source *s, int64_t at, struct cut *cut)
{
    int64_t document, each = documents_per_record(s), token;
    int frame, reverse;
    struct record r;

    *cut = (struct cut){s->documents / each, 0};
    if (at == s->tokens)
        return MDS_OK;
    MDS_TRY(mds_source_document_at(s, at, &document));
    cut->record = document / each;
    MDS_TRY(read_record(s, cut->record, &r));
    token = (at - r.starts[0]) / each;
    mds_reading_document(&s->reading, 0, &frame, &reverse);
    cut->base = token > 0 ? frame + token * s->token_stride : 0;
    return MDS_OK;
}

/* The number of tokens that lie within so many bases; and that overlap them. */
static int64_t tokens_inside(const struct record *r, int64_t bases)
{
    return bases < r->token_bases ? 0 : (bases - r->token_bases) / r->token_stride + 1;
}

static int64_t tokens_touching(const struct record *r, int64_t bases)
{
    return bases > 0 ? (bases - 1) / r->token_stride + 1 : 0;
}

/* Add the tokens of document i whose bases are among low .. high - 1 of the forward
 * strand.  Tokens count from the 5' end of their own strand.  <eod> goes with the last
 * token. */
static void add_region(struct mds_part *p, const struct record *r, int i, int64_t low,
                       int64_t high)
{
    int64_t start = r->starts[i], end = r->starts[i + 1] - start, from, to;
    int frame, reverse;

    mds_reading_document(&r->reading, i, &frame, &reverse);
    if (reverse) {
        from =
            high == whole_record ? 0 : tokens_touching(r, r->bases_max - frame - high);
        to = low == 0 ? end : tokens_inside(r, r->bases_min - frame - low);
    } else {
        from = tokens_touching(r, low - frame);
        to = high == whole_record ? end : tokens_inside(r, high - frame);
    }
    append_span(p, start + from, start + mds_min(to, end));
}

static enum mds_rc add_record_spans(struct mds_part *p, struct mds_source *s,
                                    int64_t record, int64_t low, int64_t high)
{
    struct record r;

    if (low >= high)
        return MDS_OK;
    MDS_TRY(read_record(s, record, &r));
    for (int i = 0; i < documents_per_record(s); i++)
        add_region(p, &r, i, low, high);
    return MDS_OK;
}

static enum mds_rc add_spans_between(struct mds_part *p, struct mds_source *s,
                                     const struct cut *a, const struct cut *b)
{
    int64_t whole[2];

    if (a->record == b->record)
        return add_record_spans(p, s, a->record, a->base, b->base);
    MDS_TRY(add_record_spans(p, s, a->record, a->base, whole_record));
    MDS_TRY(
        mds_source_starts(s, (a->record + 1) * documents_per_record(s), 1, &whole[0]));
    MDS_TRY(mds_source_starts(s, b->record * documents_per_record(s), 1, &whole[1]));
    append_span(p, whole[0], whole[1]);
    return add_record_spans(p, s, b->record, 0, b->base);
}

/* ---- splitting ------------------------------------------------------------------- */

/* Whether several tokens of a record have the same base. */
static int shares_bases(const struct mds_source *s)
{
    return documents_per_record(s) > 1 || s->token_stride < s->token_bases;
}

static int has_inner_bound(const int64_t bounds[MDS_SPLITS + 1], int64_t tokens)
{
    for (int s = 1; s < MDS_SPLITS; s++)
        if (bounds[s] > 0 && bounds[s] < tokens)
            return 1;
    return 0;
}

enum mds_rc mds_split_cut(struct mds_source *s, const double shares[MDS_SPLITS],
                          enum mds_split_at at, struct mds_part parts[MDS_SPLITS])
{
    int whole = can_keep_documents(s, shares, at), by_bases;
    int64_t bounds[MDS_SPLITS + 1];
    struct cut cuts[MDS_SPLITS + 1];

    mds_split_bounds(shares, s->tokens, bounds);
    memset(parts, 0, MDS_SPLITS * sizeof *parts);
    if (whole)
        MDS_TRY(move_bounds_to_documents(s, shares, bounds));
    by_bases = !whole && shares_bases(s) && has_inner_bound(bounds, s->tokens);
    if (by_bases)
        MDS_TRY(check_records(s));
    for (int i = 0; i <= MDS_SPLITS && by_bases; i++)
        MDS_TRY(find_cut_position(s, bounds[i], &cuts[i]));
    for (int i = 0; i < MDS_SPLITS; i++) {
        parts[i].keeps_documents = whole;
        if (by_bases)
            MDS_TRY(add_spans_between(&parts[i], s, &cuts[i], &cuts[i + 1]));
        else
            append_span(&parts[i], bounds[i], bounds[i + 1]);
    }
    return MDS_OK;
}
