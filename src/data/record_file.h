/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes in an unnamed temporary file: the bases of the current FASTA record, which is
 * read once per strand and frame, and backwards, as a .gz cannot be; or tokens that
 * wait for their turn. */
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

/* Create it in the folder of `near`, the output: that file system must have space. */
enum mds_rc mds_record_file_init(const char *near, struct mds_record_file *s);
void mds_record_file_fini(struct mds_record_file *s);

void mds_record_file_clear(struct mds_record_file *s); /* make it empty */
enum mds_rc mds_record_file_append(struct mds_record_file *s, const void *bytes,
                                   size_t n);
/* Read n bytes from offset on; all of them must have been appended. */
enum mds_rc mds_record_file_read(const struct mds_record_file *s, int64_t offset,
                                 void *bytes, size_t n);

#endif
