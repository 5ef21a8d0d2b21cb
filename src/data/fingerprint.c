/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/fingerprint.h"

#include "base/minmax.h"
#include "data/permute.h"

#include <sys/stat.h>

enum { STRETCHES = 8, TOKENS = 4096 };

/* The first of n things, of which `length` are looked at, for stretch i. */
static int64_t first_of_stretch(int i, int64_t n, int64_t length)
{
    return (n - length) / (STRETCHES - 1) * i +
           (n - length) % (STRETCHES - 1) * i / (STRETCHES - 1);
}

static enum mds_rc add_stretch(struct mds_source *s, int i, uint64_t *hash)
{
    int64_t n = mds_min(s->tokens, TOKENS), first = first_of_stretch(i, s->tokens, n);
    unsigned char kinds[TOKENS];
    int32_t ids[TOKENS];
    int64_t start = 0;

    MDS_TRY(mds_source_read(s, first, n, ids));
    MDS_TRY(mds_source_read_kinds(s, first, n, kinds));
    if (s->documents > 0)
        MDS_TRY(mds_source_starts(s, first_of_stretch(i, s->documents, 1), 1, &start));
    for (int64_t k = 0; k < n; k++)
        *hash = mds_hash(*hash, (uint64_t)ids[k] << 8 | kinds[k]);
    *hash = mds_hash(*hash, (uint64_t)start);
    return MDS_OK;
}

enum mds_rc mds_source_fingerprint(struct mds_source *s, int64_t *hash)
{
    uint64_t h = mds_hash((uint64_t)s->tokens, (uint64_t)s->documents);

    for (int i = 0; i < STRETCHES; i++)
        MDS_TRY(add_stretch(s, i, &h));
    *hash = (int64_t)h;
    return MDS_OK;
}

int64_t mds_source_modified(const struct mds_source *s)
{
    struct stat st;

    if (stat(s->path, &st))
        return 0;
    return st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
}
