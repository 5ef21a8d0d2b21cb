/* SPDX-License-Identifier: BSD-3-Clause */
/* A pool of a few device buffers that the units of a registry share over time. */
#ifndef MDS_OPTIM_POOL_H
#define MDS_OPTIM_POOL_H

#include "device/arena.h"
#include "optim/partition.h"

enum { MDS_POOL_SLOTS = 5 };
enum { MDS_POOL_ANY = -1, MDS_POOL_INNER = -2 };

struct mds_pool_slot {
    int64_t count;    /* capacity in elements */
    char *base;       /* borrowed; set by the owner */
    int unit;         /* the unit whose elements it holds; -1: none */
    int users;        /* 0: it may be reused for another unit */
    int prefetched;   /* filled for a user who has not acquired it yet */
    int reserved_for; /* the only unit that may use it; or any, or inner ones */
    int64_t stamp;    /* time of the last use, in uses */
};

struct mds_pool {
    const struct zero_partition *parts; /* borrowed; NULL: no unit is inner */
    int slots;
    struct mds_pool_slot slot[MDS_POOL_SLOTS];
    int64_t clock;
};

/* Size the slots so that any `slots` of n units fit at once: slot 0 is as large as the
 * largest count, slot 1 as the second largest, and so on.  Returns their sum, in
 * elements. */
int64_t mds_pool_plan(struct mds_pool *p, const int64_t *count, int n, int slots);

/* Size the slots for count(parts, unit) elements of `elem` bytes per unit, and allocate
 * them from the arena.  Units that enclose others (tensor/params.h) get a reserved slot
 * each, as they might otherwise occupy the only slot that is large enough for the next
 * unit.  Inner units, of which one is in use at a time, share a slot.  All other units
 * share `slots` slots. */
typedef int64_t mds_pool_count_fn(const struct zero_partition *parts, int unit);
enum mds_rc mds_pool_alloc(struct mds_pool *p, const struct zero_partition *parts,
                           mds_pool_count_fn *count, int slots, struct mds_arena *arena,
                           enum mds_mem_tag tag, int64_t elem);

/* Number of units that enclose others. */
int mds_pool_enclosing(const struct zero_partition *parts);

/* Add a slot of `count` elements that only this unit uses, or inner ones; it never
 * gets another. */
void mds_pool_reserve(struct mds_pool *p, int unit, int64_t count);

/* The slot that holds the unit, or -1. */
int mds_pool_find(const struct mds_pool *p, int unit);

/* A slot without users that holds `count` elements, or -1.  The unit's reserved slot if
 * it has one.  Otherwise in order of preference: not prefetched, smaller (which leaves
 * large slots for large units), least recently used. */
int mds_pool_pick(const struct mds_pool *p, int unit, int64_t count);

/* Add or remove a user of a slot. */
void mds_pool_use(struct mds_pool *p, int slot);
void mds_pool_release(struct mds_pool *p, int slot);

#endif
