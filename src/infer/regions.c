/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/regions.h"
#include "base/alloc.h"
#include "base/str.h"
#include "data/tokenizer.h"
#include "infer/genome.h"
#include "infer/lines.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct mds_infer_regions {
    struct mds_infer_lines lines;
    struct mds_genome *genome;
    const char *path, *fasta, *feature; /* borrowed */
    struct mds_str name;
    int64_t found;
};

enum { FIELDS = 12 };

enum mds_rc mds_infer_regions_open(const char *path, const char *fasta,
                                   const char *feature, struct mds_infer_regions **out)
{
    struct mds_infer_regions *g = mds_zalloc(1, sizeof *g);
    enum mds_rc rc;

    if (!g)
        return MDS_EMEM;
    g->path = path;
    g->fasta = fasta;
    g->feature = feature;
    rc = mds_reader_open(path, &g->lines.reader);
    if (!rc)
        rc = mds_genome_open(fasta, &g->genome);
    if (rc)
        mds_infer_regions_close(g);
    else
        *out = g;
    return rc;
}

void mds_infer_regions_close(struct mds_infer_regions *g)
{
    if (!g)
        return;
    mds_reader_close(g->lines.reader);
    mds_infer_lines_fini(&g->lines);
    mds_genome_close(g->genome);
    mds_str_fini(&g->name);
    free(g);
}

/* ---- lines ---- */

/* Returns how many; those behind the last are empty. */
static int split(char *line, char *field[FIELDS])
{
    int n = 0;

    for (char *at = line; at && n < FIELDS; n++) {
        field[n] = at;
        at = strchr(at, '\t');
        if (at)
            *at++ = '\0';
    }
    for (int i = n; i < FIELDS; i++)
        field[i] = line + strlen(line);
    return n;
}

/* -1: no such number. */
static int64_t number(const char *text)
{
    char *end;
    long long n = strtoll(text, &end, 10);

    return *text >= '0' && *text <= '9' && !*end ? n : -1;
}

/* What is written of an attribute of GFF3, in place; NULL without one. */
static const char *attribute(char *all, const char *key)
{
    size_t n = strlen(key);

    for (char *at = all; at; at = strchr(at, ';') ? strchr(at, ';') + 1 : NULL)
        if (strncmp(at, key, n) == 0 && at[n] == '=') {
            at[strcspn(at, ";")] = '\0';
            return at + n + 1;
        }
    return NULL;
}

/* What a line says; name: NULL if it has none.  *is: whether it is a region. */
static enum mds_rc parse(const struct mds_infer_regions *g,
                         struct mds_infer_region *out, int *is)
{
    char *field[FIELDS];
    int n = split(g->lines.text, field);
    int64_t end;

    *is = 1;
    out->chrom = field[0];
    if (number(field[1]) >= 0 && number(field[2]) >= 0) { /* BED */
        out->first = number(field[1]);
        end = number(field[2]);
        out->name = *field[3] && strcmp(field[3], ".") != 0 ? field[3] : NULL;
        out->reverse = *field[5] == '-';
    } else if (n >= 8 && number(field[3]) > 0 && number(field[4]) > 0) { /* GFF3 */
        *is = strcmp(field[2], g->feature) == 0;
        out->first = number(field[3]) - 1;
        end = number(field[4]);
        out->name = attribute(field[8], "ID");
        out->reverse = *field[6] == '-';
    } else {
        return mds_fail(MDS_EUSER,
                        "%s:%" PRId64 ": is neither BED (chrom, start and end, between "
                        "tabs) nor GFF3",
                        g->path, g->lines.number);
    }
    out->n = end - out->first;
    return MDS_OK;
}

static enum mds_rc check(const struct mds_infer_regions *g,
                         const struct mds_infer_region *r)
{
    int64_t length = mds_genome_length(g->genome, r->chrom);

    if (length < 0)
        return mds_fail(MDS_EUSER, "%s:%" PRId64 ": %s has no sequence '%s'", g->path,
                        g->lines.number, g->fasta, r->chrom);
    if (r->n < 1 || r->first + r->n > length)
        return mds_fail(MDS_EUSER,
                        "%s:%" PRId64 ": bases %" PRId64 " to %" PRId64
                        " are no part of %s, which has %" PRId64 " in %s",
                        g->path, g->lines.number, r->first + 1, r->first + r->n,
                        r->chrom, length, g->fasta);
    return MDS_OK;
}

static int is_comment(const char *line)
{
    return *line == '#' || strncmp(line, "track", 5) == 0 ||
           strncmp(line, "browser", 7) == 0;
}

static enum mds_rc name_it(struct mds_infer_regions *g, struct mds_infer_region *r)
{
    g->name.len = 0;
    mds_str_add(&g->name, "%s%s%s:%" PRId64 "-%" PRId64 "(%c)", r->name ? r->name : "",
                r->name ? "::" : "", r->chrom, r->first, r->first + r->n,
                r->reverse ? '-' : '+');
    r->name = g->name.s;
    return g->name.failed ? MDS_EMEM : MDS_OK;
}

static enum mds_rc check_any(const struct mds_infer_regions *g)
{
    if (g->found > 0)
        return MDS_OK;
    return mds_fail(MDS_EUSER,
                    "%s: has no region: neither lines of BED nor, of GFF3, "
                    "features of type %s (--feature)",
                    g->path, g->feature);
}

enum mds_rc mds_infer_regions_next(struct mds_infer_regions *g,
                                   struct mds_infer_region *out, int *found)
{
    char *line;
    size_t n;

    do {
        MDS_TRY(mds_infer_lines_next(&g->lines, &n));
        line = g->lines.text;
        *found = 0;
        if (n == 0 || strncmp(line, "##FASTA", 7) == 0)
            return check_any(g);
        if (line[n - 1] == '\r')
            line[--n] = '\0';
        if (n > 0 && !is_comment(line))
            MDS_TRY(parse(g, out, found));
    } while (!*found);
    g->found++;
    MDS_TRY(check(g, out));
    return name_it(g, out);
}

enum mds_rc mds_infer_regions_read(struct mds_infer_regions *g,
                                   const struct mds_infer_region *r,
                                   unsigned char *bases)
{
    MDS_TRY(mds_genome_read(g->genome, r->chrom, r->first, r->n, bases));
    if (r->reverse)
        mds_bases_reverse(bases, (size_t)r->n);
    return MDS_OK;
}
