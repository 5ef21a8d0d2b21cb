/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/storage.h"
#include "device/clock.h"
#include "kernels/table.h"

#include <string.h>

static const int64_t bounce_bytes = ZERO_STAGING_ELEMENTS * (int64_t)sizeof(float);

enum mds_rc mds_storage_host_memory(struct zero_storage *s, int64_t bytes, void *out)
{
    void *p = NULL;

    s->memory_bytes += bytes;
    if (!s->dry) {
        if (s->threads > 0)
            mdsk_cpu_set_threads(s->threads);
        p = mds_host_map(bytes);
        if (!p)
            return mds_fail(MDS_EMEM,
                            "optimizer on the host: cannot allocate %lld bytes",
                            (long long)bytes);
        mdsk_cpu_zero(p, bytes);
    }
    memcpy(out, &p, sizeof p);
    return MDS_OK;
}

static int64_t array_bytes(const struct zero_storage *s, const struct zero_array *a)
{
    return mds_partition_elements(s->parts, a->layout) * a->elem;
}

/* ---- the three places ---- */

/* alloc: one array.  copy: `bytes` at offset `at` of the array, from host memory if
 * put, else to it. */
struct place_ops {
    enum mds_rc (*alloc)(struct zero_storage *s, enum mds_mem_tag tag,
                         struct zero_array *a, int64_t bytes);
    enum mds_rc (*copy)(struct zero_storage *s, const struct zero_array *a, int64_t at,
                        int64_t bytes, void *host, int put);
};

static enum mds_rc alloc_on_device(struct zero_storage *s, enum mds_mem_tag tag,
                                   struct zero_array *a, int64_t bytes)
{
    return mds_arena_alloc(s->arena, tag, bytes, &a->base);
}

/* In a dry run there is no host memory either. */
static enum mds_rc copy_to_host(struct zero_storage *s, void *host, const void *from,
                                int64_t bytes)
{
    if (!s->dry)
        return mds_dev_copy_out(s->dev, host, from, bytes);
    mds_dev_charge(s->dev, MDS_OP_COPY_OUT, NULL,
                   (struct mdsk_cost){0, 2.0 * (double)bytes});
    return MDS_OK;
}

static enum mds_rc copy_on_device(struct zero_storage *s, const struct zero_array *a,
                                  int64_t at, int64_t bytes, void *host, int put)
{
    if (!put)
        return copy_to_host(s, host, a->base + at, bytes);
    mds_dev_copy_in(s->dev, a->base + at, host, bytes);
    return MDS_OK;
}

static enum mds_rc alloc_on_host(struct zero_storage *s, enum mds_mem_tag tag,
                                 struct zero_array *a, int64_t bytes)
{
    void *p = NULL;

    (void)tag;
    if (!a->pinned)
        return mds_storage_host_memory(s, bytes, &a->base);
    s->memory_bytes += bytes;
    if (!s->dry)
        MDS_TRY(mds_dev_alloc(s->host, bytes, &p));
    a->base = p;
    return MDS_OK;
}

/* By all threads. */
static void copy_host_memory(char *to, const char *from, int64_t bytes)
{
    const int64_t page = 4096, whole = bytes / page * page;
    const struct mdsk_copy_rows a = {.R = bytes / page,
                                     .C = page / 4,
                                     .ldx = page / 4,
                                     .ldy = page / 4,
                                     .dtype = MDSK_F32,
                                     .x = from,
                                     .y = to};

    (void)mdsk_copy_rows_cpu(NULL, &a);
    memcpy(to + whole, from + whole, (size_t)(bytes - whole));
}

static enum mds_rc copy_on_host(struct zero_storage *s, const struct zero_array *a,
                                int64_t at, int64_t bytes, void *host, int put)
{
    if (!s->dry)
        copy_host_memory(put ? a->base + at : host, put ? host : a->base + at, bytes);
    return MDS_OK;
}

static enum mds_rc alloc_in_file(struct zero_storage *s, enum mds_mem_tag tag,
                                 struct zero_array *a, int64_t bytes)
{
    (void)tag;
    a->offset = s->file_bytes;
    s->file_bytes += bytes;
    return MDS_OK;
}

