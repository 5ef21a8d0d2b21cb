/* SPDX-License-Identifier: BSD-3-Clause */
/* Weights: where they rest, and how units that are not whole here get whole. */
#include "base/alloc.h"
#include "optim/internal.h"

#include <stdlib.h>
#include <string.h>

/* Units whose weights take turns at stage 3: one that is in use, and one that is
 * fetched ahead of time.  Where none has a buffer of its own there is another one, as
 * the last units of a pass are the next one's first. */
static int alive_at_once(const struct mds_zero *z)
{
    return 1 + (z->spec.overlap != 0) + (mds_pool_enclosing(&z->parts) == 0);
}

static void place(struct mds_zero *z, int unit, void *weight)
{
    mds_params_place(z->params, unit, weight, mds_params_unit(z->params, unit)->grad);
}

int mds_zero_weights_on_host(const struct mds_zero *z)
{
    return z->spec.weights == MDS_PLACE_CPU;
}

char *mds_zero_weight_at(const struct mds_zero *z, const struct zero_piece *p)
{
    if (!z->weight) /* on the host of a dry device */
        return NULL;
    if (z->stage < 3)
        return z->weight +
               (mds_params_unit(z->params, p->unit)->first + p->first) * z->elem;
    return z->weight + mds_partition_at(&z->parts, p, 1) * z->elem;
}

/* ---- memory ---- */

static int64_t gathered_count(const struct zero_partition *parts, int unit)
{
    return parts->shard[unit].block * parts->size;
}

/* For who follows whom: 2 (n + 1) n numbers, for n units. */
static enum mds_rc take_followers(struct mds_zero *z)
{
    size_t n = 2 * ((size_t)z->parts.units + 1) * (size_t)z->parts.units;

    z->before = z->latest = -1;
    z->follower = mds_zalloc(n, sizeof *z->follower);
    if (!z->follower)
        return MDS_EMEM;
    memset(z->follower, 0xff, n * sizeof *z->follower);
    return MDS_OK;
}

/* Where the update leaves 32-bit weights on the host, they are their own master. */
static enum mds_rc take_slices(struct mds_zero *z, struct mds_arena *arena)
{
    void *p = NULL;

    if (!mds_zero_weights_on_host(z))
        MDS_TRY(mds_arena_take(arena, MDS_MEM_PARAM, z->parts.own * z->elem, &p));
    else if (z->dtype == MDSK_F32 && z->spec.optimizer == MDS_PLACE_CPU)
        p = z->master;
    else
        MDS_TRY(mds_zero_host_alloc(z, z->parts.own * z->elem, &z->weight));
    if (p)
        z->weight = p;
    return MDS_OK;
}

enum mds_rc mds_zero_weights_take(struct mds_zero *z, struct mds_arena *arena)
{
    void *p = NULL;

    if (z->stage == 3) {
        MDS_TRY(take_slices(z, arena));
        MDS_TRY(take_followers(z));
        return mds_pool_take(&z->weight_pool, &z->parts, gathered_count,
                             alive_at_once(z), arena, MDS_MEM_PARAM, z->elem);
    }
    MDS_TRY(
        mds_arena_take(arena, MDS_MEM_PARAM, mds_params_span(z->params) * z->elem, &p));
    z->weight = p;
    for (int i = 0; i < z->parts.units; i++)
        place(z, i, z->weight + mds_params_unit(z->params, i)->first * z->elem);
    return MDS_OK;
}

/* ---- who follows whom ---- */

/* Who was acquired after `latest`, the last time that `before` came before it: that
 * tells forward from backward.  A step's last pass counts apart, as only there nobody
 * follows the last one. */
static int *follower(const struct mds_zero *z)
{
    int row = (z->last ? z->parts.units + 1 : 0) + z->before + 1;

    return &z->follower[(size_t)row * (size_t)z->parts.units + (size_t)z->latest];
}

static void learn(struct mds_zero *z, int unit)
{
    if (z->latest >= 0)
        *follower(z) = unit;
    z->before = z->latest;
    z->latest = unit;
}

/* ---- gathering ---- */

static enum mds_rc start_fetch(struct mds_zero *z, int unit, int s)
{
    const struct zero_shard *u = &z->parts.shard[unit];
    struct zero_piece own = mds_partition_piece(&z->parts, unit);
    int64_t bytes = u->block * z->elem;
    char *to = z->weight_pool.slot[s].base;
    const char *from = mds_zero_weight_at(z, &own);

