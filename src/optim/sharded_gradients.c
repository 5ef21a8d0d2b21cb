/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/sharded_gradients.h"
#include "base/alloc.h"
#include "base/minmax.h"
#include "tensor/op.h"

#include <stdlib.h>

/* Elements that mds_gradients_sum_unit adds up at a time. */
enum { SUM_PIECE = 1 << 18 };

/* What becomes of a unit in a step. */
struct zero_gradient {
    int bucket;
    int begun;    /* cleared; sharded: in this pass */
    int slot;     /* sharded: of the pool, while it has one; -1: none */
    int summed;   /* sharded: own shard has a sum of this step */
    int pass;     /* of this step it was last ready in; 0: none yet */
    int complete; /* that pass was the unit's last one */
};

/* Whole gradients alive at once where they are sharded, besides those that enclose
 * others: the one being computed; and one on its way, where that overlaps. */
static int alive_at_once(const struct zero_gradients *g)
{
    return g->overlap ? 2 : 1;
}

static const struct mds_param_unit *unit_of(const struct zero_gradients *g, int unit)
{
    return mds_params_unit(g->parts->params, unit);
}

static void place(struct zero_gradients *g, int unit, float *grad)
{
    mds_params_place(g->parts->params, unit, unit_of(g, unit)->weight, grad);
}

static float *at(const struct zero_gradients *g, const struct zero_piece *p)
{
    return mds_storage_at(g->storage, &g->array, p);
}

/* ---- memory ---- */

static int64_t unit_count(const struct zero_partition *parts, int unit)
{
    return mds_params_unit(parts->params, unit)->count;
}

/* From the last unit to the first, as backward meets them. */
static enum mds_rc fill_buckets(struct zero_gradients *g, int64_t bytes)
{
    int64_t enough = g->parts->sharded ? 0 : bytes / (int64_t)sizeof(float);
    struct zero_bucket *b = NULL;

    g->unit = mds_zalloc((size_t)g->parts->units, sizeof *g->unit);
    g->bucket = mds_zalloc((size_t)g->parts->units, sizeof *g->bucket);
    if (!g->unit || !g->bucket)
        return MDS_EMEM;
    for (int i = g->parts->units - 1; i >= 0; i--) {
        const struct mds_param_unit *u = unit_of(g, i);

        if (!b || b->n >= enough) {
            b = &g->bucket[g->buckets++];
            b->first = u->first + u->count;
        }
        b->n += b->first - u->first;
        b->first = u->first;
        b->units++;
        g->unit[i].bucket = g->buckets - 1;
        g->unit[i].slot = -1;
    }
    return MDS_OK;
}

/* What a reduction works in. */
static int64_t work_floats(const struct mds_comm *group, int64_t n)
{
    return mds_comm_all_reduce_work(group, n, MDSK_F32) / (int64_t)sizeof(float);
}

/* Room for the longest reduction; the first one's serves mds_gradients_sum_unit too. */
static void measure_work(const struct zero_gradients *g, int64_t *first,
                         int64_t *others)
{
    const struct zero_partition *parts = g->parts;
    int64_t block = 0;

    *others = 0;
    for (int b = 0; b < g->buckets; b++)
        *others = mds_max(*others, work_floats(parts->group, g->bucket[b].n));
    for (int i = 0; i < parts->units; i++)
        block = mds_max(block, parts->shard[i].block);
    /* mds_comm_slice rounds up, by less than 64 for each member. */
    *first = mds_min(block, SUM_PIECE) + 64 * 64;
    *first = mds_max(*first, *others);
}

static enum mds_rc take_reductions(struct zero_gradients *g)
{
    int64_t others;

    g->reductions = g->sharded ? 1 : ZERO_REDUCTIONS;
    measure_work(g, &g->work_floats, &others);
    for (int i = 0; i < g->reductions; i++) {
        int64_t floats = i == 0 ? g->work_floats : others;
        void *p = NULL;

        MDS_TRY(mds_arena_take(g->storage->arena, MDS_MEM_COMM,
                               floats * (int64_t)sizeof(float), &p));
        g->reduction[i].work = p;
    }
    return MDS_OK;
}

enum mds_rc mds_gradients_init(struct zero_gradients *g, struct zero_storage *s,
                               int sharded, int overlap, int64_t bucket_bytes)
{
    *g = (struct zero_gradients){
        .storage = s, .parts = s->parts, .sharded = sharded, .overlap = overlap};
    g->array = (struct zero_array){.elem = sizeof(float), .sharded = sharded};
    MDS_TRY(fill_buckets(g, bucket_bytes));
    MDS_TRY(mds_storage_take(s, MDS_MEM_GRAD, &g->array, 1));
    if (sharded)
        MDS_TRY(mds_pool_take(&g->pool, g->parts, unit_count, alive_at_once(g),
                              s->arena, MDS_MEM_GRAD, sizeof(float)));
    for (int i = 0; i < g->parts->units && !sharded; i++)
        place(g, i, (float *)g->array.base + unit_of(g, i)->first);
    return take_reductions(g);
}

