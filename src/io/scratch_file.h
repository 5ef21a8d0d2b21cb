/* SPDX-License-Identifier: BSD-3-Clause */
/* Arrays that do not fit in memory: an unnamed scratch file, read and written in the
 * background.  The kernel removes it when the process ends, however it ends. */
#ifndef MDS_IO_SCRATCH_FILE_H
#define MDS_IO_SCRATCH_FILE_H

#include "io/worker.h"

#include <stdint.h>

struct mds_scratch_file;

/* One asynchronous transfer; the caller embeds it, as with mds_task. */
struct mds_scratch_request {
    struct mds_task job;
    struct mds_scratch_file *file; /* these are scratch_file.c's */
    char *buf;
    int64_t offset, bytes;
    int write, err;
};

/* Create a file of `bytes` zeros in `folder`.  The space is reserved if the file system
 * can do that; otherwise a full disk shows only when it is written. */
enum mds_rc mds_scratch_file_create(const char *folder, int64_t bytes,
                                    struct mds_scratch_file **out);

/* Waits for transfers in flight.  NULL is fine. */
void mds_scratch_file_destroy(struct mds_scratch_file *s);

/* Start to read buf[bytes] from the file or write it there.  Transfers may complete in
 * any order: wait for one before starting another on the same bytes of the file. */
void mds_scratch_read_start(struct mds_scratch_file *s, int64_t offset, void *buf,
                            int64_t bytes, struct mds_scratch_request *req);
void mds_scratch_write_start(struct mds_scratch_file *s, int64_t offset,
                             const void *buf, int64_t bytes,
                             struct mds_scratch_request *req);

/* Block until the transfer is complete; returns at once if it was never started.
 * MDS_EIO if it failed; reported once. */
enum mds_rc mds_scratch_wait(struct mds_scratch_request *req);

#endif
