/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/sharded_states.h"

/* ---- memory ---- */

static int weights_are_staged(const struct zero_states *st)
{
    return !st->master_is_weights && st->weights->place != MDS_PLACE_DEVICE;
}

/* Buffers for states and weights on their way to the device and back. */
static enum mds_rc alloc_staged(struct zero_states *st)
{
    st->longest = ZERO_STAGING_ELEMENTS;
    for (int k = 0; k < ZERO_STATES + weights_are_staged(st); k++)
        for (int i = 0; i < 2; i++)
            MDS_TRY(mds_arena_alloc(st->storage->arena, MDS_MEM_OPTIM,
                                    st->longest * (int64_t)sizeof(float),
                                    &st->staged[k].buffer[i]));
    return st->array[ZERO_M].place == MDS_PLACE_NVME
               ? mds_storage_alloc_bounce(st->storage)
               : MDS_OK;
}

enum mds_rc mds_states_init(struct zero_states *st, struct zero_storage *s,
                            const struct mds_optim_config *optim,
                            const struct zero_array *weights, enum mds_place_kind place,
                            int on_host)
{
    int on_device = place == MDS_PLACE_DEVICE;
    int first, all_have_second = s->parts->all_have_second;

    *st = (struct zero_states){.storage = s,
                               .parts = s->parts,
                               .step = {.optim = *optim},
                               .weights = weights,
                               .longest = INT64_MAX};
    st->master_is_weights = weights->elem == sizeof(float) && weights->place == place;
    if (st->master_is_weights)
        st->array[ZERO_MASTER] = *weights;
    first = st->master_is_weights ? ZERO_M : ZERO_MASTER;
    st->array[first] = (struct zero_array){.place = place,
                                           .pinned = !on_host,
                                           .elem = sizeof(float),
                                           .layout = ZERO_SHARDS};
    MDS_TRY(mds_storage_alloc(s, MDS_MEM_OPTIM, &st->array[first],
                              (all_have_second ? ZERO_STATES : ZERO_V) - first));
    if (!all_have_second) {
        st->array[ZERO_V] = st->array[first];
        st->array[ZERO_V].layout = ZERO_SECOND;
        MDS_TRY(mds_storage_alloc(s, MDS_MEM_OPTIM, &st->array[ZERO_V], 1));
    }
    for (int k = ZERO_M; k < ZERO_STATES && on_device; k++)
        mds_dev_zero(s->dev, st->array[k].base,
                     mds_partition_elements(s->parts, st->array[k].layout) *
                         st->array[k].elem);
    if (place == MDS_PLACE_NVME)
        MDS_TRY(mds_storage_create_file(s));
    if (on_host)
        return mds_swap_create(s, st->array, &st->swap);
    return on_device ? MDS_OK : alloc_staged(st);
}

void mds_states_fini(struct zero_states *st)
{
    mds_swap_destroy(st->swap);
    for (int k = st->master_is_weights ? ZERO_M : ZERO_MASTER; k < ZERO_STATES; k++)
        if (st->storage)
            mds_storage_release(st->storage, &st->array[k]);
}

/* ---- the update ---- */

enum mds_rc mds_states_wait(struct zero_states *st)
{
    return st->swap ? mds_swap_wait(st->swap) : mds_dev_wait(st->storage->dev);
}

enum mds_rc mds_states_begin(struct zero_states *st, double lr, double grad_scale)
{
    st->step.number++;
    st->step.lr = lr;
    st->step.grad_scale = grad_scale;
    st->rc = st->swap ? mds_swap_begin(st->swap) : MDS_OK;
    return st->rc;
}

/* ---- on the device ---- */

/* The buffer for the next piece.  Its copy waits for that of the last but one only, so
 * that the last one goes back meanwhile. */
static void *next_buffer(struct zero_states *st, int k)
{
    struct zero_staged *x = &st->staged[k];

    x->latest ^= 1;
    mds_dev_wait_copy(st->storage->dev, x->stored[x->latest]);
    return x->buffer[x->latest];
}

