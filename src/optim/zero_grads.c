/* SPDX-License-Identifier: BSD-3-Clause */
/* Gradients: where they are added up, and their sums over the group. */
#include "base/alloc.h"
#include "base/minmax.h"
#include "optim/internal.h"
#include "tensor/op.h"

/* Gradients that can be alive at once at stages 2 and 3, besides those that enclose
 * others: the one being computed; and one on its way, where that overlaps. */
static int alive_at_once(const struct mds_zero *z)
{
    return z->spec.overlap ? 2 : 1;
}

static const char *unit_name(const struct mds_zero *z, int unit)
{
    return mds_params_unit(z->params, unit)->name;
}

static void place(struct mds_zero *z, int unit, float *grad)
{
    mds_params_place(z->params, unit, mds_params_unit(z->params, unit)->weight, grad);
}

float *mds_zero_grad_at(const struct mds_zero *z, const struct zero_piece *p)
{
    if (z->stage < 2)
        return z->grad + mds_params_unit(z->params, p->unit)->first + p->first;
    return z->grad + mds_partition_at(&z->parts, p, 1);
}

/* ---- memory ---- */

static int64_t grad_floats(const struct mds_zero *z)
{
    return z->stage < 2 ? mds_params_span(z->params) : z->parts.own;
}

static int64_t unit_count(const struct zero_partition *parts, int unit)
{
    return mds_params_unit(parts->params, unit)->count;
}

/* From the last unit to the first, as backward meets them. */
static enum mds_rc fill_buckets(struct mds_zero *z)
{
    int64_t enough =
        z->parts.sharded ? 0 : z->spec.bucket_bytes / (int64_t)sizeof(float);
    struct zero_bucket *b = NULL;

    z->bucket = mds_zalloc((size_t)z->parts.units, sizeof *z->bucket);
    if (!z->bucket)
        return MDS_EMEM;
    for (int i = z->parts.units - 1; i >= 0; i--) {
        const struct mds_param_unit *pu = mds_params_unit(z->params, i);

        if (!b || b->n >= enough) {
            b = &z->bucket[z->buckets++];
            b->first = pu->first + pu->count;
        }
        b->n += b->first - pu->first;
        b->first = pu->first;
        b->units++;
        z->unit[i].bucket = z->buckets - 1;
        z->unit[i].grad_slot = -1;
    }
    return MDS_OK;
}

/* What a sum works in. */
static int64_t sum_floats(const struct mds_comm *group, int64_t n)
{
    return mds_comm_all_reduce_work(group, n, MDSK_F32) / (int64_t)sizeof(float);
}

/* Room for the longest sum; flight[0]'s serves mds_zero_sum_unit and mds_zero_read too.
 */
static void measure_work(const struct mds_zero *z, int64_t *first, int64_t *others)
{
    int64_t part = 0;

    *others = 0;
    for (int b = 0; b < z->buckets; b++)
        *others = mds_max(*others, sum_floats(z->group, z->bucket[b].n));
    for (int i = 0; i < z->parts.units; i++)
        part = mds_max(part, z->parts.shard[i].block);
    /* mds_comm_slice rounds up, by less than 64 for each member. */
    *first = mds_min(part, ZERO_SUM_PIECE) + 64 * 64;
    *first = mds_max(*first, mds_max(*others, (int64_t)64 * z->parts.size));
}

static enum mds_rc take_flights(struct mds_zero *z, struct mds_arena *arena)
{
    int64_t others;

    z->flights = z->stage < 2 ? ZERO_FLIGHTS : 1;
    measure_work(z, &z->work_floats, &others);
    for (int i = 0; i < z->flights; i++) {
        int64_t floats = i == 0 ? z->work_floats : others;
        void *p = NULL;

        MDS_TRY(
            mds_arena_take(arena, MDS_MEM_COMM, floats * (int64_t)sizeof(float), &p));
        z->flight[i].work = p;
    }
    return MDS_OK;
}

enum mds_rc mds_zero_grads_take(struct mds_zero *z, struct mds_arena *arena)
{
    void *p = NULL;

    MDS_TRY(fill_buckets(z));
    MDS_TRY(mds_arena_take(arena, MDS_MEM_GRAD, grad_floats(z) * (int64_t)sizeof(float),
                           &p));
    z->grad = p;
    for (int i = 0; i < z->parts.units && z->stage < 2; i++)
        place(z, i, z->grad + mds_params_unit(z->params, i)->first);
    if (z->stage >= 2)
        MDS_TRY(mds_pool_take(&z->grad_pool, &z->parts, unit_count, alive_at_once(z),
                              arena, MDS_MEM_GRAD, sizeof(float)));
    return take_flights(z, arena);
}

