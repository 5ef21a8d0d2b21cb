/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/feature_join.h"

#include "base/alloc.h"
#include "base/minmax.h"

#include <stdlib.h>
#include <string.h>

/* ---- one part after another ---- */

/* The phase of the part that goes on where this one ends. */
static unsigned char phase_behind(const struct mds_feature_part *p)
{
    int64_t left = (p->phase - (p->end - p->begin)) % 3;

    return (unsigned char)(left < 0 ? left + 3 : left);
}

/* Whether b, the next on the forward strand, joins a.  Their phases are known. */
static int is_joined(const struct mds_feature_part *a, const struct mds_feature_part *b,
                     int64_t length)
{
    int64_t begin = b->begin + (b->begin < a->begin ? length : 0);

    return a->reverse == b->reverse && begin >= a->end &&
           (a->reverse ? phase_behind(b) == a->phase : phase_behind(a) == b->phase);
}

/* Phases that are not known are those that follow from the part before. */
static void fill_phases(struct mds_feature_part *p, int64_t n)
{
    unsigned char next = 0;

    for (int64_t k = 0; k < n; k++) {
        struct mds_feature_part *at = &p[p->reverse ? n - 1 - k : k];

        at->phase = at->phase == MDS_PHASE_UNKNOWN ? next : at->phase;
        next = phase_behind(at);
    }
}

static int64_t count_breaks(const struct mds_feature_part *p, int64_t n, int64_t length)
{
    int64_t breaks = 0;

    for (int64_t i = 1; i < n; i++)
        breaks += !is_joined(&p[i - 1], &p[i], length);
    return breaks;
}

/* ---- around the start of a record ---- */

/* Of a feature that reaches both ends of the record, the part behind the widest gap:
 * the first one, if the record is circular.  Else 0. */
static int64_t first_if_circular(const struct mds_feature_part *p, int64_t n,
                                 int64_t length)
{
    int64_t end = 0, widest = -1, first = 0;

    for (int64_t i = 0; i < n; i++)
        end = mds_max(end, p[i].end);
    if (end < length || (end == length && p[0].begin > 0))
        return 0;
    for (int64_t i = 1; i < n; i++)
        if (p[i].begin - p[i - 1].end > widest) {
            widest = p[i].begin - p[i - 1].end;
            first = i;
        }
    return first;
}

static void put_from(const struct mds_feature_part *from, int64_t n, int64_t first,
                     struct mds_feature_part *to)
{
    memcpy(to, from + first, (size_t)(n - first) * sizeof *to);
    memcpy(to + n - first, from, (size_t)first * sizeof *to);
    fill_phases(to, n);
}

static void put_in_order(const struct mds_feature_part *from, int64_t n, int64_t length,
                         int circular, struct mds_feature_part *to)
{
    int64_t first = first_if_circular(from, n, length), breaks;

    put_from(from, n, 0, to);
    if (first == 0)
        return;
    breaks = count_breaks(to, n, length);
    put_from(from, n, first, to);
    if (!circular && count_breaks(to, n, length) >= breaks)
        put_from(from, n, 0, to);
}

/* ---- features ---- */

static int64_t count_parts(const struct mds_feature_part *p, int64_t n)
{
    int64_t same = 1;

    while (same < n && p[same].feature == p->feature &&
           p[same].by_parent == p->by_parent)
        same++;
    return same;
}

static int has_same_lines(const struct mds_feature_part *a,
                          const struct mds_feature_part *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (a[i].line != b[i].line)
            return 0;
    return 1;
}

/* Whether a feature before this one, of n parts, has the same: if all parts of two
 * transcripts are shared, they are one sequence. */
static int is_repeated(const struct mds_feature_part *parts,
                       const struct mds_feature_part *p, int64_t n)
{
    const struct mds_feature_part *at = p;

    while (at > parts && at[-1].first == p->first)
        at--;
    for (int64_t k; at < p; at += k) {
        k = count_parts(at, p - at);
        if (k == n && at->by_parent && has_same_lines(at, p, n))
            return 1;
    }
    return 0;
}

/* The n parts of a feature are at out->part[at ...]. */
static void add_sequences(struct mds_joined_features *out, int64_t at, int64_t n,
                          int64_t length)
{
    const struct mds_feature_part *p = out->part + at;

    out->parts[out->n++] = 1;
    for (int64_t i = 1; i < n; i++) {
        int joined = !p->by_parent || is_joined(&p[i - 1], &p[i], length);

        out->apart += !joined;
        if (joined)
            out->parts[out->n - 1]++;
        else
            out->parts[out->n++] = 1;
    }
}

enum mds_rc mds_features_join(const struct mds_feature_part *parts, int64_t n,
                              int64_t length, int circular,
                              struct mds_joined_features *out)
{
    int64_t at = 0, here;

    *out = (struct mds_joined_features){
        .part = mds_zalloc((size_t)mds_max(n, 1), sizeof *out->part),
        .parts = mds_zalloc((size_t)mds_max(n, 1), sizeof *out->parts)};
    if (!out->part || !out->parts) {
        mds_joined_features_fini(out);
        return MDS_EMEM;
    }
    for (int64_t i = 0; i < n; i += here) {
        here = count_parts(parts + i, n - i);
        if (parts[i].by_parent && is_repeated(parts, parts + i, here))
            continue;
        put_in_order(parts + i, here, length, circular, out->part + at);
        add_sequences(out, at, here, length);
        at += here;
    }
    return MDS_OK;
}

void mds_joined_features_fini(struct mds_joined_features *f)
{
    free(f->part);
    free(f->parts);
    *f = (struct mds_joined_features){0};
}
