/* SPDX-License-Identifier: BSD-3-Clause */
/* Exactly so many bytes of an open file, at a place of their own.  0 or errno; ENODATA:
 * the file ends too early.  Any thread. */
#ifndef MDS_IO_EXACT_H
#define MDS_IO_EXACT_H

#include <stdint.h>

int mds_read_exact(int fd, int64_t at, void *buf, int64_t bytes);
int mds_write_exact(int fd, int64_t at, const void *buf, int64_t bytes);

#endif
