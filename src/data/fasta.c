/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/fasta.h"

#include "base/alloc.h"
#include "base/minmax.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_ROOM = 256 };

struct mds_fasta {
    struct mds_reader *reader; /* borrowed */
    const unsigned char *block;
    size_t pos, len;
    int64_t line; /* from 1 */
    int line_start, in_record;
    char name[NAME_ROOM];
};

/* What a byte inside a sequence means; 0 is REFUSED, BASE and more are bases. */
enum { REFUSED, SKIPPED, NEWLINE, BASE };
enum { A = BASE + MDS_BASE_A, C, G, T, N, LOWER = MDS_BASE_LOWER };

static const unsigned char meaning[256] = {
    ['A'] = A,         ['C'] = C,         ['G'] = G,         ['T'] = T,
    ['U'] = T,         ['R'] = N,         ['Y'] = N,         ['S'] = N,
    ['W'] = N,         ['K'] = N,         ['M'] = N,         ['B'] = N,
    ['D'] = N,         ['H'] = N,         ['V'] = N,         ['N'] = N,
    ['a'] = A + LOWER, ['c'] = C + LOWER, ['g'] = G + LOWER, ['t'] = T + LOWER,
    ['u'] = T + LOWER, ['r'] = N + LOWER, ['y'] = N + LOWER, ['s'] = N + LOWER,
    ['w'] = N + LOWER, ['k'] = N + LOWER, ['m'] = N + LOWER, ['b'] = N + LOWER,
    ['d'] = N + LOWER, ['h'] = N + LOWER, ['v'] = N + LOWER, ['n'] = N + LOWER,
    ['-'] = N,         ['.'] = N,         [' '] = SKIPPED,   ['\t'] = SKIPPED,
    ['\r'] = NEWLINE,  ['\n'] = NEWLINE,
};

enum mds_rc mds_fasta_create(struct mds_reader *r, struct mds_fasta **out)
{
    struct mds_fasta *f = mds_zalloc(1, sizeof *f);

    if (!f)
        return MDS_EMEM;
    f->reader = r;
    f->line = 1;
    f->line_start = 1;
    *out = f;
    return MDS_OK;
}

void mds_fasta_destroy(struct mds_fasta *f)
{
    free(f);
}

const char *mds_fasta_name(const struct mds_fasta *f)
{
    return f->name;
}

/* *c = the next byte, not consumed; -1 at the end of the file. */
static enum mds_rc peek_byte(struct mds_fasta *f, int *c)
{
    if (f->pos == f->len) {
        MDS_TRY(mds_reader_next(f->reader, &f->block, &f->len));
        f->pos = 0;
    }
    *c = f->len > 0 ? f->block[f->pos] : -1;
    return MDS_OK;
}

/* Drop the rest of the line; its first word, without control characters, goes to name
 * (NULL: nowhere). */
static enum mds_rc skip_line(struct mds_fasta *f, char *name)
{
    size_t n = 0;
    int c, in_word = 1;

    for (;;) {
        MDS_TRY(peek_byte(f, &c));
        if (c < 0)
            break;
        f->pos++;
        if (c == '\n' || c == '\r')
            break;
        in_word = in_word && !isspace(c);
        if (name && in_word && n < NAME_ROOM - 1)
            name[n++] = isprint(c) ? (char)c : '?';
    }
    if (name)
        name[n] = '\0';
    f->line += c != '\r'; /* counted with the '\n' after it */
    f->line_start = 1;
    return MDS_OK;
}

static enum mds_rc refuse_letter(const struct mds_fasta *f, int c)
{
    if (isalpha(c) || c == '*')
        return mds_fail(
            MDS_EUSER,
            "%s:%lld: record '%s': '%c' is a protein letter: give the genome "
            "or the coding sequences as nucleotides",
            mds_reader_name(f->reader), (long long)f->line, f->name, c);
    return mds_fail(
        MDS_EUSER,
        "%s:%lld: record '%s': byte 0x%02x is no nucleotide: is this a FASTA "
        "file?",
        mds_reader_name(f->reader), (long long)f->line, f->name, c);
}

static enum mds_rc refuse_missing_header(const struct mds_fasta *f, int c)
{
    return mds_fail(MDS_EUSER, "%s:%lld: no '>' line before this: %s",
                    mds_reader_name(f->reader), (long long)f->line,
                    c == '@' ? "FASTQ? convert it with seqtk seq -a"
                             : "is this a FASTA file?");
}

/* Only blank lines, comments and a UTF-8 byte order mark may come before the first
 * record. */
static enum mds_rc find_first_header(struct mds_fasta *f, int *found)
{
    int c;

    for (;;) {
        MDS_TRY(peek_byte(f, &c));
        if (c < 0 || c == '>')
            break;
        if (c == ';') {
            MDS_TRY(skip_line(f, NULL));
            continue;
        }
        if (!isspace(c) && !(f->line == 1 && memchr("\xef\xbb\xbf", c, 3)))
            return refuse_missing_header(f, c);
        f->line += c == '\n';
        f->pos++;
    }
    *found = c == '>';
    return MDS_OK;
}

enum mds_rc mds_fasta_next(struct mds_fasta *f, int *found)
{
    unsigned char dropped[4096];
    size_t n;
    int c;

    if (f->in_record) {
        do
            MDS_TRY(mds_fasta_read(f, dropped, sizeof dropped, &n));
        while (n > 0);
        MDS_TRY(peek_byte(f, &c));
        *found = c >= 0;
    } else {
        MDS_TRY(find_first_header(f, found));
    }
    if (!*found)
        return MDS_OK;
    f->in_record = 1;
    f->pos++; /* the '>' */
    return skip_line(f, f->name);
}

/* Bases up to the first byte that is none; returns how many. */
static size_t copy_bases(const unsigned char *from, size_t n, unsigned char *bases)
{
    size_t i = 0;

    for (; i < n && meaning[from[i]] >= BASE; i++)
        bases[i] = (unsigned char)(meaning[from[i]] - BASE);
    return i;
}

/* Bases from the current buffer, up to the next header or comment line. */
static enum mds_rc read_bases(struct mds_fasta *f, unsigned char *bases,
                              size_t capacity, size_t *n)
{
    size_t taken = 0;

    while (f->pos < f->len && taken < capacity) {
        size_t most = mds_min(f->len - f->pos, capacity - taken);
        size_t run = copy_bases(f->block + f->pos, most, bases + taken);
        int c;

        f->pos += run;
        taken += run;
        f->line_start = f->line_start && run == 0;
        if (run == most)
            break;
        c = f->block[f->pos];
        if (f->line_start && (c == '>' || c == ';'))
            break;
        if (c == '\n')
            f->line++;
        else if (meaning[c] == REFUSED)
            return refuse_letter(f, c);
        f->line_start = meaning[c] == NEWLINE;
        f->pos++;
    }
    *n = taken;
    return MDS_OK;
}

enum mds_rc mds_fasta_read(struct mds_fasta *f, unsigned char *bases, size_t capacity,
                           size_t *n)
{
    size_t have = 0, got = 0;
    int c;

    while (have < capacity) {
        MDS_TRY(peek_byte(f, &c));
        if (c < 0 || (c == '>' && f->line_start))
            break;
        if (c == ';' && f->line_start) {
            MDS_TRY(skip_line(f, NULL));
            continue;
        }
        MDS_TRY(read_bases(f, bases + have, capacity - have, &got));
        have += got;
    }
    *n = have;
    return MDS_OK;
}
