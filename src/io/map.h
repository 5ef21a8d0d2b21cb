/* A file mapped read-only, with every array taken out of it checked against its length.
 * (A file cut short by someone else while it is mapped still ends in SIGBUS.) */
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

/* The count elements of size bytes that start at byte offset: borrowed from m, not
 * aligned.  MDS_EUSER naming the file and `what` if they are not all inside it. */
enum mds_rc mds_map_array(const struct mds_map *m, int64_t offset, int64_t count,
                          int64_t size, const char *what, const unsigned char **out);

#endif
