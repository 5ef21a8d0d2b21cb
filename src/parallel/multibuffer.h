/* SPDX-License-Identifier: BSD-3-Clause */
/* Double or triple buffering: a buffer in host memory, two or three chunks of which are
 * on the device at a time, in slots.  While the chunk in one slot is used, another is
 * prefetched or offloaded; with three slots, one of each. */
#ifndef MDS_PARALLEL_MULTIBUFFER_H
#define MDS_PARALLEL_MULTIBUFFER_H

#include "parallel/par.h"

struct mds_multibuffer_slot {
    void *data;
    int64_t chunk;                     /* the chunk it holds; -1: none */
    struct mds_dev_async_copy in, out; /* copies in progress */
};

struct mds_multibuffer {
    struct mds_dev *dev; /* borrowed */
    char *host;          /* borrowed */
    int64_t bytes;       /* of the whole buffer */
    int64_t chunk_bytes; /* of each chunk; the last may be shorter */
    struct mds_multibuffer_slot slot[3];
    int slots;
    int now; /* the slot of the last get or fill */
};

/* host [bytes] is borrowed; 2 or 3 slots are allocated from p's arena. */
enum mds_rc mds_multibuffer_open(const struct mds_par *p, void *host, int64_t bytes,
                                 int64_t chunk_bytes, int slots,
                                 struct mds_multibuffer *out);

/* Begin to copy a chunk to the device, into the slot after the current one, once that
 * slot's own copies are done.  Does nothing if the chunk is in a slot already or does
 * not exist. */
void mds_multibuffer_prefetch(struct mds_multibuffer *w, int64_t chunk);

/* The chunk's device memory; copied now unless it was prefetched.  The caller may
 * change it.  Operations queued from now on wait for the copy. */
void *mds_multibuffer_get(struct mds_multibuffer *w, int64_t chunk);

/* fill: device memory for writing a chunk, uninitialised.  offload: begin to copy the
 * slot of the last get or fill to the host. */
void *mds_multibuffer_fill(struct mds_multibuffer *w, int64_t chunk);
void mds_multibuffer_offload(struct mds_multibuffer *w);

/* Let operations that are queued from now on wait for all copies, so that they find the
 * host buffer complete. */
void mds_multibuffer_close(struct mds_multibuffer *w);

#endif
