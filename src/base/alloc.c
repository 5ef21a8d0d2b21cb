/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/alloc.h"
#include "base/minmax.h"

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

enum mds_rc mds_resize(void *array, size_t n, size_t size)
{
    void *p;

    memcpy(&p, array, sizeof p);
    p = mds_realloc(p, n, size);
    if (!p)
        return MDS_EMEM;
    memcpy(array, &p, sizeof p);
    return MDS_OK;
}

enum mds_rc mds_grow(void *array, size_t n, size_t size)
{
    if (n & (n - 1))
        return MDS_OK;
    return mds_resize(array, n > SIZE_MAX / 2 ? SIZE_MAX : n > 0 ? 2 * n : 1, size);
}

enum mds_rc mds_reserve(void *array, int64_t *room, int64_t n, size_t size)
{
    int64_t most = mds_max(2 * *room, n);

    if (n <= *room)
        return MDS_OK;
    MDS_TRY(mds_resize(array, (size_t)most, size));
    *room = most;
    return MDS_OK;
}

char *mds_strdup(const char *s)
{
    char *copy = mds_zalloc(strlen(s) + 1, 1);

    if (copy)
        memcpy(copy, s, strlen(s));
    return copy;
}
