/* SPDX-License-Identifier: BSD-3-Clause */
/* A table of lines that are written a few at a time: if the disk is full, the lines
 * before are there, and no half of one behind them. */
#ifndef MDS_INFER_TABLE_H
#define MDS_INFER_TABLE_H

#include "base/str.h"
#include "base/status.h"

#include <stdint.h>
#include <stdio.h>

struct mds_infer_table {
    const char *path; /* borrowed; NULL: standard output */
    int fd;
    int64_t header;      /* bytes of a new file's; -1: it is resumed */
    struct mds_str text; /* whole lines that wait */
    int64_t lines;       /* of the text */
    int64_t written;     /* lines of data that are in the file */
    FILE *old;           /* to read what an earlier job wrote, or NULL */
    char *line;
    size_t room;
};

/* header: a line, or NULL.  MDS_EUSER if there is such a file, unless overwrite is set.
 */
enum mds_rc mds_infer_table_open(struct mds_infer_table *t, const char *path,
                                 int overwrite, const char *header);
/* Go on with a table that is there: *lines is how many whole ones of data it has.  Then
 * check them in turn; what is behind the last one checked goes when the next is
 * written.  MDS_EUSER if its header is another. */
enum mds_rc mds_infer_table_resume(struct mds_infer_table *t, const char *path,
                                   const char *header, int64_t *lines);
/* MDS_EUSER unless the next line begins with these columns, and a tab. */
enum mds_rc mds_infer_table_check(struct mds_infer_table *t, const char *columns);

/* Write the lines that wait in t->text, t->lines of them. */
enum mds_rc mds_infer_table_flush(struct mds_infer_table *t);
enum mds_rc mds_infer_table_close(struct mds_infer_table *t); /* zeroed is fine */
/* After a failure, in place of close: a new file without a line of data goes, and what
 * mds_infer_origin_write wrote beside it. */
void mds_infer_table_abandon(struct mds_infer_table *t);

/* Append a number with as many digits as it takes to read the same one back. */
void mds_infer_add_real(struct mds_str *out, double x);

#endif