void mds_gradients_fini(struct zero_gradients *g)
{
    free(g->bucket);
    free(g->unit);
}

/* ---- reductions under way ---- */

/* The sum of a pass joins those of the step's passes before. */
static enum mds_rc add_to_shard(struct zero_gradients *g,
                                const struct zero_reduction *r)
{
    const struct zero_piece own = mds_partition_piece(g->parts, r->unit);
    struct zero_gradient *u = &g->unit[r->unit];
    struct mdsk_add a = {.n = own.n,
                         .x = (float *)g->pool.slot[r->slot].base + own.first,
                         .y = at(g, &own)};

    mds_pool_leave(&g->pool, r->slot);
    if (u->summed && own.n > 0)
        return mds_op_add(g->storage->dev, &a);
    u->summed = 1;
    if (own.n > 0)
        mds_dev_copy(g->storage->dev, a.y, a.x, own.n * (int64_t)sizeof(float));
    return MDS_OK;
}

/* Block until it is done. */
static enum mds_rc complete(struct zero_gradients *g, struct zero_reduction *r)
{
    if (!r->busy)
        return MDS_OK;
    MDS_TRY(mds_comm_wait(&r->req));
    r->busy = 0;
    return g->sharded ? add_to_shard(g, r) : MDS_OK;
}

static enum mds_rc complete_all(struct zero_gradients *g)
{
    for (int i = 0; i < g->reductions; i++)
        MDS_TRY(complete(g, &g->reduction[i]));
    return MDS_OK;
}

static enum mds_rc poll_all(struct zero_gradients *g)
{
    for (int i = 0; i < g->reductions; i++) {
        MDS_TRY(mds_comm_poll(&g->reduction[i].req));
        if (mds_comm_done(&g->reduction[i].req))
            MDS_TRY(complete(g, &g->reduction[i]));
    }
    return MDS_OK;
}

/* The one that is free, or has been longest under way: then this waits. */
static enum mds_rc next_reduction(struct zero_gradients *g, struct zero_reduction **out)
{
    *out = &g->reduction[g->next_reduction];
    g->next_reduction = (g->next_reduction + 1) % g->reductions;
    return complete(g, *out);
}

/* The reduction takes over the unit's buffer. */
static float *hand_over(struct zero_gradients *g, int unit, struct zero_reduction *r)
{
    r->unit = unit;
    r->slot = g->unit[unit].slot;
    g->unit[unit].slot = -1;
    g->unit[unit].begun = 0;
    place(g, unit, NULL);
    return (float *)g->pool.slot[r->slot].base;
}

/* A bucket, that of `unit` if gradients are sharded. */
static enum mds_rc send(struct zero_gradients *g, struct zero_bucket *b, int unit)
{
    struct mds_comm *group = g->parts->group;
    struct zero_reduction *r;
    float *grad;

    MDS_TRY(next_reduction(g, &r));
    b->sent = 1;
    r->busy = 1;
    grad = g->sharded ? hand_over(g, unit, r) : (float *)g->array.base + b->first;
    if (!g->parts->sharded)
        return mds_comm_all_reduce_start(group, grad, b->n, MDSK_F32, r->work, &r->req);
    MDS_TRY(mds_comm_reduce_slices_start(group, grad, b->n, r->work, &r->req));
    return g->sharded && !g->overlap ? complete(g, r) : MDS_OK;
}

/* ---- a step ---- */

void mds_gradients_step_begin(struct zero_gradients *g)
{
    g->pass = g->last = 0;
    for (int i = 0; i < g->parts->units; i++) {
        struct zero_gradient *u = &g->unit[i];

        u->pass = u->complete = u->begun = u->summed = 0;
    }
    for (int b = 0; b < g->buckets; b++) {
        g->bucket[b].waiting = g->bucket[b].units;
        g->bucket[b].sent = 0;
    }
}

void mds_gradients_pass_begin(struct zero_gradients *g, int last)
{
    g->pass++;
    g->last = last;
}

/* A free buffer, if need be after the reductions that occupy one. */
static enum mds_rc take_slot(struct zero_gradients *g, int unit)
{
    int64_t count = unit_of(g, unit)->count;
    int slot = mds_pool_pick(&g->pool, unit, count);

    if (slot < 0) {
        MDS_TRY(complete_all(g));
        slot = mds_pool_pick(&g->pool, unit, count);
    }
    if (slot < 0)
        return mds_fail(MDS_EBUG, "gradient of %s: begun while others are under way",
                        unit_of(g, unit)->name);
    mds_pool_use(&g->pool, slot);
    g->pool.slot[slot].unit = unit;
    g->unit[unit].slot = slot;
    place(g, unit, (float *)g->pool.slot[slot].base);
    return MDS_OK;
}

