/* SPDX-License-Identifier: BSD-3-Clause */
/* Optimizer states: on the device, on the host or in a file; and how weights get in and
 * everything gets out. */
#include "base/alloc.h"
#include "base/minmax.h"
#include "optim/internal.h"

#include <stdlib.h>
#include <string.h>

static const int64_t f32 = sizeof(float);

/* ---- memory ---- */

enum mds_rc mds_zero_host_alloc(struct mds_zero *z, int64_t bytes, void *out)
{
    void *p = NULL;

    z->host_bytes.memory_bytes += bytes;
    if (!z->dry) {
        p = mds_host_map(bytes);
        if (!p)
            return mds_fail(MDS_EMEM, "optimizer on the host: %lld bytes refused",
                            (long long)bytes);
        mdsk_cpu_zero(p, bytes);
    }
    memcpy(out, &p, sizeof p);
    return MDS_OK;
}

static enum mds_rc take_on_device(struct mds_zero *z, struct mds_arena *arena,
                                  float **out)
{
    void *p = NULL;

    MDS_TRY(mds_arena_take(arena, MDS_MEM_OPTIM, z->parts.own * f32, &p));
    *out = p;
    return MDS_OK;
}

static enum mds_rc take_all(struct mds_zero *z, struct mds_arena *arena)
{
    if (z->dtype != MDSK_F32)
        MDS_TRY(take_on_device(z, arena, &z->master));
    MDS_TRY(take_on_device(z, arena, &z->m));
    MDS_TRY(take_on_device(z, arena, &z->v));
    mds_dev_zero(z->dev, z->m, z->parts.own * f32);
    mds_dev_zero(z->dev, z->v, z->parts.own * f32);
    return MDS_OK;
}

enum mds_rc mds_zero_states_take(struct mds_zero *z, struct mds_arena *arena)
{
    if (z->spec.optimizer != MDS_PLACE_DEVICE)
        z->host_bytes.weights = z->parts.own;
    switch (z->spec.optimizer) {
    case MDS_PLACE_DEVICE:
        return take_all(z, arena);
    case MDS_PLACE_CPU:
        MDS_TRY(mds_zero_host_alloc(z, z->parts.own * f32, &z->master));
        MDS_TRY(mds_zero_host_alloc(z, z->parts.own * f32, &z->m));
        return mds_zero_host_alloc(z, z->parts.own * f32, &z->v);
    default:
        z->host_bytes.file_bytes = 3 * z->parts.own * f32;
        if (z->dry)
            return MDS_OK;
        return mds_spill_create(z->spec.nvme_path, z->host_bytes.file_bytes, &z->file);
    }
}

void mds_zero_states_fini(struct mds_zero *z)
{
    if (mds_zero_weights_on_host(z) && z->weight != (char *)z->master)
        mds_host_unmap(z->weight, z->parts.own * z->elem);
    if (z->spec.optimizer == MDS_PLACE_CPU) {
        mds_host_unmap(z->master, z->parts.own * f32);
        mds_host_unmap(z->m, z->parts.own * f32);
        mds_host_unmap(z->v, z->parts.own * f32);
    }
    mds_spill_destroy(z->file);
}

/* ---- a piece ---- */

/* From the device to host memory that is not there on dry. */
static enum mds_rc copy_out(struct mds_zero *z, void *host, const void *from,
                            int64_t bytes)
{
    if (!z->dry)
        return mds_dev_copy_out(z->dev, host, from, bytes);
    mds_dev_charge(z->dev, MDS_OP_COPY_OUT, (struct mdsk_cost){0, 2.0 * (double)bytes});
    return MDS_OK;
}

int64_t mds_zero_file_offset(const struct mds_zero *z, enum mds_zero_what what,
                             int64_t at)
{
    int64_t array = what == MDS_ZERO_WEIGHT ? 0 : what == MDS_ZERO_M ? 1 : 2;

    return (array * z->parts.own + at) * f32;
}

/* On the device or the host, or NULL if it is in a file. */
static float *state_at(const struct mds_zero *z, enum mds_zero_what what,
                       const struct zero_piece *p)
{
    float *base = what == MDS_ZERO_M ? z->m : what == MDS_ZERO_V ? z->v : z->master;

    if (what == MDS_ZERO_GRAD)
        return mds_zero_grad_at(z, p);
    if (what == MDS_ZERO_WEIGHT && z->dtype == MDSK_F32 &&
        z->spec.optimizer == MDS_PLACE_DEVICE)
        return (float *)mds_zero_weight_at(z, p);
    return base ? base + mds_partition_at(&z->parts, p, 1) : NULL;
}