static enum mds_rc copy_in_file(struct zero_storage *s, const struct zero_array *a,
                                int64_t at, int64_t bytes, void *host, int put)
{
    struct mds_scratch_request req = {0};

    if (s->dry) {
        mds_dev_charge_disk(s->dev, bytes);
        return MDS_OK;
    }
    if (put)
        mds_scratch_write_start(s->file, a->offset + at, host, bytes, &req);
    else
        mds_scratch_read_start(s->file, a->offset + at, host, bytes, &req);
    return mds_scratch_wait(&req);
}

static const struct place_ops place_ops[] = {
    [MDS_PLACE_DEVICE] = {alloc_on_device, copy_on_device},
    [MDS_PLACE_CPU] = {alloc_on_host, copy_on_host},
    [MDS_PLACE_NVME] = {alloc_in_file, copy_in_file},
};

/* ---- the interface ---- */

enum mds_rc mds_storage_alloc(struct zero_storage *s, enum mds_mem_tag tag,
                              struct zero_array *a, int n)
{
    for (int i = 0; i < n; i++) {
        a[i] = a[0];
        MDS_TRY(place_ops[a->place].alloc(s, tag, &a[i], array_bytes(s, a)));
    }
    return MDS_OK;
}

enum mds_rc mds_storage_create_file(struct zero_storage *s)
{
    return s->dry ? MDS_OK
                  : mds_scratch_file_create(s->folder, s->file_bytes, &s->file);
}

void mds_storage_release(struct zero_storage *s, struct zero_array *a)
{
    if (a->place != MDS_PLACE_CPU || !a->base)
        return;
    if (a->pinned)
        mds_dev_free(s->host, a->base, array_bytes(s, a));
    else
        mds_host_unmap(a->base, array_bytes(s, a));
}

void mds_storage_fini(struct zero_storage *s)
{
    mds_scratch_file_destroy(s->file);
    if (s->bounce)
        mds_dev_free(s->host, s->bounce, bounce_bytes);
}

static int64_t byte_offset(const struct zero_storage *s, const struct zero_array *a,
                           const struct zero_range *p)
{
    return mds_partition_at(s->parts, p, a->layout) * a->elem;
}

void *mds_storage_at(const struct zero_storage *s, const struct zero_array *a,
                     const struct zero_range *p)
{
    return a->base ? a->base + byte_offset(s, a, p) : NULL;
}

enum mds_rc mds_storage_alloc_bounce(struct zero_storage *s)
{
    s->memory_bytes += bounce_bytes;
    return s->dry ? MDS_OK : mds_dev_alloc(s->host, bounce_bytes, &s->bounce);
}

enum mds_rc mds_storage_fetch(struct zero_storage *s, const struct zero_array *a,
                              const struct zero_range *p, void *scratch, void **at)
{
    void *stored = mds_storage_at(s, a, p);
    int64_t bytes = p->n * a->elem;

    *at = a->place == MDS_PLACE_DEVICE ? stored : scratch;
    if (a->place == MDS_PLACE_NVME) {
        MDS_TRY(mds_storage_copy(s, a, p, s->bounce, 0));
        mds_dev_copy_in(s->dev, scratch, s->bounce, bytes);
    } else if (a->place == MDS_PLACE_CPU) {
        mds_dev_wait_copy(s->dev, mds_dev_reload_start(s->dev, scratch, stored, bytes));
    }
    return MDS_OK;
}

enum mds_rc mds_storage_store(struct zero_storage *s, const struct zero_array *a,
                              const struct zero_range *p, const void *scratch,
                              struct mds_dev_async_copy *copy)
{
    int64_t bytes = p->n * a->elem;

    *copy = (struct mds_dev_async_copy){0};
    if (a->place == MDS_PLACE_NVME) {
        MDS_TRY(copy_to_host(s, s->bounce, scratch, bytes));
        return mds_storage_copy(s, a, p, s->bounce, 1);
    }
    if (a->place == MDS_PLACE_CPU)
        *copy = mds_dev_offload_start(s->dev, mds_storage_at(s, a, p), scratch, bytes);
    return MDS_OK;
}

enum mds_rc mds_storage_copy(struct zero_storage *s, const struct zero_array *a,
                             const struct zero_range *p, void *host, int put)
{
    return place_ops[a->place].copy(s, a, byte_offset(s, a, p), p->n * a->elem, host,
                                    put);
}
