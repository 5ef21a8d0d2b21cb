/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/arena.h"
#include "base/minmax.h"
#include "device/backend.h"

#include <string.h>

enum mds_rc mds_arena_init(struct mds_arena *a, struct mds_dev *dev, const char *name,
                           int64_t bytes)
{
    void *base = NULL;

    MDS_TRY(mds_dev_alloc(dev, bytes, &base));
    *a = (struct mds_arena){.dev = dev, .base = base, .size = bytes, .name = name};
    return MDS_OK;
}

void mds_arena_fini(struct mds_arena *a)
{
    if (!a->dev)
        return;
    mds_arena_release(a, (struct mds_arena_mark){0});
    mds_dev_free(a->dev, a->base, a->size);
    memset(a, 0, sizeof *a);
}

enum mds_rc mds_arena_alloc(struct mds_arena *a, enum mds_mem_tag tag, int64_t bytes,
                            void *out)
{
    int64_t n = mds_round_up(bytes, MDS_ARENA_ALIGN);
    char *at = a->base + a->now.used;

    if (bytes < 0 || n > a->size - a->now.used)
        return mds_fail(MDS_EBUG,
                        "arena %s: %lld bytes of %s do not fit, %lld of %lld used",
                        a->name, (long long)bytes, mds_mem_tag_name(tag),
                        (long long)a->now.used, (long long)a->size);
    memcpy(out, &at, sizeof at);
    a->now.used += n;
    if (a->now.used > a->peak)
        a->peak = a->now.used;
    a->now.by_tag[tag] += n;
    mds_dev_account(a->dev, tag, n);
    return MDS_OK;
}

void mds_arena_release(struct mds_arena *a, struct mds_arena_mark m)
{
    for (int t = 0; t < MDS_MEM_TAGS; t++)
        mds_dev_account(a->dev, (enum mds_mem_tag)t, m.by_tag[t] - a->now.by_tag[t]);
    a->now = m;
}
