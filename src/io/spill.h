/* SPDX-License-Identifier: BSD-3-Clause */
/* Arrays that do not fit in memory: a nameless file, read and written in the
 * background.
 *
 * The file vanishes with the process, however that ends. */
#ifndef MDS_IO_SPILL_H
#define MDS_IO_SPILL_H

#include "io/worker.h"

#include <stdint.h>

struct mds_spill;

/* One transfer; embedded like mds_job. */
struct mds_spill_req {
    struct mds_job job;
    struct mds_spill *spill; /* these are spill.c's */
    char *buf;
    int64_t offset, bytes;
    int write, err;
};

/* `bytes` zeros in `folder`, where the file system can reserve them; else only as much
 * of them is there as the disk turns out to hold. */
enum mds_rc mds_spill_create(const char *folder, int64_t bytes, struct mds_spill **out);

/* NULL is fine.  Transfers under way are finished first. */
void mds_spill_destroy(struct mds_spill *s);

/* Move buf[bytes] from or to the file.  Transfers may overtake each other: wait for one
 * before another that touches the same bytes of the file. */
void mds_spill_read_start(struct mds_spill *s, int64_t offset, void *buf, int64_t bytes,
                          struct mds_spill_req *req);
void mds_spill_write_start(struct mds_spill *s, int64_t offset, const void *buf,
                           int64_t bytes, struct mds_spill_req *req);

/* Block until done; at once for a request that was never started.  MDS_EIO if it
 * failed, and then only once. */
enum mds_rc mds_spill_wait(struct mds_spill_req *req);

#endif
