/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/sharded_weights.h"
#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* Number of units gathered at once: one in use, and one being prefetched.  One more if
 * no unit has a buffer of its own, as the last units of a pass are the first of the
 * next.  Inner units have another. */
static int max_gathered_units(const struct zero_weights *w)
{
    return 1 + (w->overlap != 0) + (mds_pool_enclosing(w->parts) == 0);
}

/* ---- memory ---- */

static int64_t gathered_count(const struct zero_partition *parts, int unit)
{
    return parts->shard[unit].block * mds_partition_ranks(parts, unit);
}

/* The table of the prefetch order: 2 (n + 1) n numbers, for n units. */
static enum mds_rc alloc_prefetch_order(struct zero_weights *w)
{
    size_t n = 2 * ((size_t)w->parts->units + 1) * (size_t)w->parts->units;

    w->previous = w->latest = -1;
    w->next_unit = mds_zalloc(n, sizeof *w->next_unit);
    if (!w->next_unit)
        return MDS_EMEM;
    memset(w->next_unit, 0xff, n * sizeof *w->next_unit);
    return MDS_OK;
}

/* Whole units get their addresses here, sharded ones from acquire. */
enum mds_rc mds_weights_init(struct zero_weights *w, struct zero_storage *s,
                             int sharded, int overlap, enum mds_place_kind at)
{
    const struct zero_partition *parts = s->parts;
    enum mdsk_dtype dtype = mds_params_dtype(parts->params);
    int64_t elem = (int64_t)mdsk_dtype_size(dtype);

    *w = (struct zero_weights){.storage = s,
                               .parts = parts,
                               .sharded = sharded,
                               .overlap = overlap,
                               .dtype = dtype,
                               .array = {.place = at,
                                         .pinned = 1,
                                         .elem = elem,
                                         .layout = sharded ? ZERO_SHARDS : ZERO_WHOLE}};
    w->gather = mds_zalloc((size_t)parts->units, sizeof *w->gather);
    if (!w->gather)
        return MDS_EMEM;
    MDS_TRY(mds_storage_alloc(s, MDS_MEM_PARAM, &w->array, 1));
    for (int i = 0; i < parts->units && !sharded; i++)
        mds_params_set_weight(parts->params, i,
                              w->array.base +
                                  mds_partition_unit(w->parts, i)->first * elem);
    if (!sharded)
        return MDS_OK;
    MDS_TRY(alloc_prefetch_order(w));
    return mds_pool_alloc(&w->pool, parts, gathered_count, max_gathered_units(w),
                          s->arena, MDS_MEM_PARAM, elem);
}

void mds_weights_wait(struct zero_weights *w)
{
    for (int i = 0; w->gather && i < w->parts->units; i++)
        (void)mds_comm_wait(&w->gather[i]);
    for (int s = 0; s < w->pool.slots; s++)
        (void)mds_comm_wait(&w->fetch[s]);
}

void mds_weights_fini(struct zero_weights *w)
{
    if (w->storage)
        mds_storage_release(w->storage, &w->array);
    free(w->next_unit);
    free(w->gather);
}

/* ---- prefetch order ---- */

/* The unit acquired after `previous` and `latest` the last time they were acquired in
 * this order; two units tell forward from backward.  The last pass of a step has its
 * own table, as only there no unit comes after the last one. */
static int *next_in_order(const struct zero_weights *w)
{
    int row = (w->last ? w->parts->units + 1 : 0) + w->previous + 1;

    return &w->next_unit[(size_t)row * (size_t)w->parts->units + (size_t)w->latest];
}

static void record_acquire(struct zero_weights *w, int unit)
{
    if (w->latest >= 0)
        *next_in_order(w) = unit;
    w->previous = w->latest;
    w->latest = unit;
}

/* ---- fetching sharded units ---- */

static enum mds_rc start_unit_gather(struct zero_weights *w, int unit, int s)
{
    const struct zero_partition *parts = w->parts;
    struct zero_range own = mds_partition_own(parts, unit);
    int64_t bytes = parts->shard[unit].block * w->array.elem;
    char *to = w->pool.slot[s].base;
    void *from;

    MDS_TRY(mds_storage_fetch(w->storage, &w->array, &own,
                              to + mds_partition_rank(parts, unit) * bytes, &from));
    return mds_comm_all_gather_start(parts->shard[unit].group, from, to, bytes,
                                     &w->fetch[s]);
}

