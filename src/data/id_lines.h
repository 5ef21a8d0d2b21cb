/* SPDX-License-Identifier: BSD-3-Clause */
/* Token ids in text, a document a line: decimal numbers between blanks, commas or
 * brackets, so that a line may be a list of JSON.  Empty lines are no documents. */
#ifndef MDS_DATA_ID_LINES_H
#define MDS_DATA_ID_LINES_H

#include "base/status.h"
#include "io/reader.h"

struct mds_id_lines {
    struct mds_reader *reader; /* borrowed */
    const unsigned char *block;
    size_t pos, len;
    int64_t line;   /* from 1 */
    int64_t limit;  /* ids are below it */
    int64_t number; /* what was read of it, or -1 between numbers */
};

/* Where a read ended. */
enum mds_id_lines_at { MDS_ID_LINES_INSIDE, MDS_ID_LINES_LINE, MDS_ID_LINES_END };

void mds_id_lines_init(struct mds_id_lines *l, struct mds_reader *r, int64_t limit);

/* Up to room ids of this line.  MDS_EUSER names file and line of what is no id. */
enum mds_rc mds_id_lines_read(struct mds_id_lines *l, int32_t *ids, size_t room,
                              size_t *n, enum mds_id_lines_at *at);

#endif
