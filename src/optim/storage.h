/* SPDX-License-Identifier: BSD-3-Clause */
/* Where arrays over a partition lie: on the device, in host memory, or in a file.
 *
 * Only what is here, and swap.c, knows the difference; others ask for addresses, or
 * have elements copied.  On a dry device host memory and files are counted, not taken.
 */
#ifndef MDS_OPTIM_STORAGE_H
#define MDS_OPTIM_STORAGE_H

#include "config/config.h"
#include "device/arena.h"
#include "io/scratch_file.h"
#include "optim/partition.h"

/* Elements that pass through host memory at a time. */
enum { ZERO_CHUNK = 1 << 19 };

struct zero_array {
    enum mds_place_kind place;
    int64_t elem;   /* bytes of an element */
    int sharded;    /* own shards only; 0: all of all units */
    char *base;     /* NULL: in the file, or on a dry device's host */
    int64_t offset; /* in the file, in bytes */
};

struct zero_storage {
    const struct zero_partition *parts; /* borrowed, as are the next three */
    struct mds_dev *dev;
    struct mds_arena *arena;
    const char *folder; /* for the file */
    int threads;        /* that zero host memory; 0: as many as the cpu kernels have */
    int dry;
    struct mds_scratch_file *file;    /* NULL: none, or dry */
    int64_t memory_bytes, file_bytes; /* taken of the host */
};

/* Take n arrays like a[0], all of the same place; those in a file are all that there
 * are.  tag: of the device's memory.  What is on the host or in a file is zero. */
enum mds_rc mds_storage_take(struct zero_storage *s, enum mds_mem_tag tag,
                             struct zero_array *a, int n);
void mds_storage_release(struct zero_storage *s, struct zero_array *a);
void mds_storage_fini(struct zero_storage *s); /* closes the file */

/* *(void **)out = host memory, zeroed by all threads at once so that each page is near
 * those who update it; NULL on a dry device.  Given back with mds_host_unmap. */
enum mds_rc mds_storage_host_memory(struct zero_storage *s, int64_t bytes, void *out);

/* The address of a piece; NULL if it has none here. */
void *mds_storage_at(const struct zero_storage *s, const struct zero_array *a,
                     const struct zero_piece *p);

/* The address of a piece on the device: where it is, or `room` with a copy of it. */
const void *mds_storage_bring(struct zero_storage *s, const struct zero_array *a,
                              const struct zero_piece *p, void *room);

/* Byte of the file where a piece begins. */
int64_t mds_storage_offset(const struct zero_storage *s, const struct zero_array *a,
                           const struct zero_piece *p);

/* Copy a piece to host memory, or from it.  On a dry device only counted. */
enum mds_rc mds_storage_get(struct zero_storage *s, const struct zero_array *a,
                            const struct zero_piece *p, void *host);
enum mds_rc mds_storage_put(struct zero_storage *s, const struct zero_array *a,
                            const struct zero_piece *p, void *host);

#endif
