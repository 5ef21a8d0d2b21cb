/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/str.h"
#include "base/alloc.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int reserve_bytes(struct mds_str *b, size_t more)
{
    size_t cap = b->cap ? b->cap : 64;
    char *s;

    while (cap < b->len + more + 1)
        cap *= 2;
    if (cap == b->cap)
        return 0;
    s = mds_realloc(b->s, cap, 1);
    if (!s) {
        b->failed = 1;
        return -1;
    }
    b->s = s;
    b->cap = cap;
    return 0;
}

void mds_str_add(struct mds_str *b, const char *fmt, ...)
{
    va_list ap, again;
    int n;

    va_start(ap, fmt);
    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n >= 0 && reserve_bytes(b, (size_t)n) == 0) {
        vsnprintf(b->s + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

/* Bytes of the UTF-8 sequence at s, or 0 if it is none (RFC 3629: shortest form, no
 * surrogates, up to U+10FFFF). */
static int utf8_length(const unsigned char *s)
{
    int n = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

    if (n == 1)
        return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

int mds_json_escape(const char *text, char out[MDS_JSON_ESCAPED], int *n)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *s = (const unsigned char *)text;
    int length = utf8_length(s);

    if (length == 0) {
        memcpy(out, "\\ufffd", 6);
        *n = 6;
        return 1;
    }
    memcpy(out, s, (size_t)length);
    *n = length;
    if (*s < 0x20 || *s == 0x7f) {
        memcpy(out, "\\u00", 4);
        out[4] = digits[*s >> 4];
        out[5] = digits[*s & 15];
        *n = 6;
    } else if (*s == '"' || *s == '\\') {
        out[0] = '\\';
        out[1] = (char)*s;
        *n = 2;
    }
    return length;
}

void mds_json_quote(const char *text, struct mds_str *b)
{
    char c[MDS_JSON_ESCAPED];
    int n;

    mds_str_add(b, "\"");
    while (*text) {
        text += mds_json_escape(text, c, &n);
        mds_str_add(b, "%.*s", n, c);
    }
    mds_str_add(b, "\"");
}

void mds_str_fini(struct mds_str *b)
{
    free(b->s);
    *b = (struct mds_str){0};
}

enum { NAME_MAX_LEN = 63 };

/* Levenshtein's, with one row. */
int mds_str_distance(const char *a, const char *b)
{
    int row[NAME_MAX_LEN + 1];
    int la = (int)strnlen(a, NAME_MAX_LEN), lb = (int)strnlen(b, NAME_MAX_LEN);

    for (int j = 0; j <= lb; j++)
        row[j] = j;
    for (int i = 1; i <= la; i++) {
        int diag = row[0]; /* distance of the prefixes i-1 and j-1 */
        row[0] = i;
        for (int j = 1; j <= lb; j++) {
            int ca = a[i - 1] == '_' ? '-' : tolower((unsigned char)a[i - 1]);
            int cb = b[j - 1] == '_' ? '-' : tolower((unsigned char)b[j - 1]);
            int best = diag + (ca != cb);
            diag = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[lb];
}

const char *mds_str_nearest(const char *name, const char *const *candidates, size_t n)
{
    const char *best = NULL;
    int length = (int)strlen(name);
    /* A larger distance, or one in which every letter changes, is no misspelling. */
    int best_distance = length < 2 ? length : length / 3 + 2;

    for (size_t i = 0; i < n; i++) {
        int d = mds_str_distance(name, candidates[i]);
        if (d < best_distance) {
            best_distance = d;
            best = candidates[i];
        }
    }
    return best;
}

const char *mds_str_hint(const char *near, const char *otherwise,
                         char buf[MDS_HINT_SIZE])
{
    if (near)
        snprintf(buf, MDS_HINT_SIZE, "did you mean %s?", near);
    else
        snprintf(buf, MDS_HINT_SIZE, "%s", otherwise);
    return buf;
}

int mds_str_is_in(const char *name, const char *const *list)
{
    while (*list && strcmp(*list, name) != 0)
        list++;
    return *list != NULL;
}

int mds_str_ends_with(const char *text, const char *tail)
{
    size_t n = strlen(text), m = strlen(tail);

    return n > m && strcmp(text + n - m, tail) == 0;
}

int mds_path_is_in(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    return strncmp(path, folder, n) == 0 && (path[n] == '/' || !path[n]);
}
