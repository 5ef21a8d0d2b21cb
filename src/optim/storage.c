/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/storage.h"
#include "kernels/table.h"

#include <string.h>

enum mds_rc mds_storage_host_memory(struct zero_storage *s, int64_t bytes, void *out)
{
    void *p = NULL;

    s->memory_bytes += bytes;
    if (!s->dry) {
        if (s->threads > 0)
            mdsk_cpu_set_threads(s->threads);
        p = mds_host_map(bytes);
        if (!p)
            return mds_fail(MDS_EMEM, "optimizer on the host: %lld bytes refused",
                            (long long)bytes);
        mdsk_cpu_zero(p, bytes);
    }
    memcpy(out, &p, sizeof p);
    return MDS_OK;
}

static int64_t bytes_of(const struct zero_storage *s, const struct zero_array *a)
{
    return mds_partition_elements(s->parts, a->sharded) * a->elem;
}

/* ---- the three kinds ---- */

/* move: `bytes` at byte `at` of the array, from host memory if put, else to it. */
struct kind {
    enum mds_rc (*take)(struct zero_storage *s, enum mds_mem_tag tag,
                        struct zero_array *a, int n, int64_t bytes);
    enum mds_rc (*move)(struct zero_storage *s, const struct zero_array *a, int64_t at,
                        int64_t bytes, void *host, int put);
};

static enum mds_rc take_on_device(struct zero_storage *s, enum mds_mem_tag tag,
                                  struct zero_array *a, int n, int64_t bytes)
{
    for (int i = 0; i < n; i++) {
        void *p = NULL;

        MDS_TRY(mds_arena_take(s->arena, tag, bytes, &p));
        a[i].base = p;
    }
    return MDS_OK;
}

/* On dry, the host memory is not there either. */
static enum mds_rc move_on_device(struct zero_storage *s, const struct zero_array *a,
                                  int64_t at, int64_t bytes, void *host, int put)
{
    if (put)
        mds_dev_copy_in(s->dev, a->base + at, host, bytes);
    else if (!s->dry)
        return mds_dev_copy_out(s->dev, host, a->base + at, bytes);
    else
        mds_dev_charge(s->dev, MDS_OP_COPY_OUT,
                       (struct mdsk_cost){0, 2.0 * (double)bytes});
    return MDS_OK;
}

static enum mds_rc take_on_host(struct zero_storage *s, enum mds_mem_tag tag,
                                struct zero_array *a, int n, int64_t bytes)
{
    (void)tag;
    for (int i = 0; i < n; i++)
        MDS_TRY(mds_storage_host_memory(s, bytes, &a[i].base));
    return MDS_OK;
}

static enum mds_rc move_on_host(struct zero_storage *s, const struct zero_array *a,
                                int64_t at, int64_t bytes, void *host, int put)
{
    if (!s->dry)
        memcpy(put ? a->base + at : host, put ? host : a->base + at, (size_t)bytes);
    return MDS_OK;
}

static enum mds_rc take_in_file(struct zero_storage *s, enum mds_mem_tag tag,
                                struct zero_array *a, int n, int64_t bytes)
{
    (void)tag;
    for (int i = 0; i < n; i++)
        a[i].offset = i * bytes;
    s->file_bytes = n * bytes;
    return s->dry ? MDS_OK
                  : mds_scratch_file_create(s->folder, s->file_bytes, &s->file);
}

static enum mds_rc move_in_file(struct zero_storage *s, const struct zero_array *a,
                                int64_t at, int64_t bytes, void *host, int put)
{
    struct mds_scratch_request req = {0};

    if (s->dry)
        return MDS_OK;
    if (put)
        mds_scratch_write_start(s->file, a->offset + at, host, bytes, &req);
    else
        mds_scratch_read_start(s->file, a->offset + at, host, bytes, &req);
    return mds_scratch_wait(&req);
}

static const struct kind kinds[] = {
    [MDS_PLACE_DEVICE] = {take_on_device, move_on_device},
    [MDS_PLACE_CPU] = {take_on_host, move_on_host},
    [MDS_PLACE_NVME] = {take_in_file, move_in_file},
};

/* ---- for others ---- */

enum mds_rc mds_storage_take(struct zero_storage *s, enum mds_mem_tag tag,
                             struct zero_array *a, int n)
{
    for (int i = 1; i < n; i++)
        a[i] = a[0];
    return kinds[a->place].take(s, tag, a, n, bytes_of(s, a));
}

void mds_storage_release(struct zero_storage *s, struct zero_array *a)
{
    if (a->place == MDS_PLACE_CPU)
        mds_host_unmap(a->base, bytes_of(s, a));
}

void mds_storage_fini(struct zero_storage *s)
{
    mds_scratch_file_destroy(s->file);
}

static int64_t byte_of(const struct zero_storage *s, const struct zero_array *a,
                       const struct zero_piece *p)
{
    return mds_partition_at(s->parts, p, a->sharded) * a->elem;
}

void *mds_storage_at(const struct zero_storage *s, const struct zero_array *a,
                     const struct zero_piece *p)
{
    return a->base ? a->base + byte_of(s, a, p) : NULL;
}

const void *mds_storage_bring(struct zero_storage *s, const struct zero_array *a,
                              const struct zero_piece *p, void *room)
{
    const void *at = mds_storage_at(s, a, p);

    if (a->place == MDS_PLACE_DEVICE)
        return at;
    mds_dev_copy_in(s->dev, room, at, p->n * a->elem);
    return room;
}

int64_t mds_storage_offset(const struct zero_storage *s, const struct zero_array *a,
                           const struct zero_piece *p)
{
    return a->offset + byte_of(s, a, p);
}

enum mds_rc mds_storage_get(struct zero_storage *s, const struct zero_array *a,
                            const struct zero_piece *p, void *host)
{
    return kinds[a->place].move(s, a, byte_of(s, a, p), p->n * a->elem, host, 0);
}

enum mds_rc mds_storage_put(struct zero_storage *s, const struct zero_array *a,
                            const struct zero_piece *p, void *host)
{
    return kinds[a->place].move(s, a, byte_of(s, a, p), p->n * a->elem, host, 1);
}
