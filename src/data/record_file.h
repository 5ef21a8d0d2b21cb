/* SPDX-License-Identifier: BSD-3-Clause */
/* One byte a base of the record at hand, in a file that has no name: a record is read
 * once for every strand and frame, and backwards, which a .gz cannot. */
#ifndef MDS_DATA_RECORD_FILE_H
#define MDS_DATA_RECORD_FILE_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct mds_record_file {
    const char *near; /* borrowed, for messages */
    int fd;
    int64_t length; /* bytes held */
};

/* Beside `near`, where there is room for the output anyway. */
enum mds_rc mds_record_file_init(const char *near, struct mds_record_file *s);
void mds_record_file_fini(struct mds_record_file *s);

void mds_record_file_clear(struct mds_record_file *s); /* forget what it holds */
enum mds_rc mds_record_file_append(struct mds_record_file *s, const void *bytes,
                                   size_t n);
/* n bytes from offset, all of which must be there. */
enum mds_rc mds_record_file_read(const struct mds_record_file *s, int64_t offset,
                                 void *bytes, size_t n);

#endif
