/* SPDX-License-Identifier: BSD-3-Clause */
/* Records for machines: one JSON object a line. */
#ifndef MDS_IO_JSONL_H
#define MDS_IO_JSONL_H

#include "base/status.h"

#include <stdint.h>

struct mds_jsonl;

/* Drop the records whose integer `key` is above `most`, and a last one that was not
 * finished: for a run that goes on from an earlier place.  What is no regular file, or
 * not there, is left alone. */
enum mds_rc mds_jsonl_truncate(const char *path, const char *key, int64_t most);

/* Create (or empty) the file, or with append keep what it has. */
enum mds_rc mds_jsonl_open(const char *path, int append, struct mds_jsonl **out);

/* begin, any number of adds, end.  end writes the line and flushes it, and is where
 * trouble of the adds (memory) and of the disk is reported.  Keys and values are
 * escaped; bytes that are not UTF-8 become U+FFFD; NaN, infinities and a NULL string
 * become null. */
void mds_jsonl_begin(struct mds_jsonl *j);
void mds_jsonl_add_string(struct mds_jsonl *j, const char *key, const char *value);
void mds_jsonl_add_int(struct mds_jsonl *j, const char *key, int64_t value);
void mds_jsonl_add_real(struct mds_jsonl *j, const char *key, double value);
enum mds_rc mds_jsonl_end(struct mds_jsonl *j);

/* Frees j in any case; NULL is fine. */
enum mds_rc mds_jsonl_close(struct mds_jsonl *j);

#endif
