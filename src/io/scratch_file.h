/* SPDX-License-Identifier: BSD-3-Clause */
/* Arrays that do not fit in memory: a nameless file, read and written in the
 * background.
 *
 * The file vanishes with the process, however that ends. */
#ifndef MDS_IO_SCRATCH_FILE_H
#define MDS_IO_SCRATCH_FILE_H

#include "io/worker.h"

#include <stdint.h>

struct mds_scratch_file;

/* One transfer; embedded like mds_task. */
struct mds_scratch_request {
    struct mds_task job;
    struct mds_scratch_file *file; /* these are scratch_file.c's */
    char *buf;
    int64_t offset, bytes;
    int write, err;
};

/* `bytes` zeros in `folder`, where the file system can reserve them; else only as much
 * of them is there as the disk turns out to hold. */
enum mds_rc mds_scratch_file_create(const char *folder, int64_t bytes,
                                    struct mds_scratch_file **out);

/* NULL is fine.  Transfers under way are finished first. */
void mds_scratch_file_destroy(struct mds_scratch_file *s);

/* Move buf[bytes] from or to the file.  Transfers may overtake each other: wait for one
 * before another that touches the same bytes of the file. */
void mds_scratch_read_start(struct mds_scratch_file *s, int64_t offset, void *buf,
                            int64_t bytes, struct mds_scratch_request *req);
void mds_scratch_write_start(struct mds_scratch_file *s, int64_t offset,
                             const void *buf, int64_t bytes,
                             struct mds_scratch_request *req);

/* Block until done; at once for a request that was never started.  MDS_EIO if it
 * failed, and then only once. */
enum mds_rc mds_scratch_wait(struct mds_scratch_request *req);

#endif
