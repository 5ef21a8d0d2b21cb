/* SPDX-License-Identifier: BSD-3-Clause */
/* A command as its words, and as a line that a POSIX shell takes apart into them. */
#ifndef MDS_LAUNCH_WORDS_H
#define MDS_LAUNCH_WORDS_H

#include "base/str.h"

#include <stddef.h>

/* Zero-initialise.  v ends with NULL once there is a word.  On memory failure the words
 * so far are kept and failed is set: check once, at the end. */
struct mds_words {
    char **v;
    size_t n;
    int failed;
};

void mds_words_add(struct mds_words *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The parts of text between blanks, each a word. */
void mds_words_split(struct mds_words *w, const char *text);
void mds_words_fini(struct mds_words *w);

/* Whether no shell would change text, nor take it for two words. */
int mds_is_plain(const char *text);

/* text as it is if it is plain, else in single quotes. */
void mds_quote(const char *text, struct mds_str *out);

/* All words quoted, with blanks between; where fold is not NULL, that text instead of a
 * blank before each word that begins with --, so that a long line can be read. */
void mds_words_line(const struct mds_words *w, const char *fold, struct mds_str *out);

#endif
