/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/alloc.h"
#include "base/status.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *mds_zalloc(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size ? size : 1);

    if (!p)
        mds_fail(MDS_EMEM, "host memory: %zu x %zu bytes refused", n, size);
    return p;
}

void *mds_realloc(void *p, size_t n, size_t size)
{
    void *q = NULL;

    if (size == 0 || n <= SIZE_MAX / size)
        q = realloc(p, n > 0 && size > 0 ? n * size : 1);
    if (!q)
        mds_fail(MDS_EMEM, "host memory: %zu x %zu bytes refused", n, size);
    return q;
}

void *mds_grow(void *p, size_t n, size_t size)
{
    if (n & (n - 1))
        return p;
    return mds_realloc(p, n > SIZE_MAX / 2 ? SIZE_MAX : n > 0 ? 2 * n : 1, size);
}

char *mds_strdup(const char *s)
{
    char *copy = mds_zalloc(strlen(s) + 1, 1);

    if (copy)
        memcpy(copy, s, strlen(s));
    return copy;
}