static int on_host(const struct mds_zero *z, enum mds_zero_what what)
{
    return z->spec.optimizer != MDS_PLACE_DEVICE && what != MDS_ZERO_GRAD;
}

/* A piece of a state from the file, or to it, behind all of an update; on dry nothing.
 */
static enum mds_rc from_file(struct mds_zero *z, enum mds_zero_what what,
                             const struct zero_piece *p, float *host)
{
    int64_t at = mds_zero_file_offset(z, what, mds_partition_at(&z->parts, p, 1));
    struct mds_spill_req req = {0};

    if (!z->file)
        return MDS_OK;
    MDS_TRY(mds_zero_file_settle(z));
    mds_spill_read_start(z->file, at, host, p->n * f32, &req);
    return mds_spill_wait(&req);
}

static enum mds_rc to_file(struct mds_zero *z, enum mds_zero_what what,
                           const struct zero_piece *p, const float *host)
{
    int64_t at = mds_zero_file_offset(z, what, mds_partition_at(&z->parts, p, 1));
    struct mds_spill_req req = {0};

    if (!z->file)
        return MDS_OK;
    MDS_TRY(mds_zero_file_settle(z));
    mds_spill_write_start(z->file, at, host, p->n * f32, &req);
    return mds_spill_wait(&req);
}

enum mds_rc mds_zero_state_get(struct mds_zero *z, enum mds_zero_what what,
                               const struct zero_piece *p, float *host)
{
    const float *from = state_at(z, what, p);

    if (z->offload)
        MDS_TRY(mds_zero_offload_wait(z));
    if (!on_host(z, what))
        return copy_out(z, host, from, p->n * f32);
    if (!from)
        return from_file(z, what, p, host);
    memcpy(host, from, (size_t)(p->n * f32));
    return MDS_OK;
}

enum mds_rc mds_zero_state_put(struct mds_zero *z, enum mds_zero_what what,
                               const struct zero_piece *p, const float *host)
{
    float *to = state_at(z, what, p);

    if (!on_host(z, what))
        mds_dev_copy_in(z->dev, to, host, p->n * f32);
    else if (!to)
        return to_file(z, what, p, host);
    else
        memcpy(to, host, (size_t)(p->n * f32));
    return MDS_OK;
}

/* ---- in ---- */

/* Host memory that a piece passes through. */
struct buffers {
    float *f32;
    void *rounded;
};

/* The weights themselves, where the master is another copy. */
static enum mds_rc put_weights(struct mds_zero *z, const struct zero_piece *p,
                               const struct buffers *b)
{
    char *to = mds_zero_weight_at(z, p);
    const void *from = b->f32;
    struct mdsk_cast a = {
        .n = p->n, .from = MDSK_F32, .to = z->dtype, .x = b->f32, .y = b->rounded};

    if (to == (char *)state_at(z, MDS_ZERO_WEIGHT, p) && to)
        return MDS_OK;
    if (z->dtype != MDSK_F32) {
        if (!z->dry)
            mdsk_cast_cpu(NULL, &a);
        from = b->rounded;
    }
    if (!mds_zero_weights_on_host(z))
        mds_dev_copy_in(z->dev, to, from, p->n * z->elem);
    else if (!z->dry)
        memcpy(to, from, (size_t)(p->n * z->elem));
    return MDS_OK;
}

static enum mds_rc zero_moments(struct mds_zero *z, float *zeros)
{
    struct zero_piece p = {.unit = -1};

    if (z->steps == 0)
        return MDS_OK;
    z->steps = 0;
    memset(zeros, 0, ZERO_CHUNK * sizeof *zeros);
    while (mds_partition_next(&z->parts, ZERO_CHUNK, &p)) {
        MDS_TRY(mds_zero_state_put(z, MDS_ZERO_M, &p, zeros));
        MDS_TRY(mds_zero_state_put(z, MDS_ZERO_V, &p, zeros));
    }
    return MDS_OK;
}

typedef enum mds_rc fill_fn(void *ctx, int unit, int64_t first, int64_t n, float *out);

static enum mds_rc load_pieces(struct mds_zero *z, fill_fn *fill, void *ctx,
                               const struct buffers *b)
{
    struct zero_piece p = {.unit = -1};

    while (mds_partition_next(&z->parts, ZERO_CHUNK, &p)) {
        if (!z->dry)
            MDS_TRY(fill(ctx, p.unit, p.first, p.n, b->f32));
        MDS_TRY(mds_zero_state_put(z, MDS_ZERO_WEIGHT, &p, b->f32));
        MDS_TRY(put_weights(z, &p, b));
    }
    return MDS_OK;
}

