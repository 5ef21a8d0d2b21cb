/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/sharded_states.h"
#include "base/minmax.h"

/* ---- memory ---- */

static enum mds_rc alloc_work(struct zero_states *st)
{
    struct zero_range p = {.unit = -1};
    int64_t bytes = 0;

    while (mds_partition_next_range(st->parts, INT64_MAX, &p))
        if (p.by.rule->work_bytes)
            bytes = mds_max(bytes, p.by.rule->work_bytes(st->parts));
    return bytes ? mds_arena_alloc(st->storage->arena, MDS_MEM_OPTIM, bytes,
                                   &st->step.work)
                 : MDS_OK;
}

enum mds_rc mds_states_init(struct zero_states *st, struct zero_storage *s,
                            const struct mds_optim_config *optim,
                            const struct zero_array *weights, enum mds_place_kind place)
{
    int on_device = place == MDS_PLACE_DEVICE;
    int first, all_have_second = s->parts->all_have_second;

    *st = (struct zero_states){
        .storage = s, .parts = s->parts, .step = {.optim = *optim}};
    st->master_is_weights = weights->elem == sizeof(float) && weights->place == place;
    if (st->master_is_weights)
        st->array[ZERO_MASTER] = *weights;
    first = st->master_is_weights ? ZERO_M : ZERO_MASTER;
    st->array[first] = (struct zero_array){
        .place = place, .elem = sizeof(float), .layout = ZERO_SHARDS};
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
    MDS_TRY(alloc_work(st));
    return mds_swap_create(s, st->array, &st->swap);
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
    return mds_swap_wait(st->swap);
}

enum mds_rc mds_states_begin(struct zero_states *st, double lr, double grad_scale)
{
    st->step.number++;
    st->step.lr = lr;
    st->step.grad_scale = grad_scale;
    st->rc = mds_swap_begin(st->swap);
    return st->rc;
}

struct zero_operands mds_states_operands(const struct zero_states *st, int unit,
                                         const float *grad, void *weight)
{
    int on_device = st->array[ZERO_M].place == MDS_PLACE_DEVICE;

    return (struct zero_operands){.dev = on_device ? st->storage->dev : NULL,
                                  .range = mds_partition_own(st->parts, unit),
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
