/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/packing.h"

#include "base/alloc.h"
#include "base/minmax.h"
#include "data/best_fit.h"

#include <stdlib.h>
#include <string.h>

/* A document that is longer than a row. */
struct long_document {
    int64_t first;   /* its first token */
    int64_t windows; /* full windows of this document and all before it */
};

/* Token ranges that share rows: short documents, and the rests of long ones. */
struct ranges {
    int64_t *first;
    int32_t *length;
    int64_t n;
};

struct mds_packing {
    int64_t stride;     /* from one window to the next */
    int64_t row_tokens; /* seq_length + 1 */
    struct long_document *cut;
    int64_t n_cut;
    struct ranges packed; /* sorted by row */
    int64_t *begin;       /* [packed rows + 1] index in `packed` of each row's first */
    struct mds_packing_stats stats;
};

static int64_t window_rows(const struct mds_packing *p)
{
    return p->n_cut > 0 ? p->cut[p->n_cut - 1].windows : 0;
}

/* The tokens of a window that the one before it has, too. */
static int64_t overlap(const struct mds_packing *p)
{
    return p->row_tokens - p->stride;
}

/* ---- cut documents into windows and ranges ---- */

static enum mds_rc add_range(struct ranges *p, int64_t first, int64_t length)
{
    MDS_TRY(mds_grow(&p->first, (size_t)p->n, sizeof *p->first));
    MDS_TRY(mds_grow(&p->length, (size_t)p->n, sizeof *p->length));
    p->first[p->n] = first;
    p->length[p->n++] = (int32_t)length;
    return MDS_OK;
}

/* Add the full windows of a long document; *first and *length become its rest. */
static enum mds_rc add_windows(struct mds_packing *p, int64_t *first, int64_t *length)
{
    int64_t step = p->stride, windows = (*length - p->row_tokens) / step + 1;

    MDS_TRY(mds_grow(&p->cut, (size_t)p->n_cut, sizeof *p->cut));
    p->cut[p->n_cut] = (struct long_document){*first, window_rows(p) + windows};
    p->n_cut++;
    p->stats.cut++;
    p->stats.tokens += windows * p->row_tokens;
    *first += windows * step;
    *length -= windows * step;
    return MDS_OK;
}

static enum mds_rc add_document(void *to, int64_t first, int64_t length)
{
    struct mds_packing *p = to;

    if (length == 1)
        p->stats.left_out++;
    if (length < 2)
        return MDS_OK;
    p->stats.documents++;
    if (length > p->row_tokens) {
        MDS_TRY(add_windows(p, &first, &length));
        if (length <= overlap(p)) /* no rest: the last window ended with the document */
            return MDS_OK;
    }
    p->stats.tokens += length;
    return add_range(&p->packed, first, length);
}

/* ---- assign ranges to rows ---- */

/* Counting sort of ranges by row.  Before: begin[r + 1] is the index of row r's first
 * range; after: begin[r] is. */
static void sort_by_row(const struct ranges *from, const int64_t *row, int64_t *begin,
                        struct ranges *to)
{
    for (int64_t i = 0; i < from->n; i++) {
        int64_t at = begin[row[i] + 1]++;

        to->first[at] = from->first[i];
        to->length[at] = from->length[i];
    }
}

static enum mds_rc order_ranges(struct mds_packing *p, const int64_t *row, int64_t rows)
{
    size_t n = (size_t)p->packed.n;
    struct ranges by_row = {.first = mds_zalloc(n, sizeof *by_row.first),
                            .length = mds_zalloc(n, sizeof *by_row.length),
                            .n = p->packed.n};

    p->begin = mds_zalloc((size_t)rows + 2, sizeof *p->begin);
    if (!by_row.first || !by_row.length || !p->begin) {
        free(by_row.first);
        free(by_row.length);
        return MDS_EMEM;
    }
    for (int64_t i = 0; i < p->packed.n; i++)
        if (row[i] + 2 <= rows)
            p->begin[row[i] + 2]++;
    for (int64_t r = 2; r <= rows; r++)
        p->begin[r] += p->begin[r - 1];
    sort_by_row(&p->packed, row, p->begin, &by_row);
    free(p->packed.first);
    free(p->packed.length);
    p->packed = by_row;
    return MDS_OK;
}

static enum mds_rc pack_ranges(struct mds_packing *p)
{
    int64_t *row = mds_zalloc((size_t)p->packed.n, sizeof *row), rows = 0;
    enum mds_rc rc = row ? MDS_OK : MDS_EMEM;

    if (!rc)
        rc = mds_best_fit(p->packed.length, p->packed.n, p->row_tokens, row, &rows);
    if (!rc)
        rc = order_ranges(p, row, rows);
    free(row);
    p->stats.rows = window_rows(p) + rows;
    return rc;
}

enum mds_rc mds_packing_create(struct mds_source *s, const struct mds_part *part,
                               int64_t seq_length, int64_t stride,
                               struct mds_packing **out)
{
    struct mds_packing *p;
    enum mds_rc rc = MDS_OK;

    if (seq_length >= INT32_MAX - 1)
        return mds_fail(MDS_EUSER,
                        "--seq-length %lld: documents are packed into rows of at most "
                        "%d tokens; use less, or --pack-documents off",
                        (long long)seq_length, INT32_MAX - 2);
    p = mds_zalloc(1, sizeof *p);
    if (!p)
        return MDS_EMEM;
    p->row_tokens = seq_length + 1;
    p->stride = stride > 0 ? stride : seq_length;
    for (int i = 0; i < part->spans && !rc; i++)
        rc = mds_source_each_document(s, part->span[i].first, part->span[i].tokens,
                                      add_document, p);
    if (!rc && p->packed.n > 0)
        rc = pack_ranges(p);
    if (rc) {
        mds_packing_destroy(p);
        return rc;
    }
    p->stats.rows = mds_max(p->stats.rows, window_rows(p));
    *out = p;
    return MDS_OK;
}