/* ---- sums under way ---- */

/* The sum of a pass joins those of the step's passes before. */
static enum mds_rc slice_is_summed(struct mds_zero *z, const struct zero_flight *f)
{
    const struct zero_shard *own = &z->parts.shard[f->unit];
    struct zero_unit *u = &z->unit[f->unit];
    float *sum = (float *)z->grad_pool.slot[f->slot].base + own->first;
    struct mdsk_add a = {.n = own->n, .x = sum, .y = z->grad + own->at};

    mds_pool_leave(&z->grad_pool, f->slot);
    if (u->summed && own->n > 0)
        return mds_op_add(z->dev, &a);
    u->summed = 1;
    if (own->n > 0)
        mds_dev_copy(z->dev, a.y, a.x, own->n * (int64_t)sizeof *sum);
    return MDS_OK;
}

/* Block until it is done. */
static enum mds_rc land(struct mds_zero *z, struct zero_flight *f)
{
    if (!f->busy)
        return MDS_OK;
    MDS_TRY(mds_comm_wait(&f->req));
    f->busy = 0;
    return z->stage >= 2 ? slice_is_summed(z, f) : MDS_OK;
}

static enum mds_rc land_all(struct mds_zero *z)
{
    for (int i = 0; i < z->flights; i++)
        MDS_TRY(land(z, &z->flight[i]));
    return MDS_OK;
}

static enum mds_rc poll_flights(struct mds_zero *z)
{
    for (int i = 0; i < z->flights; i++) {
        MDS_TRY(mds_comm_poll(&z->flight[i].req));
        if (mds_comm_done(&z->flight[i].req))
            MDS_TRY(land(z, &z->flight[i]));
    }
    return MDS_OK;
}

/* The flight that is free, or has been longest under way: then this waits. */
static enum mds_rc next_flight(struct mds_zero *z, struct zero_flight **out)
{
    *out = &z->flight[z->next_flight];
    z->next_flight = (z->next_flight + 1) % z->flights;
    return land(z, *out);
}

static enum mds_rc send_bucket(struct mds_zero *z, struct zero_bucket *b)
{
    struct zero_flight *f;

    MDS_TRY(next_flight(z, &f));
    b->sent = 1;
    f->busy = 1;
    if (z->stage == 0)
        return mds_comm_all_reduce_start(z->group, z->grad + b->first, b->n, MDSK_F32,
                                         f->work, &f->req);
    return mds_comm_reduce_slices_start(z->group, z->grad + b->first, b->n, f->work,
                                        &f->req);
}

static enum mds_rc send_unit(struct mds_zero *z, int unit)
{
    struct zero_unit *u = &z->unit[unit];
    struct zero_flight *f;

    MDS_TRY(next_flight(z, &f));
    f->busy = 1;
    f->unit = unit;
    f->slot = u->grad_slot;
    u->grad_slot = -1;
    place(z, unit, NULL);
    MDS_TRY(mds_comm_reduce_slices_start(
        z->group, (float *)z->grad_pool.slot[f->slot].base,
        mds_params_unit(z->params, unit)->count, f->work, &f->req));
    return z->spec.overlap ? MDS_OK : land(z, f);
}

/* ---- a step ---- */

enum mds_rc mds_zero_step_begin(struct mds_zero *z)
{
    z->pass = z->last = 0;
    for (int i = 0; i < z->parts.units; i++) {
        struct zero_unit *u = &z->unit[i];

        u->pass = u->complete = u->begun = u->summed = 0;
    }
    for (int b = 0; b < z->buckets; b++) {
        z->bucket[b].waiting = z->bucket[b].units;
        z->bucket[b].sent = 0;
    }
    return MDS_OK;
}

void mds_zero_pass_begin(struct mds_zero *z, int last)
{
    z->pass++;
    z->last = last;
}

/* A free buffer, if need be after the sums that occupy one. */
static enum mds_rc find_room(struct mds_zero *z, int unit, int *slot)
{
    int64_t count = mds_params_unit(z->params, unit)->count;

    *slot = mds_pool_pick(&z->grad_pool, unit, count);
    if (*slot >= 0)
        return MDS_OK;
    MDS_TRY(land_all(z));
    *slot = mds_pool_pick(&z->grad_pool, unit, count);
    if (*slot >= 0)
        return MDS_OK;
    return mds_fail(MDS_EBUG, "gradient of %s: begun while others are under way",
                    unit_name(z, unit));
}

