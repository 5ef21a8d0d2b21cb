/* SPDX-License-Identifier: BSD-3-Clause */
/* How weights and moments get in, and everything out: start values, files, comparisons.
 */
#include "base/alloc.h"
#include "optim/internal.h"

#include <stdlib.h>
#include <string.h>

static const enum zero_state state_of[] = {
    [MDS_ZERO_WEIGHT] = ZERO_MASTER, [MDS_ZERO_M] = ZERO_M, [MDS_ZERO_V] = ZERO_V};

/* ---- in ---- */

struct source {
    mds_zero_fill *fill;
    void *ctx;
};

/* Host memory that a piece passes through. */
struct buffers {
    float *f32;
    void *rounded;
};

/* The weights themselves, where the master is another copy. */
static enum mds_rc put_weights(struct mds_zero *z, const struct zero_piece *p,
                               const struct buffers *b)
{
    const struct zero_array *to = &z->weights.array;
    enum mdsk_dtype dtype = z->weights.dtype;
    struct mdsk_cast a = {
        .n = p->n, .from = MDSK_F32, .to = dtype, .x = b->f32, .y = b->rounded};

    if (z->states.in_weights)
        return MDS_OK;
    if (dtype == MDSK_F32)
        return mds_storage_put(&z->storage, to, p, b->f32);
    if (!z->storage.dry)
        mdsk_cast_cpu(NULL, &a);
    return mds_storage_put(&z->storage, to, p, b->rounded);
}

static enum mds_rc zero_moments(struct mds_zero *z, float *zeros)
{
    struct zero_piece p = {.unit = -1};

    if (z->states.updates == 0)
        return MDS_OK;
    z->states.updates = 0;
    memset(zeros, 0, ZERO_CHUNK * sizeof *zeros);
    while (mds_partition_next(&z->parts, ZERO_CHUNK, &p)) {
        MDS_TRY(mds_states_put(&z->states, ZERO_M, &p, zeros));
        MDS_TRY(mds_states_put(&z->states, ZERO_V, &p, zeros));
    }
    return MDS_OK;
}

static enum mds_rc load_pieces(struct mds_zero *z, const struct source *s,
                               enum mds_zero_what what, const struct buffers *b)
{
    struct zero_piece p = {.unit = -1};

    while (mds_partition_next(&z->parts, ZERO_CHUNK, &p)) {
        if (!z->storage.dry)
            MDS_TRY(s->fill(s->ctx, what, p.unit, p.first, p.n, b->f32));
        MDS_TRY(mds_states_put(&z->states, state_of[what], &p, b->f32));
        if (what == MDS_ZERO_WEIGHT)
            MDS_TRY(put_weights(z, &p, b));
    }
    return MDS_OK;
}

/* The others count on this rank's weights, right or wrong: a rank whose fill failed
 * takes part, so that all can try again. */
static enum mds_rc load_weights(struct mds_zero *z, const struct source *s,
                                const struct buffers *b)
{
    enum mds_rc rc;

    MDS_TRY(mds_zero_settle(z));
    rc = zero_moments(z, b->f32);
    if (!rc)
        rc = load_pieces(z, s, MDS_ZERO_WEIGHT, b);
    for (int i = 0; i < z->parts.units; i++)
        MDS_TRY(mds_weights_gather(&z->weights, i));
    return rc;
}

/* Moments are not zero any more, whatever happens. */
static enum mds_rc load_moments(struct mds_zero *z, const struct source *s,
                                int64_t updates, const struct buffers *b)
{
    z->states.updates = updates;
    MDS_TRY(load_pieces(z, s, MDS_ZERO_M, b));
    return load_pieces(z, s, MDS_ZERO_V, b);
}

enum mds_rc mds_zero_load(struct mds_zero *z, mds_zero_fill *fill, void *ctx,
                          int64_t updates)
{
    const struct source s = {fill, ctx};
    struct buffers b = {.f32 = mds_zalloc(ZERO_CHUNK, sizeof *b.f32),
                        .rounded =
                            mds_zalloc(ZERO_CHUNK, (size_t)z->weights.array.elem)};
    enum mds_rc rc = MDS_EMEM;

    if (b.f32 && b.rounded)
        rc = load_weights(z, &s, &b);
    if (!rc && updates > 0)
        rc = load_moments(z, &s, updates, &b);
    free(b.rounded);
    free(b.f32);
    return rc;
}

struct start {
    const struct mds_params *params;
    uint64_t seed;
};

static enum mds_rc start_values(void *ctx, enum mds_zero_what what, int unit,
                                int64_t first, int64_t n, float *out)
{
    const struct start *s = ctx;

    (void)what;
    mds_unit_init_values(s->params, unit, s->seed, first, n, out);
    return MDS_OK;
}

enum mds_rc mds_zero_start(struct mds_zero *z, uint64_t seed)
{
    struct start s = {.params = z->parts.params, .seed = seed};

    return mds_zero_load(z, start_values, &s, 0);
}

/* ---- out ---- */

static enum mds_rc get(struct mds_zero *z, enum mds_zero_what what,
                       const struct zero_piece *p, float *host)
{
    MDS_TRY(mds_host_update_wait(z->host_update));
    if (what == MDS_ZERO_GRAD)
        return mds_storage_get(&z->storage, &z->gradients.array, p, host);
    return mds_states_get(&z->states, state_of[what], p, host);
}

void mds_zero_share(const struct mds_zero *z, int unit, int64_t *first, int64_t *n)
{
    mds_comm_slice(mds_params_unit(z->parts.params, unit)->count, z->parts.size,
                   z->parts.rank, first, n);
}

enum mds_rc mds_zero_read_share(struct mds_zero *z, enum mds_zero_what what, int unit,
                                int64_t first, int64_t n, float *host)
{
    const struct zero_piece p = {.unit = unit, .first = first, .n = n};

    return get(z, what, &p, host);
}

/* Every rank's shard reaches all, in host memory. */
enum mds_rc mds_zero_read(struct mds_zero *z, enum mds_zero_what what, int unit,
                          float *host)
{
    const struct zero_piece own = mds_partition_piece(&z->parts, unit);
    int64_t count = mds_params_unit(z->parts.params, unit)->count;
    struct mds_comm_req req = {0};

    if (z->storage.dry)
        memset(host, 0, (size_t)count * sizeof *host);
    if (own.n > 0)
        MDS_TRY(get(z, what, &own, host + own.first));
    if (!z->parts.sharded)
        return MDS_OK;
    MDS_TRY(
        mds_comm_gather_slices_start(z->parts.group, host, count, sizeof *host, &req));
    return mds_comm_wait(&req);
}