void mds_packing_destroy(struct mds_packing *p)
{
    if (!p)
        return;
    free(p->cut);
    free(p->packed.first);
    free(p->packed.length);
    free(p->begin);
    free(p);
}

const struct mds_packing_stats *mds_packing_stats(const struct mds_packing *p)
{
    return &p->stats;
}

double mds_packing_padding(const struct mds_packing *p)
{
    double all = (double)p->stats.rows * (double)p->row_tokens;

    return all > 0 ? 1 - (double)p->stats.tokens / all : 0;
}

/* Pairs of the documents in packed row number `row`; *inputs = their tokens.  The last
 * token of a row is no input. */
static struct mds_pairs packed_row_pairs(const struct mds_packing *p, int64_t row,
                                         int64_t window, int64_t *inputs)
{
    struct mds_pairs pairs = {0, 0};
    int64_t at = 0;

    for (int64_t i = p->begin[row]; i < p->begin[row + 1]; i++) {
        int64_t end = mds_min(at + p->packed.length[i], p->row_tokens - 1);

        mds_pairs_add(&pairs, 1, mds_pairs_of_document(end - at, window));
        at = end;
    }
    *inputs = at;
    return pairs;
}

double mds_packing_pairs(const struct mds_packing *p, int64_t row)
{
    int64_t packed = row - window_rows(p), inputs;

    return packed < 0 ? mds_pairs_of_document(p->row_tokens - 1, 0).global
                      : packed_row_pairs(p, packed, 0, &inputs).global;
}

struct mds_pairs mds_packing_all_pairs(const struct mds_packing *p, int64_t window)
{
    const struct mds_pairs itself = {1, 1};
    struct mds_pairs all = {0, 0};
    int64_t S = p->row_tokens - 1, inputs;

    mds_pairs_add(&all, (double)window_rows(p), mds_pairs_of_document(S, window));
    for (int64_t row = 0; row < p->stats.rows - window_rows(p); row++) {
        mds_pairs_add(&all, 1, packed_row_pairs(p, row, window, &inputs));
        mds_pairs_add(&all, (double)(S - inputs), itself);
    }
    return all;
}

/* ---- reading a row ---- */

/* Full windows of documents before number `document` of those that were cut. */
static int64_t windows_before(const struct mds_packing *p, int64_t document)
{
    return document > 0 ? p->cut[document - 1].windows : 0;
}

/* The first token of window number `window`, counted over all long documents. */
static int64_t window_start(const struct mds_packing *p, int64_t window)
{
    int64_t low = 0, high = p->n_cut - 1; /* cut[low - 1].windows <= window */

    while (low < high) {
        int64_t middle = low + (high - low) / 2;

        if (p->cut[middle].windows <= window)
            low = middle + 1;
        else
            high = middle;
    }
    return p->cut[low].first + (window - windows_before(p, low)) * p->stride;
}

/* Whether the window or rest that begins with this token overlaps the window before:
 * whether the token is inside a document that was cut. */
static int continues_document(const struct mds_packing *p, int64_t first)
{
    int64_t low = 0,
            high = p->n_cut; /* cut[low - 1].first < first <= cut[high].first */
    int64_t windows;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;

        if (p->cut[middle].first < first)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return 0;
    windows = p->cut[low - 1].windows - windows_before(p, low - 1);
    return first <= p->cut[low - 1].first + windows * p->stride;
}

/* n tokens of the source from `first` on become those of the row from `at` on, of a
 * document that begins there.  Tokens that an earlier window has are no targets. */
static enum mds_rc read_range(const struct mds_packing *p, struct mds_source *s,
                              int64_t first, int64_t n, int64_t at,
                              const struct mds_sample *out)
{
    for (int64_t i = at; out->start && i < at + n; i++)
        out->start[i] = (int32_t)at;
    if (out->kind)
        MDS_TRY(mds_source_read_kinds(s, first, n, out->kind + at));
    if (out->kind && overlap(p) > 1 && continues_document(p, first))
        memset(out->kind + at, MDS_KIND_MASKED, (size_t)overlap(p));
    return mds_source_read(s, first, n, out->token + at);
}

static void pad_row(int64_t at, int64_t end, int32_t pad, const struct mds_sample *out)
{
    for (; at < end; at++) {
        out->token[at] = pad;
        if (out->start)
            out->start[at] = (int32_t)at;
        if (out->kind)
            out->kind[at] = 0;
    }
}

enum mds_rc mds_packing_read(const struct mds_packing *p, struct mds_source *s,
                             int64_t row, int32_t pad, const struct mds_sample *out)
{
    int64_t windows = window_rows(p), at = 0;

    if (row < 0 || row >= p->stats.rows)
        return mds_fail(MDS_EBUG, "packed row %lld of %lld", (long long)row,
                        (long long)p->stats.rows);
    if (row < windows)
        return read_range(p, s, window_start(p, row), p->row_tokens, 0, out);
    for (int64_t i = p->begin[row - windows]; i < p->begin[row - windows + 1]; i++) {
        MDS_TRY(read_range(p, s, p->packed.first[i], p->packed.length[i], at, out));
        at += p->packed.length[i];
    }
    pad_row(at, p->row_tokens, pad, out);
    return MDS_OK;
}
