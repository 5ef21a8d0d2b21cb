/* SPDX-License-Identifier: BSD-3-Clause */
/* Read a plain or gzip-compressed input block by block. */
#ifndef MDS_IO_READER_H
#define MDS_IO_READER_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct mds_reader;

/* gzip is recognised by its first two bytes, not by the name; files of several members
 * (bgzip) are read to the end.  "-" is standard input. */
enum mds_rc mds_reader_open(const char *path, struct mds_reader **out);
/* Read from bytes in memory, borrowed until close; name is for messages. */
enum mds_rc mds_reader_memory(const void *bytes, size_t n, const char *name,
                              struct mds_reader **out);
void mds_reader_close(struct mds_reader *r); /* NULL is fine */

/* The next block of decompressed bytes, borrowed until the next call; *n is 0 at the
 * end.  MDS_EUSER for a damaged or truncated gzip stream. */
enum mds_rc mds_reader_next(struct mds_reader *r, const unsigned char **block,
                            size_t *n);

const char *mds_reader_name(const struct mds_reader *r);
int64_t mds_reader_raw_bytes(const struct mds_reader *r); /* read so far, as stored */

/* SHA-256 of the stored bytes in hex; valid once the end was reached. */
void mds_reader_sha256(const struct mds_reader *r, char hex[65]);

#endif
