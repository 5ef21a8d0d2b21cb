/* SPDX-License-Identifier: BSD-3-Clause */
/* Host memory for small data structures; tensors are in arenas (device/arena.h).  All
 * of it is freed with free(). */
#ifndef MDS_BASE_ALLOC_H
#define MDS_BASE_ALLOC_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* n * size zeroed bytes, or NULL after mds_fail(MDS_EMEM). */
void *mds_zalloc(size_t n, size_t size);

/* Resize p to n * size bytes.  On failure NULL after mds_fail(MDS_EMEM), and p is still
 * valid. */
void *mds_realloc(void *p, size_t n, size_t size);

/* array: the address of the pointer to an array of elements of `size` bytes, which may
 * move.  MDS_EMEM: it is as it was.
 *
 * resize    n elements
 * grow      one more than the n that it has: 2 n whenever n is a power of two
 * reserve   at least n, where it has *room, and then at least twice as many */
enum mds_rc mds_resize(void *array, size_t n, size_t size);
enum mds_rc mds_grow(void *array, size_t n, size_t size);
enum mds_rc mds_reserve(void *array, int64_t *room, int64_t n, size_t size);

/* A copy of s, or NULL after mds_fail(MDS_EMEM). */
char *mds_strdup(const char *s);

#endif