    if (z->offload)
        MDS_TRY(mds_zero_offload_deliver(z, unit));
    if (mds_zero_weights_on_host(z)) {
        mds_dev_copy_in(z->dev, to + z->parts.rank * bytes, from, u->n * z->elem);
        from = to + z->parts.rank * bytes;
    }
    return mds_comm_all_gather_start(z->group, from, to, bytes, &z->fetch[s]);
}

/* Begin to gather, unless the unit is here; slot -1 if there is no room. */
static enum mds_rc bring(struct mds_zero *z, int unit, int *slot)
{
    struct mds_pool *pool = &z->weight_pool;

    *slot = mds_pool_find(pool, unit);
    if (*slot >= 0)
        return MDS_OK;
    *slot = mds_pool_pick(pool, unit, gathered_count(&z->parts, unit));
    if (*slot < 0)
        return MDS_OK;
    MDS_TRY(mds_comm_wait(&z->fetch[*slot])); /* brought for nothing */
    pool->slot[*slot].unit = unit;
    return start_fetch(z, unit, *slot);
}

static enum mds_rc bring_ahead(struct mds_zero *z, int unit)
{
    int slot;

    if (unit < 0 || !z->spec.overlap)
        return MDS_OK;
    MDS_TRY(bring(z, unit, &slot));
    if (slot >= 0 && z->weight_pool.slot[slot].users == 0)
        z->weight_pool.slot[slot].ahead = 1;
    return MDS_OK;
}

static enum mds_rc acquire_slices(struct mds_zero *z, int unit)
{
    struct mds_pool *pool = &z->weight_pool;
    int slot;

    MDS_TRY(bring(z, unit, &slot));
    if (slot < 0)
        return mds_fail(MDS_EBUG, "weights of %s: more than %d units in use at once",
                        mds_params_unit(z->params, unit)->name, pool->slots);
    mds_pool_use(pool, slot);
    MDS_TRY(mds_comm_wait(&z->fetch[slot]));
    place(z, unit, pool->slot[slot].base);
    if (pool->slot[slot].users > 1)
        return MDS_OK;
    learn(z, unit);
    return bring_ahead(z, *follower(z));
}

enum mds_rc mds_zero_acquire(void *ctx, int unit)
{
    struct mds_zero *z = ctx;

    if (z->stage == 3)
        return acquire_slices(z, unit);
    if (z->offload)
        MDS_TRY(mds_zero_offload_deliver(z, unit));
    return mds_comm_wait(&z->unit[unit].gather);
}

/* What is in the slot stays until another unit needs it: often the next user wants the
 * same. */
enum mds_rc mds_zero_release(void *ctx, int unit)
{
    struct mds_zero *z = ctx;
    int slot;

    if (z->stage < 3)
        return MDS_OK;
    slot = mds_pool_find(&z->weight_pool, unit);
    if (slot < 0 || z->weight_pool.slot[slot].users == 0)
        return mds_fail(MDS_EBUG, "weights of %s: released, but not in use",
                        mds_params_unit(z->params, unit)->name);
    mds_pool_leave(&z->weight_pool, slot);
    if (z->weight_pool.slot[slot].users == 0)
        place(z, unit, NULL);
    return MDS_OK;
}

/* ---- around the update ---- */

enum mds_rc mds_zero_weights_settle(struct mds_zero *z)
{
    for (int i = 0; z->offload && i < z->parts.units; i++)
        MDS_TRY(mds_zero_offload_deliver(z, i));
    for (int i = 0; i < z->parts.units; i++)
        MDS_TRY(mds_comm_wait(&z->unit[i].gather));
    for (int s = 0; s < z->weight_pool.slots; s++) {
        struct mds_pool_slot *slot = &z->weight_pool.slot[s];

        MDS_TRY(mds_comm_wait(&z->fetch[s]));
        if (slot->users > 0)
            return mds_fail(MDS_EBUG, "weights of %s: in use during the update",
                            mds_params_unit(z->params, slot->unit)->name);
        slot->unit = -1;
        slot->ahead = 0;
    }
    if (z->stage == 3 && z->latest >= 0)
        *follower(z) = -1;
    z->last = 0;
    return MDS_OK;
}

enum mds_rc mds_zero_weights_publish(struct mds_zero *z, int unit)
{
    const struct mds_param_unit *pu = mds_params_unit(z->params, unit);
    struct mds_comm_req *req = &z->unit[unit].gather;

    if (z->stage != 1 && z->stage != 2)
        return MDS_OK;
    MDS_TRY(mds_comm_gather_slices_start(z->group, z->weight + pu->first * z->elem,
                                         pu->count, (int)z->elem, req));
    return z->spec.overlap ? MDS_OK : mds_comm_wait(req);
}