/* A buffer for a unit that has none; -1: all are in use. */
static int free_slot(const struct zero_weights *w, int unit)
{
    return mds_pool_pick(&w->pool, unit, gathered_count(w->parts, unit));
}

static enum mds_rc fetch_unit(struct zero_weights *w, int unit, int slot)
{
    MDS_TRY(mds_comm_wait(&w->fetch[slot])); /* prefetched, but not used */
    w->pool.slot[slot].unit = unit;
    return start_unit_gather(w, unit, slot);
}

/* The unit to prefetch; -1 if it is here already or no buffer is free. */
static int choose_prefetch(struct zero_weights *w)
{
    int unit = w->overlap ? *next_in_order(w) : -1;
    int slot = unit < 0 ? -1 : mds_pool_find(&w->pool, unit);

    if (slot >= 0 && w->pool.slot[slot].users == 0)
        w->pool.slot[slot].prefetched = 1;
    return unit < 0 || slot >= 0 || free_slot(w, unit) < 0 ? -1 : unit;
}

enum mds_rc mds_weights_prefetch(struct zero_weights *w, int unit)
{
    int slot = free_slot(w, unit);

    MDS_TRY(fetch_unit(w, unit, slot));
    w->pool.slot[slot].prefetched = 1;
    return MDS_OK;
}

enum mds_rc mds_weights_acquire(struct zero_weights *w, int unit, int *ahead)
{
    int slot;

    *ahead = -1;
    if (!w->sharded)
        return mds_comm_wait(&w->gather[unit]);
    slot = mds_pool_find(&w->pool, unit);
    if (slot < 0) {
        slot = free_slot(w, unit);
        if (slot < 0)
            return mds_fail(MDS_EBUG,
                            "weights of %s: more than %d units in use at once",
                            mds_partition_unit(w->parts, unit)->name, w->pool.slots);
        MDS_TRY(fetch_unit(w, unit, slot));
    }
    mds_pool_use(&w->pool, slot);
    MDS_TRY(mds_comm_wait(&w->fetch[slot]));
    mds_params_set_weight(w->parts->params, unit, w->pool.slot[slot].base);
    if (w->pool.slot[slot].users > 1)
        return MDS_OK;
    record_acquire(w, unit);
    *ahead = choose_prefetch(w);
    return MDS_OK;
}

/* The buffer keeps its contents until another unit needs it: often the next user wants
 * the same unit. */
enum mds_rc mds_weights_release(struct zero_weights *w, int unit)
{
    int slot;

    if (!w->sharded)
        return MDS_OK;
    slot = mds_pool_find(&w->pool, unit);
    if (slot < 0 || w->pool.slot[slot].users == 0)
        return mds_fail(MDS_EBUG, "weights of %s: released, but not in use",
                        mds_partition_unit(w->parts, unit)->name);
    mds_pool_release(&w->pool, slot);
    if (w->pool.slot[slot].users == 0)
        mds_params_set_weight(w->parts->params, unit, NULL);
    return MDS_OK;
}

/* ---- around the update ---- */

enum mds_rc mds_weights_quiesce(struct zero_weights *w)
{
    for (int i = 0; i < w->parts->units; i++)
        MDS_TRY(mds_comm_wait(&w->gather[i]));
    for (int s = 0; s < w->pool.slots; s++) {
        struct mds_pool_slot *slot = &w->pool.slot[s];

        MDS_TRY(mds_comm_wait(&w->fetch[s]));
        if (slot->users > 0)
            return mds_fail(MDS_EBUG, "weights of %s: in use during the update",
                            mds_partition_unit(w->parts, slot->unit)->name);
        slot->unit = -1;
        slot->prefetched = 0;
    }
    if (w->sharded && w->latest >= 0)
        *next_in_order(w) = -1;
    w->last = 0;
    return MDS_OK;
}

enum mds_rc mds_weights_gather(struct zero_weights *w, int unit)
{
    const struct mds_param_unit *u = mds_partition_unit(w->parts, unit);
    struct mds_comm_req *req = &w->gather[unit];

    if (w->sharded || !w->parts->sharded)
        return MDS_OK;
    MDS_TRY(mds_comm_gather_shards_start(w->parts->shard[unit].group,
                                         w->array.base + u->first * w->array.elem,
                                         u->count, (int)w->array.elem, req));
    return w->overlap ? MDS_OK : mds_comm_wait(req);
}
