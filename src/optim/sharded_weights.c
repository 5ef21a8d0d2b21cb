/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/sharded_weights.h"
#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* Sharded units in buffers at once: one that is in use, and one that is fetched ahead
 * of time.  Where none has a buffer of its own there is another one, as the last units
 * of a pass are the next one's first. */
static int alive_at_once(const struct zero_weights *w)
{
    return 1 + (w->overlap != 0) + (mds_pool_enclosing(w->parts) == 0);
}

static const struct mds_param_unit *unit_of(const struct zero_weights *w, int unit)
{
    return mds_params_unit(w->parts->params, unit);
}

static void place(struct zero_weights *w, int unit, void *weight)
{
    mds_params_place(w->parts->params, unit, weight, unit_of(w, unit)->grad);
}

/* ---- memory ---- */

static int64_t gathered_count(const struct zero_partition *parts, int unit)
{
    return parts->shard[unit].block * parts->size;
}

/* For who follows whom: 2 (n + 1) n numbers, for n units. */
static enum mds_rc take_followers(struct zero_weights *w)
{
    size_t n = 2 * ((size_t)w->parts->units + 1) * (size_t)w->parts->units;

    w->before = w->latest = -1;
    w->follower = mds_zalloc(n, sizeof *w->follower);
    if (!w->follower)
        return MDS_EMEM;
    memset(w->follower, 0xff, n * sizeof *w->follower);
    return MDS_OK;
}

/* Units are placed where they stay, or by acquire. */
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
                               .array = {at, elem, sharded, NULL, 0}};
    w->gather = mds_zalloc((size_t)parts->units, sizeof *w->gather);
    if (!w->gather)
        return MDS_EMEM;
    MDS_TRY(mds_storage_take(s, MDS_MEM_PARAM, &w->array, 1));
    for (int i = 0; i < parts->units && !sharded; i++)
        place(w, i, w->array.base + unit_of(w, i)->first * elem);
    if (!sharded)
        return MDS_OK;
    MDS_TRY(take_followers(w));
    return mds_pool_take(&w->pool, parts, gathered_count, alive_at_once(w), s->arena,
                         MDS_MEM_PARAM, elem);
}

void mds_weights_fini(struct zero_weights *w)
{
    for (int i = 0; w->gather && i < w->parts->units; i++)
        (void)mds_comm_wait(&w->gather[i]);
    for (int s = 0; s < w->pool.slots; s++)
        (void)mds_comm_wait(&w->fetch[s]);
    if (w->storage)
        mds_storage_release(w->storage, &w->array);
    free(w->follower);
    free(w->gather);
}

/* ---- who follows whom ---- */

/* Who was acquired after `latest`, the last time that `before` came before it: that
 * tells forward from backward.  A step's last pass counts apart, as only there nobody
 * follows the last one. */
static int *follower(const struct zero_weights *w)
{
    int row = (w->last ? w->parts->units + 1 : 0) + w->before + 1;

    return &w->follower[(size_t)row * (size_t)w->parts->units + (size_t)w->latest];
}

static void learn(struct zero_weights *w, int unit)
{
    if (w->latest >= 0)
        *follower(w) = unit;
    w->before = w->latest;
    w->latest = unit;
}

void mds_weights_pass_begin(struct zero_weights *w, int last)
{
    w->last = last;
}

/* ---- fetching sharded units ---- */

static enum mds_rc start_fetch(struct zero_weights *w, int unit, int s)
{
    const struct zero_partition *parts = w->parts;
    struct zero_piece own = mds_partition_piece(parts, unit);
    int64_t bytes = parts->shard[unit].block * w->array.elem;
    char *to = w->pool.slot[s].base;
    const void *from =
        mds_storage_bring(w->storage, &w->array, &own, to + parts->rank * bytes);

    return mds_comm_all_gather_start(parts->group, from, to, bytes, &w->fetch[s]);
}

/* A buffer for a unit that has none; -1: all are in use. */
static int free_slot(const struct zero_weights *w, int unit)
{
    return mds_pool_pick(&w->pool, unit, gathered_count(w->parts, unit));
}

static enum mds_rc fetch(struct zero_weights *w, int unit, int slot)
{
    MDS_TRY(mds_comm_wait(&w->fetch[slot])); /* brought for nothing */
    w->pool.slot[slot].unit = unit;
    return start_fetch(w, unit, slot);
}

/* The unit to fetch after the latest, unless it is here, or there is no buffer. */
static int choose_ahead(struct zero_weights *w)
{
    int unit = w->overlap ? *follower(w) : -1;
    int slot = unit < 0 ? -1 : mds_pool_find(&w->pool, unit);

    if (slot >= 0 && w->pool.slot[slot].users == 0)
        w->pool.slot[slot].ahead = 1;
    return unit < 0 || slot >= 0 || free_slot(w, unit) < 0 ? -1 : unit;
}

enum mds_rc mds_weights_fetch_ahead(struct zero_weights *w, int unit)
{
    int slot = free_slot(w, unit);

    MDS_TRY(fetch(w, unit, slot));
    w->pool.slot[slot].ahead = 1;
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
                            unit_of(w, unit)->name, w->pool.slots);
        MDS_TRY(fetch(w, unit, slot));
    }
    mds_pool_use(&w->pool, slot);
    MDS_TRY(mds_comm_wait(&w->fetch[slot]));
    place(w, unit, w->pool.slot[slot].base);
    if (w->pool.slot[slot].users > 1)
        return MDS_OK;
    learn(w, unit);
    *ahead = choose_ahead(w);
    return MDS_OK;
}

/* What is in the buffer stays until another unit needs it: often the next user wants
 * the same. */
enum mds_rc mds_weights_release(struct zero_weights *w, int unit)
{
    int slot;

    if (!w->sharded)
        return MDS_OK;
    slot = mds_pool_find(&w->pool, unit);
    if (slot < 0 || w->pool.slot[slot].users == 0)
        return mds_fail(MDS_EBUG, "weights of %s: released, but not in use",
                        unit_of(w, unit)->name);
    mds_pool_leave(&w->pool, slot);
    if (w->pool.slot[slot].users == 0)
        place(w, unit, NULL);
    return MDS_OK;
}

/* ---- around the update ---- */

enum mds_rc mds_weights_settle(struct zero_weights *w)
{
    for (int i = 0; i < w->parts->units; i++)
        MDS_TRY(mds_comm_wait(&w->gather[i]));
    for (int s = 0; s < w->pool.slots; s++) {
        struct mds_pool_slot *slot = &w->pool.slot[s];

        MDS_TRY(mds_comm_wait(&w->fetch[s]));
        if (slot->users > 0)
            return mds_fail(MDS_EBUG, "weights of %s: in use during the update",
                            unit_of(w, slot->unit)->name);
        slot->unit = -1;
        slot->ahead = 0;
    }
    if (w->sharded && w->latest >= 0)
        *follower(w) = -1;
    w->last = 0;
    return MDS_OK;
}

enum mds_rc mds_weights_gather(struct zero_weights *w, int unit)
{
    const struct mds_param_unit *u = unit_of(w, unit);
    struct mds_comm_req *req = &w->gather[unit];

    if (w->sharded || !w->parts->sharded)
        return MDS_OK;
    MDS_TRY(mds_comm_gather_slices_start(w->parts->group,
                                         w->array.base + u->first * w->array.elem,
                                         u->count, (int)w->array.elem, req));
    return w->overlap ? MDS_OK : mds_comm_wait(req);
}
