/* SPDX-License-Identifier: BSD-3-Clause */
/* Checked host allocation for bookkeeping.  Tensors live in arenas (device/arena.h). */
#ifndef MDS_BASE_ALLOC_H
#define MDS_BASE_ALLOC_H

#include <stddef.h>

/* n * size zeroed bytes, or NULL after mds_fail(MDS_EMEM).  Free with free(). */
void *mds_zalloc(size_t n, size_t size);

/* Grow (or shrink) p to n * size bytes; on failure NULL after mds_fail(MDS_EMEM), and p
 * is still the caller's. */
void *mds_realloc(void *p, size_t n, size_t size);

/* Room for one more behind the n elements of p (NULL for none): twice as many whenever
 * n is a power of two.  Fails as mds_realloc does. */
void *mds_grow(void *p, size_t n, size_t size);

/* A copy of s, or NULL after mds_fail(MDS_EMEM). */
char *mds_strdup(const char *s);

#endif
