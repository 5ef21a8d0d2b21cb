/* SPDX-License-Identifier: BSD-3-Clause */
/* A file mapped read-only.  If it is truncated meanwhile, or the disk fails, access
 * raises SIGBUS: use it only for files that are read once. */
#ifndef MDS_IO_MAP_H
#define MDS_IO_MAP_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct mds_map {
    char *path;
    const unsigned char *bytes; /* NULL for an empty file */
    int64_t size;
};

enum mds_rc mds_map_open(const char *path, struct mds_map *out);
void mds_map_close(struct mds_map *m); /* zeroes *m; a zeroed one is fine */

#endif