/* The others count on this rank's weights, right or wrong: a rank whose fill failed
 * takes part, so that all can try again. */
static enum mds_rc load_all(struct mds_zero *z, fill_fn *fill, void *ctx,
                            const struct buffers *b)
{
    enum mds_rc rc;

    MDS_TRY(mds_zero_weights_settle(z));
    rc = zero_moments(z, b->f32);
    if (!rc)
        rc = load_pieces(z, fill, ctx, b);
    for (int i = 0; i < z->parts.units; i++)
        MDS_TRY(mds_zero_weights_publish(z, i));
    return rc;
}

enum mds_rc mds_zero_load(struct mds_zero *z, fill_fn *fill, void *ctx)
{
    struct buffers b = {.f32 = mds_zalloc(ZERO_CHUNK, sizeof *b.f32),
                        .rounded = mds_zalloc(ZERO_CHUNK, (size_t)z->elem)};
    enum mds_rc rc = MDS_EMEM;

    if (b.f32 && b.rounded)
        rc = load_all(z, fill, ctx, &b);
    free(b.rounded);
    free(b.f32);
    return rc;
}

struct start {
    const struct mds_params *params;
    uint64_t seed;
};

static enum mds_rc start_values(void *ctx, int unit, int64_t first, int64_t n,
                                float *out)
{
    const struct start *s = ctx;

    mds_unit_init_values(s->params, unit, s->seed, first, n, out);
    return MDS_OK;
}

enum mds_rc mds_zero_start(struct mds_zero *z, uint64_t seed)
{
    struct start s = {.params = z->params, .seed = seed};

    return mds_zero_load(z, start_values, &s);
}

/* ---- out ---- */

/* The ranks' next n elements each, from at on in their parts of a unit. */
static enum mds_rc read_row(struct mds_zero *z, enum mds_zero_what what, int unit,
                            int64_t at, int64_t n, float *host, float *row)
{
    const struct mds_param_unit *pu = mds_params_unit(z->params, unit);
    const struct zero_shard *u = &z->parts.shard[unit];
    struct zero_piece own = {.unit = unit, .first = u->first + at, .n = u->n - at};
    float *all = z->flight[0].work;

    if (own.n > n)
        own.n = n;
    if (own.n > 0)
        MDS_TRY(mds_zero_state_get(z, what, &own, row));
    mds_dev_copy_in(z->dev, all + z->parts.rank * n, row, n * f32);
    MDS_TRY(mds_comm_all_gather(z->group, all + z->parts.rank * n, all, n * f32));
    MDS_TRY(mds_dev_copy_out(z->dev, row, all, z->parts.size * n * f32));
    for (int r = 0; r < z->parts.size; r++) {
        int64_t first, count;

        mds_comm_slice(pu->count, z->parts.size, r, &first, &count);
        count = mds_min(count - at, n);
        if (count > 0)
            memcpy(host + first + at, row + r * n, (size_t)count * sizeof *host);
    }
    return MDS_OK;
}

/* Of each rank, as many as there is room for to gather them. */
static int64_t row_length(const struct mds_zero *z, int unit)
{
    return mds_min(z->work_floats / z->parts.size, z->parts.shard[unit].block);
}

static enum mds_rc read_slices(struct mds_zero *z, enum mds_zero_what what, int unit,
                               float *host)
{
    int64_t step = row_length(z, unit), block = z->parts.shard[unit].block;
    float *row = mds_zalloc((size_t)(step * z->parts.size), sizeof *row);
    enum mds_rc rc = MDS_OK;

    if (!row)
        return MDS_EMEM;
    for (int64_t at = 0; !rc && at < block; at += step)
        rc = read_row(z, what, unit, at, mds_min(block - at, step), host, row);
    free(row);
    return rc;
}

static int reads_slices(const struct mds_zero *z)
{
    return mds_zero_owns_slices(z) && z->parts.size > 1;
}

int64_t mds_zero_read_bytes(const struct mds_zero *z)
{
    int64_t n = 0;

    for (int i = 0; i < z->parts.units && reads_slices(z); i++)
        n = mds_max(n, row_length(z, i));
    return n * z->parts.size * f32;
}

enum mds_rc mds_zero_read(struct mds_zero *z, enum mds_zero_what what, int unit,
                          float *host)
{
    struct zero_piece all = {.unit = unit,
                             .n = mds_params_unit(z->params, unit)->count};

    if (reads_slices(z))
        return read_slices(z, what, unit, host);
    if (z->dry)
        memset(host, 0, (size_t)all.n * sizeof *host);
    return mds_zero_state_get(z, what, &all, host);
}
