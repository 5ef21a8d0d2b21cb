/* SPDX-License-Identifier: BSD-3-Clause */
/* Token ids as text, one document per line: decimal numbers separated by blanks, commas
 * or brackets, so a line may be a JSON list.  Empty lines are skipped. */
#ifndef MDS_DATA_ID_LINES_H
#define MDS_DATA_ID_LINES_H

#include "base/status.h"
#include "io/reader.h"

struct mds_id_lines {
    struct mds_reader *reader; /* borrowed */
    const unsigned char *block;
    size_t pos, len;
    int64_t line;   /* from 1 */
    int64_t limit;  /* ids must be smaller */
    int64_t number; /* the digits read so far, or -1 between numbers */
};

/* Where a read stopped: inside a line, at its end, at the end of the input. */
enum mds_id_lines_at { MDS_ID_LINES_INSIDE, MDS_ID_LINES_LINE, MDS_ID_LINES_END };

void mds_id_lines_init(struct mds_id_lines *l, struct mds_reader *r, int64_t limit);

/* Read up to `capacity` ids of this line.  MDS_EUSER, with file and line, for anything
 * that is not an id. */
enum mds_rc mds_id_lines_read(struct mds_id_lines *l, int32_t *ids, size_t capacity,
                              size_t *n, enum mds_id_lines_at *at);

#endif
