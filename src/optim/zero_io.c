/* SPDX-License-Identifier: BSD-3-Clause */
/* Setting weights and moments, and reading weights, moments and gradients: for initial
 * values, checkpoints and comparisons. */
#include "base/alloc.h"
#include "kernels/table.h"
#include "optim/internal.h"

#include <stdlib.h>
#include <string.h>

static const enum zero_state state_of[] = {
    [MDS_ZERO_WEIGHT] = ZERO_MASTER, [MDS_ZERO_M] = ZERO_M, [MDS_ZERO_V] = ZERO_V};

/* ---- setting ---- */

struct load {
    struct mds_zero *z;
    mds_zero_fill_fn *fill;
    void *ctx;
    float *f32;    /* in host memory, as the next: a range before it is stored, */
    void *rounded; /* and rounded to the type of the weights */
};

/* Store the weights themselves, unless they are their own master. */
static enum mds_rc store_weights(const struct load *l, const struct zero_range *p)
{
    struct zero_weights *w = &l->z->weights;
    struct mdsk_cast a = {
        .n = p->n, .from = MDSK_F32, .to = w->dtype, .x = l->f32, .y = l->rounded};

    if (l->z->states.master_is_weights)
        return MDS_OK;
    if (w->dtype == MDSK_F32)
        return mds_storage_copy(w->storage, &w->array, p, l->f32, 1);
    if (!w->storage->dry)
        mdsk_cast_cpu(NULL, &a);
    return mds_storage_copy(w->storage, &w->array, p, l->rounded, 1);
}

static enum mds_rc zero_moments(const struct load *l)
{
    struct zero_states *st = &l->z->states;
    struct zero_range p = {.unit = -1};

    if (st->step.number == 0)
        return MDS_OK;
    st->step.number = 0;
    memset(l->f32, 0, ZERO_STAGING_ELEMENTS * sizeof *l->f32);
    while (mds_partition_next_range(st->parts, ZERO_STAGING_ELEMENTS, &p))
        for (int k = ZERO_M; k < ZERO_M + p.by.moments; k++)
            MDS_TRY(mds_storage_copy(st->storage, &st->array[k], &p, l->f32, 1));
    return MDS_OK;
}

static enum mds_rc load_ranges(const struct load *l, enum mds_zero_what what)
{
    struct mds_zero *z = l->z;
    struct zero_range p = {.unit = -1};

    while (mds_partition_next_range(&z->parts, ZERO_STAGING_ELEMENTS, &p)) {
        if (what == MDS_ZERO_V && p.by.moments < 2)
            continue;
        if (!z->storage.dry)
            MDS_TRY(l->fill(l->ctx, what, p.unit, p.first, p.n, l->f32));
        if (!z->evaluation)
            MDS_TRY(mds_storage_copy(&z->storage, &z->states.array[state_of[what]], &p,
                                     l->f32, 1));
        if (what == MDS_ZERO_WEIGHT)
            MDS_TRY(store_weights(l, &p));
    }
    return MDS_OK;
}

/* The gathers are collective: a rank whose fill failed takes part with undefined
 * weights, so that all ranks can try again. */
static enum mds_rc load_weights(const struct load *l)
{
    struct mds_zero *z = l->z;
    enum mds_rc rc;

    MDS_TRY(mds_zero_quiesce(z));
    if (!z->evaluation)
        MDS_TRY(mds_states_wait(&z->states));
    rc = zero_moments(l);
    if (!rc)
        rc = load_ranges(l, MDS_ZERO_WEIGHT);
    for (int i = 0; i < z->parts.units; i++)
        MDS_TRY(mds_weights_gather(&z->weights, i));
    return rc;
}

/* From here on moments count as nonzero, even if this fails. */
static enum mds_rc load_moments(const struct load *l, int64_t updates)
{
    l->z->states.step.number = updates;
    MDS_TRY(load_ranges(l, MDS_ZERO_M));
    return load_ranges(l, MDS_ZERO_V);
}

