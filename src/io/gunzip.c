/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/gunzip.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <zlib.h>

struct mds_gunzip {
    const char *name; /* borrowed from the reader */
    z_stream z;
    int in_member;
};

enum { GZIP_ONLY = 15 + 16 }; /* largest window, gzip header: zlib.h, inflateInit2 */

enum mds_rc mds_gunzip_create(const char *name, struct mds_gunzip **out)
{
    struct mds_gunzip *g = mds_zalloc(1, sizeof *g);

    if (!g)
        return MDS_EMEM;
    if (inflateInit2(&g->z, GZIP_ONLY) != Z_OK) {
        free(g);
        return mds_fail(MDS_EMEM, "%s: zlib has no memory", name);
    }
    g->name = name;
    g->in_member = 1;
    *out = g;
    return MDS_OK;
}

void mds_gunzip_destroy(struct mds_gunzip *g)
{
    if (!g)
        return;
    inflateEnd(&g->z);
    free(g);
}

static enum mds_rc skip_between_members(struct mds_gunzip *g, const unsigned char *in,
                                        size_t n, size_t *used)
{
    size_t zeros = 0;

    while (zeros < n && in[zeros] == 0)
        zeros++;
    *used = zeros;
    if (zeros == n)
        return MDS_OK;
    if (in[zeros] != 0x1f)
        return mds_fail(MDS_EUSER, "%s: data that is not gzip follows the gzip data",
                        g->name);
    inflateReset(&g->z);
    g->in_member = 1;
    return MDS_OK;
}

enum mds_rc mds_gunzip_run(struct mds_gunzip *g, const unsigned char *in, size_t n,
                           size_t *used, unsigned char *out, size_t capacity,
                           size_t *made)
{
    int status;

    *made = 0;
    if (!g->in_member)
        return skip_between_members(g, in, n, used);
    g->z.next_in = (unsigned char *)in;
    g->z.avail_in = (uInt)n;
    g->z.next_out = out;
    g->z.avail_out = (uInt)capacity;
    status = inflate(&g->z, Z_NO_FLUSH);
    if (status == Z_MEM_ERROR)
        return mds_fail(MDS_EMEM, "%s: zlib has no memory", g->name);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
        return mds_fail(MDS_EUSER, "%s: damaged gzip data (%s); fetch the file again",
                        g->name, g->z.msg ? g->z.msg : "zlib gave no reason");
    g->in_member = status != Z_STREAM_END;
    *used = n - g->z.avail_in;
    *made = capacity - g->z.avail_out;
    return MDS_OK;
}

int mds_gunzip_wants_more(const struct mds_gunzip *g)
{
    return g->in_member;
}
