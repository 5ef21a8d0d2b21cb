/* SPDX-License-Identifier: BSD-3-Clause */
/* Setting weights and moments, and reading weights, moments and gradients: for initial
 * values, checkpoints and comparisons. */
#include "base/alloc.h"
#include "optim/internal.h"

#include <stdlib.h>
#include <string.h>

static const enum zero_state state_of[] = {
    [MDS_ZERO_WEIGHT] = ZERO_MASTER, [MDS_ZERO_M] = ZERO_M, [MDS_ZERO_V] = ZERO_V};

/* ---- setting ---- */

struct source {
    mds_zero_fill_fn *fill;
    void *ctx;
};

/* Staging buffers in host memory for one range. */
struct buffers {
    float *f32;
    void *rounded;
};

/* Store the weights themselves, unless they are their own master. */
static enum mds_rc store_weights(struct mds_zero *z, const struct zero_range *p,
                                 const struct buffers *b)
{
    const struct zero_array *to = &z->weights.array;
    enum mdsk_dtype dtype = z->weights.dtype;
    struct mdsk_cast a = {
        .n = p->n, .from = MDSK_F32, .to = dtype, .x = b->f32, .y = b->rounded};

    if (z->states.master_is_weights)
        return MDS_OK;
    if (dtype == MDSK_F32)
        return mds_storage_put(&z->storage, to, p, b->f32);
    if (!z->storage.dry)
        mdsk_cast_cpu(NULL, &a);
    return mds_storage_put(&z->storage, to, p, b->rounded);
}

static enum mds_rc zero_moments(struct mds_zero *z, float *zeros)
{
    struct zero_range p = {.unit = -1};

    if (z->states.updates == 0)
        return MDS_OK;
    z->states.updates = 0;
    memset(zeros, 0, ZERO_STAGING_ELEMENTS * sizeof *zeros);
    while (mds_partition_next_range(&z->parts, ZERO_STAGING_ELEMENTS, &p)) {
        MDS_TRY(mds_states_put(&z->states, ZERO_M, &p, zeros));
        MDS_TRY(mds_states_put(&z->states, ZERO_V, &p, zeros));
    }
    return MDS_OK;
}

static enum mds_rc load_ranges(struct mds_zero *z, const struct source *s,
                               enum mds_zero_what what, const struct buffers *b)
{
    struct zero_range p = {.unit = -1};

    while (mds_partition_next_range(&z->parts, ZERO_STAGING_ELEMENTS, &p)) {
        if (!z->storage.dry)
            MDS_TRY(s->fill(s->ctx, what, p.unit, p.first, p.n, b->f32));
        if (!z->evaluation)
            MDS_TRY(mds_states_put(&z->states, state_of[what], &p, b->f32));
        if (what == MDS_ZERO_WEIGHT)
            MDS_TRY(store_weights(z, &p, b));
    }
    return MDS_OK;
}

/* The gathers are collective: a rank whose fill failed takes part with undefined
 * weights, so that all ranks can try again. */
static enum mds_rc load_weights(struct mds_zero *z, const struct source *s,
                                const struct buffers *b)
{
    enum mds_rc rc;

    MDS_TRY(mds_zero_quiesce(z));
    rc = zero_moments(z, b->f32);
    if (!rc)
        rc = load_ranges(z, s, MDS_ZERO_WEIGHT, b);
    for (int i = 0; i < z->parts.units; i++)
        MDS_TRY(mds_weights_gather(&z->weights, i));
    return rc;
}

/* From here on moments count as nonzero, even if this fails. */
static enum mds_rc load_moments(struct mds_zero *z, const struct source *s,
                                int64_t updates, const struct buffers *b)
{
    z->states.updates = updates;
    MDS_TRY(load_ranges(z, s, MDS_ZERO_M, b));
    return load_ranges(z, s, MDS_ZERO_V, b);
}

enum mds_rc mds_zero_load(struct mds_zero *z, mds_zero_fill_fn *fill, void *ctx,
                          int64_t updates)
{
    const struct source s = {fill, ctx};
    struct buffers b = {
        .f32 = mds_zalloc(ZERO_STAGING_ELEMENTS, sizeof *b.f32),
        .rounded = mds_zalloc(ZERO_STAGING_ELEMENTS, (size_t)z->weights.array.elem)};
    enum mds_rc rc = MDS_EMEM;

    if (b.f32 && b.rounded)
        rc = load_weights(z, &s, &b);
    if (!rc && updates > 0 && !z->evaluation)
        rc = load_moments(z, &s, updates, &b);
    free(b.rounded);
    free(b.f32);
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

static enum mds_rc read_range(struct mds_zero *z, enum mds_zero_what what,
                              const struct zero_range *p, float *host)
{
    if (z->evaluation)
        return mds_fail(MDS_EBUG, "weights for evaluation are not read back");
    MDS_TRY(mds_host_update_wait(z->host_update));
    if (what == MDS_ZERO_GRAD)
        return mds_storage_get(&z->storage, &z->gradients.array, p, host);
    return mds_states_get(&z->states, state_of[what], p, host);
}

void mds_zero_own_shard(const struct mds_zero *z, int unit, int64_t *first, int64_t *n)
{
    mds_comm_shard(mds_partition_unit(&z->parts, unit)->count, z->parts.size,
                   z->parts.rank, first, n);
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
    MDS_TRY(
        mds_comm_gather_shards_start(z->parts.group, host, count, sizeof *host, &req));
    return mds_comm_wait(&req);
}
