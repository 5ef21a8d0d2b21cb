/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON lines: one JSON object per line. */
#ifndef MDS_IO_JSONL_H
#define MDS_IO_JSONL_H

#include "base/status.h"
#include "base/str.h"

#include <stdint.h>

struct mds_jsonl;

/* Remove the records whose integer `key` is above `most`, and an unfinished last line:
 * for a run that resumes from an earlier iteration.  Does nothing if path is not a
 * regular file. */
enum mds_rc mds_jsonl_truncate(const char *path, const char *key, int64_t most);

/* Append to out the last line that has `text` in it; nothing if there is none, or no
 * regular file. */
void mds_jsonl_find_last(const char *path, const char *text, struct mds_str *out);

/* Create or truncate the file; with append, keep its contents. */
enum mds_rc mds_jsonl_open(const char *path, int append, struct mds_jsonl **out);

/* Call begin, any number of adds, and end, which writes and flushes the line.  Errors
 * of the adds (memory) and of the disk are returned by end.  Keys and values are
 * escaped; bytes that are not UTF-8 become U+FFFD; NaN, infinities and NULL become
 * null. */
void mds_jsonl_begin(struct mds_jsonl *j);
void mds_jsonl_add_string(struct mds_jsonl *j, const char *key, const char *value);
void mds_jsonl_add_int(struct mds_jsonl *j, const char *key, int64_t value);
void mds_jsonl_add_real(struct mds_jsonl *j, const char *key, double value);
void mds_jsonl_add_reals(struct mds_jsonl *j, const char *key, const double *value,
                         int64_t n);
enum mds_rc mds_jsonl_end(struct mds_jsonl *j);

/* Let the lines written so far survive a power failure. */
enum mds_rc mds_jsonl_sync(struct mds_jsonl *j);

/* Frees j in any case; NULL is fine. */
enum mds_rc mds_jsonl_close(struct mds_jsonl *j);

#endif
