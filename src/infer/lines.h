/* SPDX-License-Identifier: BSD-3-Clause */
/* The lines of a text, plain or compressed. */
#ifndef MDS_INFER_LINES_H
#define MDS_INFER_LINES_H

#include "io/reader.h"

struct mds_infer_lines {
    struct mds_reader *reader; /* borrowed */
    int64_t number;            /* of the current line, from 1 */
    const unsigned char *block;
    size_t at, end; /* in block */
    char *text;     /* [room], owned */
    int64_t room;   /* bytes */
};

/* The next line that is not empty, without its end, in l->text; *length is 0 behind the
 * last. */
enum mds_rc mds_infer_lines_next(struct mds_infer_lines *l, size_t *length);
void mds_infer_lines_fini(struct mds_infer_lines *l); /* a zeroed struct is fine */

#endif
