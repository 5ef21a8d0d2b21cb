/* SPDX-License-Identifier: BSD-3-Clause */
/* A stack allocator: memory from one block, released in reverse order. */
#ifndef MDS_DEVICE_ARENA_H
#define MDS_DEVICE_ARENA_H

#include "device/device.h"

struct mds_arena_mark {
    int64_t by_tag[MDS_MEM_TAGS]; /* of used */
    int64_t used;
};

struct mds_arena {
    struct mds_dev *dev; /* borrowed, outlives the arena */
    char *base;
    int64_t size, peak; /* peak: the most ever used */
    struct mds_arena_mark now;
    const char *name; /* borrowed: for messages */
};

/* One block of `bytes`, zeroed. */
enum mds_rc mds_arena_init(struct mds_arena *a, struct mds_dev *dev, const char *name,
                           int64_t bytes);

/* Free the block.  A zeroed struct is fine. */
void mds_arena_fini(struct mds_arena *a);

/* Let the pointer at `out`, of any type, point to `bytes`, rounded up to
 * MDS_ARENA_ALIGN and charged to tag; uninitialised.  MDS_EBUG if the arena is full:
 * its size came from a dry run of the same work. */
enum { MDS_ARENA_ALIGN = 256 };
enum mds_rc mds_arena_alloc(struct mds_arena *a, enum mds_mem_tag tag, int64_t bytes,
                            void *out);

/* release frees everything that was allocated since the mark. */
static inline struct mds_arena_mark mds_arena_mark(const struct mds_arena *a)
{
    return a->now;
}
void mds_arena_release(struct mds_arena *a, struct mds_arena_mark m);

#endif