static void zero_between(struct mds_zero *z, float *grad, int64_t from, int64_t to)
{
    if (from < to)
        mds_dev_zero(z->dev, grad + from, (to - from) * (int64_t)sizeof *grad);
}

/* Zeros where gradients are added to; products write the rest. */
static void clear(struct mds_zero *z, int unit)
{
    const struct mds_param_unit *pu = mds_params_unit(z->params, unit);
    int64_t from = 0;

    for (int i = pu->first_param; i < pu->first_param + pu->params; i++) {
        const struct mds_param *p = mds_params_get(z->params, i);

        if (!p->spec.by_product)
            continue;
        zero_between(z, pu->grad, from, p->offset - pu->first);
        from = p->offset - pu->first + p->count;
    }
    zero_between(z, pu->grad, from, pu->count);
    mds_params_set_blank(z->params, unit);
}

enum mds_rc mds_zero_grad_begin(void *ctx, int unit)
{
    struct mds_zero *z = ctx;
    struct zero_unit *u = &z->unit[unit];
    int slot;

    if (u->grad_slot >= 0 || u->begun)
        return MDS_OK;
    if (z->stage < 2) {
        u->begun = 1;
        clear(z, unit);
        return MDS_OK;
    }
    MDS_TRY(find_room(z, unit, &slot));
    mds_pool_use(&z->grad_pool, slot);
    z->grad_pool.slot[slot].unit = unit;
    u->grad_slot = slot;
    place(z, unit, (float *)z->grad_pool.slot[slot].base);
    clear(z, unit);
    return MDS_OK;
}

static enum mds_rc check_ready(const struct mds_zero *z, int unit)
{
    const struct zero_unit *u = &z->unit[unit];

    if (u->pass == z->pass)
        return mds_fail(MDS_EBUG, "gradient of %s: ready twice in a pass",
                        unit_name(z, unit));
    if (u->complete)
        return mds_fail(MDS_EBUG, "gradient of %s: ready again after its last pass",
                        unit_name(z, unit));
    if (z->stage >= 2 && u->grad_slot < 0)
        return mds_fail(MDS_EBUG, "gradient of %s: ready, but not begun",
                        unit_name(z, unit));
    return MDS_OK;
}

enum mds_rc mds_zero_grad_ready(void *ctx, int unit)
{
    struct mds_zero *z = ctx;
    struct zero_unit *u = &z->unit[unit];
    struct zero_bucket *b = &z->bucket[u->bucket];

    MDS_TRY(check_ready(z, unit));
    u->pass = z->pass;
    u->complete = z->last;
    b->waiting -= u->complete;
    if (z->stage >= 2)
        MDS_TRY(send_unit(z, unit));
    else if (z->spec.overlap && b->waiting == 0)
        MDS_TRY(send_bucket(z, b));
    return poll_flights(z);
}

enum mds_rc mds_zero_finish(struct mds_zero *z)
{
    for (int i = 0; i < z->parts.units; i++) {
        if (z->unit[i].pass == 0)
            return mds_fail(MDS_EBUG, "gradient of %s: not ready in any pass",
                            unit_name(z, i));
        if (z->unit[i].grad_slot >= 0)
            return mds_fail(MDS_EBUG, "gradient of %s: begun, but not ready",
                            unit_name(z, i));
    }
    for (int b = 0; b < z->buckets && z->stage < 2; b++)
        if (!z->bucket[b].sent)
            MDS_TRY(send_bucket(z, &z->bucket[b]));
    return land_all(z);
}

enum mds_rc mds_zero_sum_unit(struct mds_zero *z, int unit, struct mds_comm *group)
{
    const struct zero_shard *u = &z->parts.shard[unit];
    struct zero_piece p = {.unit = unit, .first = u->first};

    for (; p.first < u->first + u->n; p.first += p.n) {
        p.n = mds_min(ZERO_SUM_PIECE, u->first + u->n - p.first);
        if (sum_floats(group, p.n) > z->work_floats)
            return mds_fail(MDS_EBUG, "%s: too many ranks share %s",
                            mds_comm_tag(group), unit_name(z, unit));
        MDS_TRY(mds_comm_all_reduce(group, mds_zero_grad_at(z, &p), p.n, MDSK_F32,
                                    z->flight[0].work));
    }
    return MDS_OK;
}
