/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/features.h"

#include "base/alloc.h"
#include "base/minmax.h"
#include "base/str.h"
#include "io/reader.h"
#include "io/xxh64.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_BYTES = 1 << 16, COLUMNS = 9, NAME_MAX_BYTES = 63 };
enum { RECORD, SOURCE, TYPE, BEGIN, END, SCORE, STRAND, PHASE, ATTRIBUTES };

struct gff3 {
    struct mds_reader *reader;
    const unsigned char *block;
    size_t pos, len;
    char text[LINE_MAX_BYTES]; /* the line */
    int64_t line;              /* its number, from 1 */
    struct mds_features *out;
    struct mds_name_set parents; /* that lines of other types name */
    struct mds_str others;       /* types that were not asked for */
    int n_others;
};

/* ---- lines ---- */

/* The next line, without its end; *more is 0 after the last one. */
static enum mds_rc read_line(struct gff3 *g, int *more)
{
    size_t n = 0;

    for (*more = 1;;) {
        if (g->pos == g->len) {
            MDS_TRY(mds_reader_next(g->reader, &g->block, &g->len));
            g->pos = 0;
        }
        if (g->len == 0 || g->block[g->pos] == '\n')
            break;
        if (n == sizeof g->text - 1)
            return mds_fail(MDS_EUSER,
                            "%s:%lld: a line of more than %d bytes: is this GFF3?",
                            g->out->path, (long long)g->line + 1, LINE_MAX_BYTES - 1);
        g->text[n++] = (char)g->block[g->pos++];
    }
    *more = n > 0 || g->len > 0;
    g->pos += g->len > 0;
    g->line++;
    n -= n > 0 && g->text[n - 1] == '\r';
    g->text[n] = '\0';
    return MDS_OK;
}

static enum mds_rc refuse(const struct gff3 *g, const char *what, const char *value)
{
    return mds_fail(MDS_EUSER, "%s:%lld: %s '%.40s': is this GFF3?", g->out->path,
                    (long long)g->line, what, value);
}

static enum mds_rc refuse_columns(const struct gff3 *g, int columns)
{
    return mds_fail(MDS_EUSER,
                    "%s:%lld: %d column%s, where GFF3 has nine, separated by tabs",
                    g->out->path, (long long)g->line, columns, columns == 1 ? "" : "s");
}

static int split_columns(char *text, char *column[COLUMNS])
{
    int n = 0;

    for (char *at = text; at && n < COLUMNS; n++) {
        column[n] = at;
        at = strchr(at, '\t');
        if (at)
            *at++ = '\0';
    }
    return n;
}

/* ---- one feature ---- */

static uint64_t hash_name(const char *name, size_t n)
{
    return mds_xxh64(name, mds_min(n, (size_t)NAME_MAX_BYTES));
}

/* The value of an attribute, up to the next ';'; NULL if there is none. */
static const char *find_attribute(const char *attributes, const char *name, size_t *n)
{
    size_t length = strlen(name);

    for (const char *at = attributes; at; at = strchr(at, ';')) {
        at += strspn(at, "; ");
        if (strncmp(at, name, length) == 0 && at[length] == '=') {
            *n = strcspn(at + length + 1, ";");
            return at + length + 1;
        }
    }
    return NULL;
}

/* The next of a line's Parents, which commas part; 0: there are no more. */
static uint64_t next_parent(const char **list, const char *end)
{
    const char *name = *list;
    size_t n;

    if (!name || name >= end)
        return 0;
    n = strcspn(name, ",;");
    *list = name + n + 1;
    return mds_xxh64(name, n);
}

static enum mds_rc parse_position(const struct gff3 *g, const char *text, int64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoll(text, &end, 10);
    if (end == text || *end || errno || *out < 1 || *out > INT64_MAX / 4)
        return refuse(g, "base", text);
    return MDS_OK;
}

static enum mds_rc parse_part(const struct gff3 *g, char *const column[COLUMNS],
                              struct mds_feature_part *p)
{
    int64_t begin;

    MDS_TRY(parse_position(g, column[BEGIN], &begin));
    MDS_TRY(parse_position(g, column[END], &p->end));
    if (p->end < begin)
        return refuse(g, "begins behind its end,", column[END]);
    if (!strchr("+-.?", column[STRAND][0]) || strlen(column[STRAND]) != 1)
        return refuse(g, "strand", column[STRAND]);
    if (!strchr("012.", column[PHASE][0]) || strlen(column[PHASE]) != 1)
        return refuse(g, "phase", column[PHASE]);
    if (strchr(column[ATTRIBUTES], '"') && !strchr(column[ATTRIBUTES], '='))
        return mds_fail(MDS_EUSER, "%s:%lld: GTF: convert it to GFF3 (gffread does)",
                        g->out->path, (long long)g->line);
    p->begin = begin - 1;
    p->first = 0;
    p->reverse = column[STRAND][0] == '-';
    p->phase = column[PHASE][0] == '.' ? MDS_PHASE_UNKNOWN
                                       : (unsigned char)(column[PHASE][0] - '0');
    p->record = hash_name(column[RECORD], strlen(column[RECORD]));
    p->line = g->line;
    return MDS_OK;
}

