/* SPDX-License-Identifier: BSD-3-Clause */
/* Growing strings, suggestions for misspelt names, and string tests. */
#ifndef MDS_BASE_STR_H
#define MDS_BASE_STR_H

#include <stddef.h>

/* Zero-initialise; s is NULL or NUL-terminated.  If memory runs out the text so far is
 * kept and `failed` is set: check it once at the end. */
struct mds_str {
    char *s;
    size_t len, cap;
    int failed;
};

void mds_str_add(struct mds_str *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void mds_str_fini(struct mds_str *b);

/* Append text to out as a quoted JSON string on one line; invalid UTF-8 becomes
 * U+FFFD. */
void mds_json_quote(const char *text, struct mds_str *out);

/* Write the first character of text, which has one, to out as it stands in such a
 * string: *n bytes.  Returns how many bytes of text that took.  Async-signal-safe. */
enum { MDS_JSON_ESCAPED = 6 };
int mds_json_escape(const char *text, char out[MDS_JSON_ESCAPED], int *n);

/* Levenshtein distance of the first 63 letters of a and b, ignoring case; '-' and '_'
 * are the same. */
int mds_str_distance(const char *a, const char *b);

/* The candidate, of n, with the smallest distance to name; NULL if none is close enough
 * to be a likely misspelling. */
const char *mds_str_nearest(const char *name, const char *const *candidates, size_t n);

/* The end of an error message about an unknown name: "did you mean NEAR?", or
 * `otherwise` if near is NULL.  Returns buf. */
enum { MDS_HINT_SIZE = 160 };
const char *mds_str_hint(const char *near, const char *otherwise,
                         char buf[MDS_HINT_SIZE]);

/* Whether name is in the list, which ends with NULL. */
int mds_str_is_in(const char *name, const char *const *list);

/* Whether text ends with tail, and is longer. */
int mds_str_ends_with(const char *text, const char *tail);

/* Whether path is the folder or below it, comparing text only. */
int mds_path_is_in(const char *path, const char *folder);

#endif