enum mds_rc mds_zero_load(struct mds_zero *z, mds_zero_fill_fn *fill, void *ctx,
                          int64_t updates)
{
    struct load l = {
        .z = z,
        .fill = fill,
        .ctx = ctx,
        .f32 = mds_zalloc(ZERO_STAGING_ELEMENTS, sizeof *l.f32),
        .rounded = mds_zalloc(ZERO_STAGING_ELEMENTS, (size_t)z->weights.array.elem)};
    enum mds_rc rc = MDS_EMEM;

    if (l.f32 && l.rounded)
        rc = load_weights(&l);
    if (!rc && updates > 0 && !z->evaluation)
        rc = load_moments(&l, updates);
    free(l.rounded);
    free(l.f32);
    return rc;
}

struct initial {
    const struct mds_params *params;
    uint64_t seed;
};

static enum mds_rc fill_initial(void *ctx, enum mds_zero_what what, int unit,
                                int64_t first, int64_t n, float *out)
{
    const struct initial *s = ctx;

    (void)what;
    mds_unit_init_values(s->params, unit, s->seed, first, n, out);
    return MDS_OK;
}

enum mds_rc mds_zero_init_weights(struct mds_zero *z, uint64_t seed)
{
    struct initial s = {.params = z->parts.params, .seed = seed};

    return mds_zero_load(z, fill_initial, &s, 0);
}

/* ---- reading ---- */

/* What has no second moment reads as 0. */
static enum mds_rc read_second(struct mds_zero *z, const struct zero_range *all,
                               float *host)
{
    struct zero_param_group g = {.first = all->first};

    while (mds_partition_next_group(&z->parts, all, &g)) {
        const struct zero_range p = {.unit = all->unit, .first = g.first, .n = g.n};

        if (g.by.moments > 1)
            MDS_TRY(mds_storage_copy(&z->storage, &z->states.array[ZERO_V], &p,
                                     host + (g.first - all->first), 0));
        else
            memset(host + (g.first - all->first), 0, (size_t)g.n * sizeof *host);
    }
    return MDS_OK;
}

static enum mds_rc read_range(struct mds_zero *z, enum mds_zero_what what,
                              const struct zero_range *p, float *host)
{
    if (z->evaluation)
        return mds_fail(MDS_EBUG, "weights for evaluation are not read back");
    MDS_TRY(mds_zero_check_update(z));
    if (what == MDS_ZERO_V && !z->parts.all_have_second)
        return read_second(z, p, host);
    return mds_storage_copy(&z->storage,
                            what == MDS_ZERO_GRAD ? &z->gradients.array
                                                  : &z->states.array[state_of[what]],
                            p, host, 0);
}

void mds_zero_own_shard(const struct mds_zero *z, int unit, int64_t *first, int64_t *n)
{
    mds_comm_shard(mds_partition_unit(&z->parts, unit)->count,
                   mds_partition_ranks(&z->parts, unit),
                   mds_partition_rank(&z->parts, unit), first, n);
}

enum mds_rc mds_zero_read_shard(struct mds_zero *z, enum mds_zero_what what, int unit,
                                int64_t first, int64_t n, float *host)
{
    const struct zero_range p = {.unit = unit, .first = first, .n = n};

    return read_range(z, what, &p, host);
}

/* Gather the shards of all ranks in host memory. */
enum mds_rc mds_zero_read(struct mds_zero *z, enum mds_zero_what what, int unit,
                          float *host)
{
    const struct zero_range own = mds_partition_own(&z->parts, unit);
    int64_t count = mds_partition_unit(&z->parts, unit)->count;
    struct mds_comm_req req = {0};

    if (z->storage.dry)
        memset(host, 0, (size_t)count * sizeof *host);
    if (own.n > 0)
        MDS_TRY(read_range(z, what, &own, host + own.first));
    if (!z->parts.sharded)
        return MDS_OK;
    MDS_TRY(mds_comm_gather_shards_start(z->parts.shard[unit].group, host, count,
                                         sizeof *host, &req));
    return mds_comm_wait(&req);
}