static enum mds_rc append_part(struct mds_features *f, const struct mds_feature_part *p)
{
    if (f->n == MDS_FEATURES_MOST)
        return mds_fail(MDS_EUSER, "%s: more than %d lines of type %s: use part of it",
                        f->path, MDS_FEATURES_MOST, f->type);
    MDS_TRY(mds_grow(&f->part, (size_t)f->n, sizeof *f->part));
    f->part[f->n++] = *p;
    return MDS_OK;
}

/* The line's part, for each of its Parents.  One with neither Parent nor ID is alone.
 */
static enum mds_rc add_parts(struct gff3 *g, char *const column[COLUMNS])
{
    struct mds_feature_part p = {0};
    const char *id, *parents;
    size_t n, all = 0;

    MDS_TRY(parse_part(g, column, &p));
    if (g->out->n == 0)
        snprintf(g->out->record, sizeof g->out->record, "%s", column[RECORD]);
    id = find_attribute(column[ATTRIBUTES], "ID", &n);
    p.id = id ? mds_xxh64(id, n) : 0;
    parents = find_attribute(column[ATTRIBUTES], "Parent", &all);
    if (all == 0) {
        p.feature = id ? p.id : mds_xxh64(&g->line, sizeof g->line);
        return append_part(g->out, &p);
    }
    p.by_parent = 1;
    for (const char *end = parents + all; (p.feature = next_parent(&parents, end));)
        MDS_TRY(append_part(g->out, &p));
    return MDS_OK;
}

/* Of the types that are not asked for, messages name a few. */
static void note_other_type(struct gff3 *g, const char *type)
{
    enum { SHOWN = 6 };
    struct mds_str word = {0};

    mds_str_add(&word, "'%.30s'", type);
    if (g->n_others < SHOWN && !word.failed &&
        (!g->others.s || !strstr(g->others.s, word.s))) {
        mds_str_add(&g->others, "%s%s", g->n_others > 0 ? ", " : "", word.s);
        g->n_others++;
    }
    mds_str_fini(&word);
}

static enum mds_rc add_name(struct mds_name_set *s, uint64_t hash)
{
    if (s->n > 0 && s->hash[s->n - 1] == hash)
        return MDS_OK;
    MDS_TRY(mds_grow(&s->hash, (size_t)s->n, sizeof *s->hash));
    s->hash[s->n++] = hash;
    return MDS_OK;
}

static enum mds_rc note_parents(struct gff3 *g, const char *attributes)
{
    size_t n = 0;
    const char *list = find_attribute(attributes, "Parent", &n);
    uint64_t parent;

    for (const char *end = list ? list + n : NULL; (parent = next_parent(&list, end));)
        MDS_TRY(add_name(&g->parents, parent));
    return MDS_OK;
}

static enum mds_rc note_circular(struct gff3 *g, char *const column[COLUMNS])
{
    size_t n;
    const char *is = find_attribute(column[ATTRIBUTES], "Is_circular", &n);

    if (!is || n != 4 || strncmp(is, "true", n) != 0)
        return MDS_OK;
    return add_name(&g->out->circular,
                    hash_name(column[RECORD], strlen(column[RECORD])));
}

/* *more becomes 0 where the features end and FASTA begins. */
static enum mds_rc read_feature(struct gff3 *g, int *more)
{
    char *column[COLUMNS];
    int columns;

    if (g->text[0] == '>' || strncmp(g->text, "##FASTA", 7) == 0)
        *more = 0;
    if (!*more || g->text[0] == '#' || g->text[strspn(g->text, " \t")] == '\0')
        return MDS_OK;
    columns = split_columns(g->text, column);
    if (columns < COLUMNS)
        return refuse_columns(g, columns);
    MDS_TRY(note_circular(g, column));
    if (strcmp(column[TYPE], g->out->type) == 0)
        return add_parts(g, column);
    note_other_type(g, column[TYPE]);
    return note_parents(g, column[ATTRIBUTES]);
}

/* ---- the file ---- */

