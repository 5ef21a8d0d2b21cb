/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/sharded_states.h"

/* ---- memory ---- */

enum mds_rc mds_states_init(struct zero_states *st, struct zero_storage *s,
                            const struct mds_optim_config *optim,
                            const struct zero_array *weights, enum mds_place_kind place)
{
    int on_device = place == MDS_PLACE_DEVICE;
    int first;

    *st = (struct zero_states){
        .storage = s, .parts = s->parts, .step = {.optim = *optim}};
    st->master_is_weights = weights->elem == sizeof(float) && weights->place == place;
    if (st->master_is_weights)
        st->array[ZERO_MASTER] = *weights;
    first = st->master_is_weights ? ZERO_M : ZERO_MASTER;
    st->array[first] =
        (struct zero_array){.place = place, .elem = sizeof(float), .sharded = 1};
    MDS_TRY(
        mds_storage_alloc(s, MDS_MEM_OPTIM, &st->array[first], ZERO_STATES - first));
    for (int k = ZERO_M; k < ZERO_STATES && on_device; k++)
        mds_dev_zero(s->dev, st->array[k].base, s->parts->own * st->array[k].elem);
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
    MDS_TRY(x.range.rule->update(&st->step, st->parts, &x));
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
