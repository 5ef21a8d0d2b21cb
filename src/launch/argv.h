/* SPDX-License-Identifier: BSD-3-Clause */
/* Argument vectors that grow, and their quoting for a POSIX shell. */
#ifndef MDS_LAUNCH_ARGV_H
#define MDS_LAUNCH_ARGV_H

#include "base/str.h"

#include <stddef.h>

/* Zero-initialise.  v is NULL-terminated once it has an argument.  If memory runs out,
 * `failed` is set and the arguments so far are kept: check it once, at the end. */
struct mds_argv {
    char **v;
    size_t n;
    int failed;
};

void mds_argv_add(struct mds_argv *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* An option and its value. */
void mds_argv_add_option(struct mds_argv *w, const char *flag, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

void mds_argv_add_words(struct mds_argv *w, size_t n, char *const *words);

/* Add each blank-separated word of text. */
void mds_argv_add_split(struct mds_argv *w, const char *text);
void mds_argv_fini(struct mds_argv *w);

/* Whether text needs no quoting in a shell. */
int mds_shell_is_plain(const char *text);

/* Append text, in single quotes unless it is plain. */
void mds_shell_quote(const char *text, struct mds_str *out);

/* Append all arguments, quoted, separated by blanks.  If fold is not NULL it replaces
 * the blank before each argument that begins with --, to break long lines. */
void mds_argv_format(const struct mds_argv *w, const char *fold, struct mds_str *out);

#endif
