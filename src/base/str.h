/* SPDX-License-Identifier: BSD-3-Clause */
/* A growing string, the nearest name for "did you mean", and paths by their names. */
#ifndef MDS_BASE_STR_H
#define MDS_BASE_STR_H

#include <stddef.h>

/* Zero-initialise; s is NULL or NUL-terminated.  On memory failure the text so far is
 * kept and failed is set: check once, at the end. */
struct mds_str {
    char *s;
    size_t len, cap;
    int failed;
};

void mds_str_add(struct mds_str *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void mds_str_fini(struct mds_str *b);

/* Add text to out as a JSON string, quotes included, in one line; bytes that are not
 * UTF-8 become U+FFFD. */
void mds_json_quote(const char *text, struct mds_str *out);

/* How many letters have to be put in, left out or replaced to make b of a; letter case
 * aside, '-' and '_' alike, and of 63 letters at most. */
int mds_str_distance(const char *a, const char *b);

/* Of n candidates the one with the smallest edit distance to name, letter case aside;
 * NULL if none is near enough to be a likely slip. */
const char *mds_str_nearest(const char *name, const char *const *candidates, size_t n);

/* The end of a sentence about a name that nobody knows: "did you mean near?", or, if
 * near is NULL, `otherwise`.  Returns buf. */
enum { MDS_HINT_SIZE = 160 };
const char *mds_str_hint(const char *near, const char *otherwise,
                         char buf[MDS_HINT_SIZE]);

/* Whether name is one of the list, which NULL ends. */
int mds_str_is_in(const char *name, const char *const *list);

/* Whether path is the folder or below it, as they are written. */
int mds_path_is_in(const char *path, const char *folder);

#endif
