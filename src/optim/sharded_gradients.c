/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/sharded_gradients.h"
#include "base/alloc.h"
#include "base/minmax.h"
#include "tensor/op.h"

#include <stdlib.h>

/* Elements that mds_gradients_sum_unit reduces at a time. */
enum { SUM_ELEMENTS = 1 << 18 };

/* The state of a unit's gradient in a step. */
struct zero_gradient {
    int bucket;
    int begun;    /* cleared in this step; sharded: in this pass */
    int slot;     /* sharded: its buffer in the pool; -1: none */
    int summed;   /* sharded: the own shard holds a sum of this step */
    int pass;     /* the pass of this step in which it was last ready; 0: none */
    int complete; /* that pass was the last one for this unit */
};

/* Number of whole gradients in memory at once if they are sharded, not counting units
 * that enclose others, and inner ones: the one being computed and, with overlap, one
 * being reduced. */
static int max_whole_gradients(const struct zero_gradients *g)
{
    return g->overlap ? 2 : 1;
}

static float *grad_at(const struct zero_gradients *g, const struct zero_range *p)
{
    return mds_storage_at(g->storage, &g->array, p);
}

/* ---- memory ---- */

static int64_t unit_count(const struct zero_partition *parts, int unit)
{
    return mds_partition_unit(parts, unit)->count;
}

/* From the last unit to the first: the order of the backward pass. */
static enum mds_rc fill_buckets(struct zero_gradients *g, int64_t bytes)
{
    int64_t enough = g->parts->sharded ? 0 : bytes / (int64_t)sizeof(float);
    struct zero_bucket *b = NULL;