static void zero_between(struct zero_gradients *g, float *grad, int64_t from,
                         int64_t to)
{
    if (from < to)
        mds_dev_zero(g->storage->dev, grad + from, (to - from) * (int64_t)sizeof *grad);
}

/* Zeros where gradients are added to; products write the rest. */
static void clear(struct zero_gradients *g, int unit)
{
    const struct mds_param_unit *u = unit_of(g, unit);
    int64_t from = 0;

    for (int i = u->first_param; i < u->first_param + u->params; i++) {
        const struct mds_param *p = mds_params_get(g->parts->params, i);

        if (!p->spec.by_product)
            continue;
        zero_between(g, u->grad, from, p->offset - u->first);
        from = p->offset - u->first + p->count;
    }
    zero_between(g, u->grad, from, u->count);
    mds_params_set_blank(g->parts->params, unit);
}

enum mds_rc mds_gradients_begin(struct zero_gradients *g, int unit)
{
    if (g->unit[unit].begun)
        return MDS_OK;
    if (g->sharded)
        MDS_TRY(take_slot(g, unit));
    g->unit[unit].begun = 1;
    clear(g, unit);
    return MDS_OK;
}

static enum mds_rc check_ready(const struct zero_gradients *g, int unit)
{
    const struct zero_gradient *u = &g->unit[unit];
    const char *name = unit_of(g, unit)->name;

    if (u->pass == g->pass)
        return mds_fail(MDS_EBUG, "gradient of %s: ready twice in a pass", name);
    if (u->complete)
        return mds_fail(MDS_EBUG, "gradient of %s: ready again after its last pass",
                        name);
    if (!u->begun)
        return mds_fail(MDS_EBUG, "gradient of %s: ready, but not begun", name);
    return MDS_OK;
}

enum mds_rc mds_gradients_ready(struct zero_gradients *g, int unit)
{
    struct zero_gradient *u = &g->unit[unit];
    struct zero_bucket *b = &g->bucket[u->bucket];

    MDS_TRY(check_ready(g, unit));
    u->pass = g->pass;
    u->complete = g->last;
    b->waiting -= u->complete;
    if (g->sharded || (g->overlap && b->waiting == 0))
        MDS_TRY(send(g, b, unit));
    return poll_all(g);
}

enum mds_rc mds_gradients_finish(struct zero_gradients *g)
{
    for (int i = 0; i < g->parts->units; i++) {
        if (g->unit[i].pass == 0)
            return mds_fail(MDS_EBUG, "gradient of %s: not ready in any pass",
                            unit_of(g, i)->name);
        if (g->unit[i].slot >= 0)
            return mds_fail(MDS_EBUG, "gradient of %s: begun, but not ready",
                            unit_of(g, i)->name);
    }
    for (int b = 0; b < g->buckets; b++)
        if (!g->bucket[b].sent)
            MDS_TRY(send(g, &g->bucket[b], -1));
    return complete_all(g);
}

/* ---- after it ---- */

enum mds_rc mds_gradients_sum_unit(struct zero_gradients *g, int unit,
                                   struct mds_comm *group)
{
    const struct zero_shard *own = &g->parts->shard[unit];
    struct zero_piece p = {.unit = unit, .first = own->first};

    for (; p.first < own->first + own->n; p.first += p.n) {
        p.n = mds_min(SUM_PIECE, own->first + own->n - p.first);
        if (work_floats(group, p.n) > g->work_floats)
            return mds_fail(MDS_EBUG, "%s: too many ranks share %s",
                            mds_comm_tag(group), unit_of(g, unit)->name);
        MDS_TRY(
            mds_comm_all_reduce(group, at(g, &p), p.n, MDSK_F32, g->reduction[0].work));
    }
    return MDS_OK;
}

/* Consecutive ranges that are no duplicates, in one go. */
static enum mds_rc unit_squares(struct zero_gradients *g, int unit, double *sum)
{
    const struct zero_range *r = g->parts->range + g->parts->shard[unit].range;
    int n = g->parts->shard[unit].ranges;

    for (int i = 0; i < n; i++) {
        struct zero_piece p = {.unit = unit, .first = r[i].first, .n = r[i].n};
        struct mdsk_sum_squares a = {.x = at(g, &p), .sum = sum};

        if (r[i].duplicate)
            continue;
        while (i + 1 < n && !r[i + 1].duplicate)
            p.n += r[++i].n;
        a.n = p.n;
        MDS_TRY(mds_op_sum_squares(g->storage->dev, &a));
    }
    return MDS_OK;
}

enum mds_rc mds_gradients_squares(struct zero_gradients *g, double *sum)
{
    mds_dev_zero(g->storage->dev, sum, sizeof *sum);
    for (int i = 0; i < g->parts->units; i++)
        MDS_TRY(unit_squares(g, i, sum));
    return MDS_OK;
}
