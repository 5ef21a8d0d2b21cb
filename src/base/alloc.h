/* SPDX-License-Identifier: BSD-3-Clause */
/* Host memory for small data structures; tensors are in arenas (device/arena.h).  All
 * of it is freed with free(). */
#ifndef MDS_BASE_ALLOC_H
#define MDS_BASE_ALLOC_H

#include <stddef.h>

/* n * size zeroed bytes, or NULL after mds_fail(MDS_EMEM). */
void *mds_zalloc(size_t n, size_t size);

/* Resize p to n * size bytes.  On failure NULL after mds_fail(MDS_EMEM), and p is still
 * valid. */
void *mds_realloc(void *p, size_t n, size_t size);

/* Grow an array p of n elements (NULL if n is 0) to hold at least n + 1: reallocated to
 * 2 n whenever n is a power of two.  Fails as mds_realloc does. */
void *mds_grow(void *p, size_t n, size_t size);

/* A copy of s, or NULL after mds_fail(MDS_EMEM). */
char *mds_strdup(const char *s);

#endif
