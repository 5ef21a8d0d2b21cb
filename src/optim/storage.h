/* SPDX-License-Identifier: BSD-3-Clause */
/* Storage of arrays over a partition: on the device, in host memory, or in a file.
 *
 * Only storage.c and swap.c know the difference; other files ask for addresses or copy
 * elements.  On a dry device host memory and files are counted but not allocated. */
#ifndef MDS_OPTIM_STORAGE_H
#define MDS_OPTIM_STORAGE_H

#include "config/config.h"
#include "device/arena.h"
#include "device/device.h"
#include "io/scratch_file.h"
#include "optim/partition.h"

/* Elements of a staging buffer in host memory. */
enum { ZERO_STAGING_ELEMENTS = 1 << 19 };

struct zero_array {
    enum mds_place_kind place;
    int pinned;   /* host memory that the device copies to and from */
    int64_t elem; /* bytes of an element */
    enum zero_layout layout;
    char *base;     /* NULL: in the file, or host memory of a dry run */
    int64_t offset; /* in the file, in bytes */
};

struct zero_storage {
    const struct zero_partition *parts; /* borrowed, as are the next four */
    struct mds_dev *dev, *host;         /* host: pinned memory */
    struct mds_arena *arena;
    const char *folder; /* for the file */
    int threads;        /* that zero host memory; 0: all threads of the cpu kernels */
    int dry;
    struct mds_scratch_file *file; /* NULL: none, or dry */
    void *bounce;                  /* pinned, on the way to a file; NULL: none, dry */
    int64_t memory_bytes, file_bytes; /* allocated on the host */
};

/* Allocate n arrays like a[0], all in the same place.  tag: of device memory.  Host
 * memory and files are zeroed.  create_file: after the last array that is in a
 * file. */
enum mds_rc mds_storage_alloc(struct zero_storage *s, enum mds_mem_tag tag,
                              struct zero_array *a, int n);
enum mds_rc mds_storage_create_file(struct zero_storage *s);
void mds_storage_release(struct zero_storage *s, struct zero_array *a);
void mds_storage_fini(struct zero_storage *s); /* closes the file */

/* *(void **)out = host memory, zeroed by all threads so that each page is on the NUMA
 * node of the thread that updates it; NULL on a dry device.  Free with
 * mds_host_unmap. */
enum mds_rc mds_storage_host_memory(struct zero_storage *s, int64_t bytes, void *out);

/* Address of a range in memory; NULL if it is in a file or on a dry device's host. */
void *mds_storage_at(const struct zero_storage *s, const struct zero_array *a,
                     const struct zero_range *p);

/* *at = device address of a range: in place, or `scratch`, after a copy that is queued.
 * The array is on the device, pinned, or in a file; then call alloc_bounce once before,
 * and a range has at most ZERO_STAGING_ELEMENTS. */
enum mds_rc mds_storage_alloc_bounce(struct zero_storage *s);
enum mds_rc mds_storage_fetch(struct zero_storage *s, const struct zero_array *a,
                              const struct zero_range *p, void *scratch, void **at);

/* The way back.  *copy: neither may be used before it is done. */
enum mds_rc mds_storage_store(struct zero_storage *s, const struct zero_array *a,
                              const struct zero_range *p, const void *scratch,
                              struct mds_dev_async_copy *copy);

/* Copy a range from host memory (put 1), or to it (0).  A dry device only counts. */
enum mds_rc mds_storage_copy(struct zero_storage *s, const struct zero_array *a,
                             const struct zero_range *p, void *host, int put);

#endif
