/* SPDX-License-Identifier: BSD-3-Clause */
/* Read or write exactly `bytes` bytes of an open file at offset `at`.  Returns 0 or an
 * errno; ENODATA if the file ends too early.  Thread-safe. */
#ifndef MDS_IO_EXACT_H
#define MDS_IO_EXACT_H

#include <stdint.h>

int mds_read_exact(int fd, int64_t at, void *buf, int64_t bytes);
int mds_write_exact(int fd, int64_t at, const void *buf, int64_t bytes);

#endif