static enum mds_rc store(struct zero_states *st, int k, const struct zero_array *array,
                         const struct zero_range *r)
{
    struct zero_staged *x = &st->staged[k];

    return mds_storage_store(st->storage, array, r, x->buffer[x->latest],
                             &x->stored[x->latest]);
}

void mds_states_end(struct zero_states *st)
{
    for (int k = 0; k <= ZERO_STATES; k++)
        for (int i = 0; i < 2; i++)
            mds_dev_wait_copy(st->storage->dev, st->staged[k].stored[i]);
}

enum mds_rc mds_states_fetch(struct zero_states *st, enum zero_state k,
                             const struct zero_range *r, float **at)
{
    void *p;

    MDS_TRY(mds_storage_fetch(st->storage, &st->array[k], r, next_buffer(st, k), &p));
    *at = p;
    return MDS_OK;
}

enum mds_rc mds_states_store(struct zero_states *st, enum zero_state k,
                             const struct zero_range *r)
{
    return store(st, k, &st->array[k], r);
}

void *mds_states_weight(struct zero_states *st, const struct zero_range *r)
{
    if (st->master_is_weights)
        return NULL;
    return weights_are_staged(st) ? next_buffer(st, ZERO_STATES)
                                  : mds_storage_at(st->storage, st->weights, r);
}

enum mds_rc mds_states_store_weight(struct zero_states *st, const struct zero_range *r)
{
    return st->master_is_weights ? MDS_OK : store(st, ZERO_STATES, st->weights, r);
}

static enum mds_rc update_range(struct zero_states *st, const struct zero_range *r,
                                const struct zero_array *gradients)
{
    struct zero_operands x = {.dev = st->storage->dev,
                              .range = *r,
                              .grad = mds_storage_at(st->storage, gradients, r),
                              .weight = mds_states_weight(st, r),
                              .dtype = mds_params_dtype(st->parts->params)};
    int states = ZERO_M + r->by.moments;

    for (int k = 0; k < states; k++)
        MDS_TRY(mds_states_fetch(st, (enum zero_state)k, r, &x.state[k]));
    MDS_TRY(r->by.rule->update(&st->step, st->parts, &x));
    MDS_TRY(mds_heads_scale(&st->step, st->parts, &x));
    for (int k = 0; k < states; k++)
        MDS_TRY(mds_states_store(st, (enum zero_state)k, r));
    return mds_states_store_weight(st, r);
}

enum mds_rc mds_states_update_unit(struct zero_states *st, int unit,
                                   const struct zero_array *gradients)
{
    struct zero_range r = {.unit = unit, .first = st->parts->shard[unit].first};

    while (mds_partition_next_range(st->parts, st->longest, &r) && r.unit == unit)
        if (r.by.rule->update)
            MDS_TRY(update_range(st, &r, gradients));
    return MDS_OK;
}

/* ---- on the host ---- */

struct zero_operands mds_states_operands(const struct zero_states *st, int unit,
                                         const float *grad, void *weight)
{
    return (struct zero_operands){.range = mds_partition_own(st->parts, unit),
                                  .grad = grad,
                                  .weight = st->master_is_weights ? NULL : weight,
                                  .dtype = mds_params_dtype(st->parts->params)};
}

static enum mds_rc update_next_range(struct zero_states *st,
                                     const struct zero_operands *shard, int64_t *n)
{
    struct zero_operands x = *shard;
    int64_t skip;

    MDS_TRY(mds_swap_in(st->swap, &x.range, x.state));
    skip = x.range.first - shard->range.first;
    x.grad += skip;
    x.weight = mds_operand_weight(shard, skip);
    MDS_TRY(x.range.by.rule->update(&st->step, st->parts, &x));
    MDS_TRY(mds_heads_scale(&st->step, st->parts, &x));
    mds_swap_out(st->swap);
    *n = x.range.n;
    return MDS_OK;
}

enum mds_rc mds_states_update(struct zero_states *st, const struct zero_operands *shard)
{
    for (int64_t n = 0, left = shard->range.n; left > 0 && !st->rc; left -= n)
        st->rc = update_next_range(st, shard, &n);
    return st->rc;
}
