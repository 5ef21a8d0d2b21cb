/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/pool.h"
#include "base/alloc.h"
#include "base/minmax.h"

#include <stdlib.h>

int64_t mds_pool_plan(struct mds_pool *p, const int64_t *count, int n, int slots)
{
    int64_t sum = 0;

    *p = (struct mds_pool){.slots = slots < n ? slots : n};
    for (int i = 0; i < n; i++) {
        int at = p->slots;

        while (at > 0 && count[i] > p->slot[at - 1].count)
            at--;
        for (int s = p->slots - 1; s > at; s--)
            p->slot[s].count = p->slot[s - 1].count;
        if (at < p->slots)
            p->slot[at].count = count[i];
    }
    for (int s = 0; s < p->slots; s++) {
        p->slot[s].unit = -1;
        p->slot[s].reserved_for = MDS_POOL_ANY;
        sum += p->slot[s].count;
    }
    return sum;
}

void mds_pool_reserve(struct mds_pool *p, int unit, int64_t count)
{
    p->slot[p->slots++] =
        (struct mds_pool_slot){.count = count, .unit = -1, .reserved_for = unit};
}

int mds_pool_enclosing(const struct zero_partition *parts)
{
    int n = 0;

    for (int i = 0; i < parts->units; i++)
        n += mds_partition_unit(parts, i)->encloses;
    return n;
}

static enum mds_rc plan_slots(struct mds_pool *p, const struct zero_partition *parts,
                              mds_pool_count_fn *count, int slots)
{
    int64_t *counts = mds_zalloc((size_t)parts->units, sizeof *counts), inner = 0;

    if (!counts)
        return MDS_EMEM;
    for (int i = 0; i < parts->units; i++) {
        const struct mds_param_unit *u = mds_partition_unit(parts, i);

        counts[i] = u->encloses || u->inner ? 0 : count(parts, i);
        inner = mds_max(inner, u->inner ? count(parts, i) : 0);
    }
    mds_pool_plan(p, counts, parts->units, slots);
    free(counts);
    p->parts = parts;
    for (int i = 0; i < parts->units; i++)
        if (mds_partition_unit(parts, i)->encloses)
            mds_pool_reserve(p, i, count(parts, i));
    if (inner > 0)
        mds_pool_reserve(p, MDS_POOL_INNER, inner);
    return MDS_OK;
}

enum mds_rc mds_pool_alloc(struct mds_pool *p, const struct zero_partition *parts,
                           mds_pool_count_fn *count, int slots, struct mds_arena *arena,
                           enum mds_mem_tag tag, int64_t elem)
{
    if (slots + mds_pool_enclosing(parts) >= MDS_POOL_SLOTS)
        return mds_fail(MDS_EBUG, "%d units enclose others: not enough buffers",
                        mds_pool_enclosing(parts));
    MDS_TRY(plan_slots(p, parts, count, slots));
    for (int s = 0; s < p->slots; s++)
        MDS_TRY(mds_arena_alloc(arena, tag, p->slot[s].count * elem, &p->slot[s].base));
    return MDS_OK;
}

int mds_pool_find(const struct mds_pool *p, int unit)
{
    for (int s = 0; s < p->slots; s++)
        if (p->slot[s].unit == unit)
            return s;
    return -1;
}

static int is_better_slot(const struct mds_pool_slot *a, const struct mds_pool_slot *b)
{
    if (a->prefetched != b->prefetched)
        return a->prefetched < b->prefetched;
    if (a->count != b->count)
        return a->count < b->count;
    return a->stamp < b->stamp;
}

int mds_pool_pick(const struct mds_pool *p, int unit, int64_t count)
{
    int best = -1, only = MDS_POOL_ANY;

    if (p->parts && mds_partition_unit(p->parts, unit)->inner)
        only = MDS_POOL_INNER;
    for (int s = 0; s < p->slots; s++)
        if (p->slot[s].reserved_for == unit)
            only = unit;
    for (int s = 0; s < p->slots; s++) {
        const struct mds_pool_slot *a = &p->slot[s];

        if (a->reserved_for == only && a->users == 0 && a->count >= count &&
            (best < 0 || is_better_slot(a, &p->slot[best])))
            best = s;
    }
    return best;
}

void mds_pool_use(struct mds_pool *p, int slot)
{
    p->slot[slot].users++;
    p->slot[slot].prefetched = 0;
    p->slot[slot].stamp = ++p->clock;
}

void mds_pool_release(struct mds_pool *p, int slot)
{
    p->slot[slot].users--;
    p->slot[slot].stamp = ++p->clock;
}