    g->unit = mds_zalloc((size_t)g->parts->units, sizeof *g->unit);
    g->bucket = mds_zalloc((size_t)g->parts->units, sizeof *g->bucket);
    if (!g->unit || !g->bucket)
        return MDS_EMEM;
    for (int i = g->parts->units - 1; i >= 0; i--) {
        const struct mds_param_unit *u = mds_partition_unit(g->parts, i);

        if (!b || b->n >= enough || b->group != g->parts->shard[i].group) {
            b = &g->bucket[g->buckets++];
            b->group = g->parts->shard[i].group;
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

/* Scratch memory of a reduction. */
static int64_t scratch_floats(const struct mds_comm *group, int64_t n)
{
    return mds_comm_all_reduce_work(group, n, MDSK_F32) / (int64_t)sizeof(float);
}

/* Scratch for the largest reduction; mds_gradients_sum_unit uses the first one's
 * too. */
static void measure_scratch(const struct zero_gradients *g, int64_t *first,
                            int64_t *others)
{
    const struct zero_partition *parts = g->parts;
    int64_t block = 0;

    *others = 0;
    for (int b = 0; b < g->buckets; b++)
        *others = mds_max(*others, scratch_floats(g->bucket[b].group, g->bucket[b].n));
    for (int i = 0; i < parts->units; i++)
        block = mds_max(block, parts->shard[i].block);
    /* mds_comm_shard rounds up, by less than 64 for each member. */
    *first = mds_min(block, SUM_ELEMENTS) + 64 * 64;
    *first = mds_max(*first, *others);
}

static enum mds_rc alloc_reductions(struct zero_gradients *g)
{
    int64_t others;

    g->reductions = g->sharded ? 1 : ZERO_REDUCTIONS;
    measure_scratch(g, &g->scratch_floats, &others);
    for (int i = 0; i < g->reductions; i++) {
        int64_t floats = i == 0 ? g->scratch_floats : others;

        MDS_TRY(mds_arena_alloc(g->storage->arena, MDS_MEM_COMM,
                                floats * (int64_t)sizeof(float),
                                &g->reduction[i].scratch));
    }
    return MDS_OK;
}

enum mds_rc mds_gradients_init(struct zero_gradients *g, struct zero_storage *s,
                               int sharded, int overlap, int64_t bucket_bytes)
{
    *g = (struct zero_gradients){
        .storage = s, .parts = s->parts, .sharded = sharded, .overlap = overlap};
    g->array = (struct zero_array){.elem = sizeof(float),
                                   .layout = sharded ? ZERO_SHARDS : ZERO_WHOLE};
    MDS_TRY(fill_buckets(g, bucket_bytes));
    MDS_TRY(mds_storage_alloc(s, MDS_MEM_GRAD, &g->array, 1));
    if (sharded)
        MDS_TRY(mds_pool_alloc(&g->pool, g->parts, unit_count, max_whole_gradients(g),
                               s->arena, MDS_MEM_GRAD, sizeof(float)));
    for (int i = 0; i < g->parts->units && !sharded; i++)
        mds_params_set_grad(g->parts->params, i,
                            (float *)g->array.base +
                                mds_partition_unit(g->parts, i)->first);
    return alloc_reductions(g);
}

void mds_gradients_fini(struct zero_gradients *g)
{
    free(g->bucket);
    free(g->unit);
}

/* ---- reductions in flight ---- */

/* Add the sum of this pass to the sums of earlier passes of the step. */
static enum mds_rc add_reduction_to_shard(struct zero_gradients *g,
                                          const struct zero_reduction *r)
{
    const struct zero_range own = mds_partition_own(g->parts, r->unit);
    struct zero_gradient *u = &g->unit[r->unit];
    struct mdsk_add a = {.n = own.n,
                         .x = (float *)g->pool.slot[r->slot].base + own.first,
                         .y = grad_at(g, &own)};

    mds_pool_release(&g->pool, r->slot);
    if (u->summed && own.n > 0)
        return mds_op_add(g->storage->dev, &a);
    u->summed = 1;
    if (own.n > 0)
        mds_dev_copy(g->storage->dev, a.y, a.x, own.n * (int64_t)sizeof(float));
    return MDS_OK;
}

/* Wait for a reduction. */
static enum mds_rc complete_reduction(struct zero_gradients *g,
                                      struct zero_reduction *r)
{
    if (!r->busy)
        return MDS_OK;
    MDS_TRY(mds_comm_wait(&r->req));
    r->busy = 0;
    return g->sharded ? add_reduction_to_shard(g, r) : MDS_OK;
}

static enum mds_rc complete_reductions(struct zero_gradients *g)
{
    for (int i = 0; i < g->reductions; i++)
        MDS_TRY(complete_reduction(g, &g->reduction[i]));
    return MDS_OK;
}

static enum mds_rc poll_reductions(struct zero_gradients *g)
{
    for (int i = 0; i < g->reductions; i++) {
        MDS_TRY(mds_comm_poll(&g->reduction[i].req));
        if (mds_comm_done(&g->reduction[i].req))
            MDS_TRY(complete_reduction(g, &g->reduction[i]));
    }
    return MDS_OK;
}

/* A free reduction, or the oldest one after waiting for it. */
static enum mds_rc next_reduction(struct zero_gradients *g, struct zero_reduction **out)
{
    *out = &g->reduction[g->next_reduction];
    g->next_reduction = (g->next_reduction + 1) % g->reductions;
    return complete_reduction(g, *out);
}

/* The unit's buffer now belongs to the reduction. */
static float *move_grad_to_reduction(struct zero_gradients *g, int unit,
                                     struct zero_reduction *r)
{
    r->unit = unit;
    r->slot = g->unit[unit].slot;
    g->unit[unit].slot = -1;
    g->unit[unit].begun = 0;
    mds_params_set_grad(g->parts->params, unit, NULL);
    return (float *)g->pool.slot[r->slot].base;
}

/* Start to reduce a bucket; if gradients are sharded, it is that of `unit`. */
static enum mds_rc start_reduction(struct zero_gradients *g, struct zero_bucket *b,
                                   int unit)
{
    struct zero_reduction *r;
    float *grad;

    MDS_TRY(next_reduction(g, &r));
    b->sent = 1;
    r->busy = 1;
    grad = g->sharded ? move_grad_to_reduction(g, unit, r)
                      : (float *)g->array.base + b->first;
    if (!g->parts->sharded)
        return mds_comm_all_reduce_start(b->group, grad, b->n, MDSK_F32, r->scratch,
                                         &r->req);
    MDS_TRY(mds_comm_reduce_shards_start(b->group, grad, b->n, r->scratch, &r->req));
    return g->sharded && !g->overlap ? complete_reduction(g, r) : MDS_OK;
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

/* Get a free buffer, waiting for reductions if all are occupied. */
static enum mds_rc acquire_buffer(struct zero_gradients *g, int unit)
{
    int64_t count = mds_partition_unit(g->parts, unit)->count;
    int slot = mds_pool_pick(&g->pool, unit, count);

    if (slot < 0) {
        MDS_TRY(complete_reductions(g));
        slot = mds_pool_pick(&g->pool, unit, count);
    }
    if (slot < 0)
        return mds_fail(MDS_EBUG, "gradient of %s: begun while all buffers are in use",
                        mds_partition_unit(g->parts, unit)->name);
    mds_pool_use(&g->pool, slot);
    g->pool.slot[slot].unit = unit;
    g->unit[unit].slot = slot;
    mds_params_set_grad(g->parts->params, unit, (float *)g->pool.slot[slot].base);
    return MDS_OK;
}

static void zero_elements(struct zero_gradients *g, float *grad, int64_t from,
                          int64_t to)
{
    if (from < to)
        mds_dev_zero(g->storage->dev, grad + from, (to - from) * (int64_t)sizeof *grad);
}

/* Zero what kernels add to; GEMMs overwrite the rest (beta = 0). */
static void clear_accumulated(struct zero_gradients *g, int unit)
{
    const struct mds_param_unit *u = mds_partition_unit(g->parts, unit);
    int64_t from = 0;

    for (int i = u->first_param; i < u->first_param + u->params; i++) {
        const struct mds_param *p = mds_params_get(g->parts->params, i);

        if (!p->spec.by_gemm)
            continue;
        zero_elements(g, u->grad, from, p->offset - u->first);
        from = p->offset - u->first + p->count;
    }
    zero_elements(g, u->grad, from, u->count);
    mds_params_set_uninit(g->parts->params, unit);
}

enum mds_rc mds_gradients_begin(struct zero_gradients *g, int unit)
{
    if (g->unit[unit].begun)
        return MDS_OK;
    if (g->sharded)
        MDS_TRY(acquire_buffer(g, unit));
    g->unit[unit].begun = 1;
    clear_accumulated(g, unit);
    return MDS_OK;
}

static enum mds_rc check_ready(const struct zero_gradients *g, int unit)
{
    const struct zero_gradient *u = &g->unit[unit];
    const char *name = mds_partition_unit(g->parts, unit)->name;

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
        MDS_TRY(start_reduction(g, b, unit));
    return poll_reductions(g);
}

enum mds_rc mds_gradients_finish(struct zero_gradients *g)
{
    for (int i = 0; i < g->parts->units; i++) {
        if (g->unit[i].pass == 0)
            return mds_fail(MDS_EBUG, "gradient of %s: not ready in any pass",
                            mds_partition_unit(g->parts, i)->name);
        if (g->unit[i].slot >= 0)
            return mds_fail(MDS_EBUG, "gradient of %s: begun, but not ready",
                            mds_partition_unit(g->parts, i)->name);
    }
    for (int b = 0; b < g->buckets; b++)
        if (!g->bucket[b].sent)
            MDS_TRY(start_reduction(g, &g->bucket[b], -1));
    return complete_reductions(g);
}

/* ---- after a step ---- */

enum mds_rc mds_gradients_sum_unit(struct zero_gradients *g, int unit,
                                   struct mds_comm *group)
{
    const struct zero_shard *own = &g->parts->shard[unit];
    struct zero_range p = {.unit = unit, .first = own->first};

    for (; p.first < own->first + own->n; p.first += p.n) {
        p.n = mds_min(SUM_ELEMENTS, own->first + own->n - p.first);
        if (scratch_floats(group, p.n) > g->scratch_floats)
            return mds_fail(MDS_EBUG, "%s: too many ranks share %s",
                            mds_comm_tag(group),
                            mds_partition_unit(g->parts, unit)->name);
        MDS_TRY(mds_comm_all_reduce(group, grad_at(g, &p), p.n, MDSK_F32,
                                    g->reduction[0].scratch));
    }
    return MDS_OK;
}

/* Without shards, only the first rank of a unit's group counts it. */
static int counts_unit(const struct zero_gradients *g, int unit)
{
    return g->parts->sharded || mds_partition_rank(g->parts, unit) == 0;
}

/* One launch for consecutive groups that are not duplicates. */
static enum mds_rc unit_squares(struct zero_gradients *g, int unit, double *sum)
{
    const struct zero_param_group *r =
        g->parts->param_group + g->parts->shard[unit].first_group;
    int n = g->parts->shard[unit].groups;

    for (int i = 0; i < n; i++) {
        struct zero_range p = {.unit = unit, .first = r[i].first, .n = r[i].n};
        struct mdsk_sum_squares a = {.x = grad_at(g, &p), .sum = sum};

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
        if (counts_unit(g, i))
            MDS_TRY(unit_squares(g, i, sum));
    return MDS_OK;
}