static int compare_numbers(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_number(const void *x, const void *y)
{
    const uint64_t *a = x, *b = y;

    return compare_numbers(*a, *b);
}

static void sort_names(struct mds_name_set *s)
{
    if (s->n > 0)
        qsort(s->hash, (size_t)s->n, sizeof *s->hash, by_number);
}

static int has_name(const struct mds_name_set *s, uint64_t hash)
{
    return s->n > 0 &&
           bsearch(&hash, s->hash, (size_t)s->n, sizeof *s->hash, by_number) != NULL;
}

static int by_id(const void *x, const void *y)
{
    const struct mds_feature_part *a = x, *b = y;
    int order = compare_numbers(a->record, b->record);

    if (order == 0)
        order = compare_numbers(a->id, b->id);
    return order ? order : compare_numbers((uint64_t)a->line, (uint64_t)b->line);
}

/* Features by ID are what several lines have the ID of, or other lines are parts of.
 * Their lines are there once, whatever the Parents. */
static void settle_ids(struct mds_features *f, const struct mds_name_set *parents)
{
    struct mds_feature_part *p = f->part;
    int64_t kept = 0, n;

    qsort(p, (size_t)f->n, sizeof *p, by_id);
    for (int64_t i = 0; i < f->n; i += n) {
        int by_parent = p[i].id == 0 || !has_name(parents, p[i].id);

        for (n = 1; i + n < f->n && p[i + n].record == p[i].record &&
                    p[i + n].id == p[i].id && p[i].id != 0;
             n++)
            by_parent &= p[i + n].line == p[i].line;
        for (int64_t k = i; k < i + n; k++) {
            if (!by_parent && k > i && p[k].line == p[k - 1].line)
                continue;
            if (!by_parent) {
                p[k].by_parent = 0;
                p[k].feature = p[k].id;
            }
            p[kept++] = p[k];
        }
    }
    f->n = kept;
}

static int by_feature(const void *x, const void *y)
{
    const struct mds_feature_part *a = x, *b = y;
    int order = compare_numbers(a->record, b->record);

    if (order == 0)
        order = compare_numbers((uint64_t)a->first, (uint64_t)b->first);
    if (order == 0)
        order = compare_numbers(a->feature, b->feature);
    if (order == 0)
        order = a->by_parent - b->by_parent;
    return order ? order : compare_numbers((uint64_t)a->begin, (uint64_t)b->begin);
}

/* While all `first` are 0, the parts of a feature come together; then `first` is known.
 */
static void sort_parts(struct mds_features *f)
{
    struct mds_feature_part *p = f->part;

    qsort(p, (size_t)f->n, sizeof *p, by_feature);
    for (int64_t i = 0; i < f->n; i++) {
        int same = i > 0 && p[i].record == p[i - 1].record &&
                   p[i].feature == p[i - 1].feature &&
                   p[i].by_parent == p[i - 1].by_parent;

        p[i].first = same ? p[i - 1].first : p[i].begin;
    }
    qsort(p, (size_t)f->n, sizeof *p, by_feature);
}

static enum mds_rc read_features(struct gff3 *g)
{
    int more = 1;

    while (more) {
        MDS_TRY(read_line(g, &more));
        MDS_TRY(read_feature(g, &more));
    }
    if (g->out->n == 0)
        return mds_fail(MDS_EUSER, "%s: no feature of type '%s' in it%s%s",
                        g->out->path, g->out->type, g->others.s ? "; it has " : "",
                        g->others.s ? g->others.s : "");
    sort_names(&g->parents);
    sort_names(&g->out->circular);
    settle_ids(g->out, &g->parents);
    sort_parts(g->out);
    return MDS_OK;
}

enum mds_rc mds_features_read(const char *path, const char *type,
                              struct mds_features *out)
{
    struct gff3 *g = mds_zalloc(1, sizeof *g);
    enum mds_rc rc;

    *out = (struct mds_features){.path = path, .type = type};
    if (!g)
        return MDS_EMEM;
    g->out = out;
    rc = mds_reader_open(path, &g->reader);
    if (!rc)
        rc = read_features(g);
    if (rc)
        mds_features_fini(out);
    mds_reader_close(g->reader);
    mds_str_fini(&g->others);
    free(g->parents.hash);
    free(g);
    return rc;
}

void mds_features_fini(struct mds_features *f)
{
    free(f->part);
    free(f->circular.hash);
    *f = (struct mds_features){0};
}

/* ---- by record ---- */

int64_t mds_features_on(const struct mds_features *f, const char *record,
                        const struct mds_feature_part **parts)
{
    uint64_t hash = hash_name(record, strlen(record));
    int64_t low = 0, high = f->n, end;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;

        if (f->part[middle].record < hash)
            low = middle + 1;
        else
            high = middle;
    }
    for (end = low; end < f->n && f->part[end].record == hash; end++)
        ;
    *parts = f->part + low;
    return end - low;
}

int mds_features_circular(const struct mds_features *f, const char *record)
{
    return has_name(&f->circular, hash_name(record, strlen(record)));
}

enum mds_rc mds_features_check(const struct mds_features *f, const char *record,
                               int64_t length, const struct mds_feature_part *parts,
                               int64_t n)
{
    int circular = mds_features_circular(f, record);

    for (int64_t i = 0; i < n; i++) {
        int64_t most = circular ? parts[i].begin + length : length;

        if (parts[i].begin >= length || parts[i].end > most)
            return mds_fail(MDS_EUSER,
                            "%s: a %s is at bases %lld to %lld of record '%s', which "
                            "has %lld: are they of the same assembly?%s",
                            f->path, f->type, (long long)parts[i].begin + 1,
                            (long long)parts[i].end, record, (long long)length,
                            circular ? "" : " (a circular one needs Is_circular=true)");
    }
    return MDS_OK;
}
