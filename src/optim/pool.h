/* SPDX-License-Identifier: BSD-3-Clause */
/* A few buffers in which the units of a registry take turns. */
#ifndef MDS_OPTIM_POOL_H
#define MDS_OPTIM_POOL_H

#include "device/arena.h"
#include "optim/partition.h"

enum { MDS_POOL_SLOTS = 4 };

struct mds_pool_slot {
    int64_t count; /* elements that fit */
    char *base;    /* borrowed; the owner's to set */
    int unit;      /* whose elements are in it; -1: nobody's */
    int users;     /* 0: another unit may have it */
    int ahead;     /* brought for a user who has not come yet */
    int only;      /* the unit it is reserved for; -1: any */
    int64_t stamp; /* of the last use */
};

struct mds_pool {
    int slots;
    struct mds_pool_slot slot[MDS_POOL_SLOTS];
    int64_t clock;
};

/* Slots for any `slots` of n units at once, of these counts: as large as the largest,
 * the second largest, and so on.  Returns the elements of all. */
int64_t mds_pool_plan(struct mds_pool *p, const int64_t *count, int n, int slots);

/* Memory for a unit's count(parts, unit) elements of `elem` bytes.  Each unit that
 * encloses others has a slot reserved: in one of theirs it might have the only one that
 * is large enough for the next.  The others take turns in `slots` of them. */
typedef int64_t mds_pool_count(const struct zero_partition *parts, int unit);
enum mds_rc mds_pool_take(struct mds_pool *p, const struct zero_partition *parts,
                          mds_pool_count *count, int slots, struct mds_arena *arena,
                          enum mds_mem_tag tag, int64_t elem);

/* How many units enclose others. */
int mds_pool_enclosing(const struct zero_partition *parts);

/* One more slot, of `count` elements, for this unit alone; it will have no other. */
void mds_pool_reserve(struct mds_pool *p, int unit, int64_t count);

/* The slot that holds the unit, or -1. */
int mds_pool_find(const struct mds_pool *p, int unit);

/* A slot without users for the unit, of `count` elements, or -1: the one reserved for
 * it; otherwise rather one that nobody is expected in, then rather a small one, so that
 * large ones are left for large units, then the one unused for longest. */
int mds_pool_pick(const struct mds_pool *p, int unit, int64_t count);

/* Another user of a slot; one less. */
void mds_pool_use(struct mds_pool *p, int slot);
void mds_pool_leave(struct mds_pool *p, int slot);

#endif
