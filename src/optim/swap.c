/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/swap.h"
#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>

enum { BUFFERS = 4, AHEAD = 2, ARRAYS = ZERO_SWAP_ARRAYS };

static const int64_t buffer_bytes = ZERO_STAGING_ELEMENTS * (int64_t)sizeof(float);

struct buffer {
    float *state[ARRAYS]; /* NULL on dry */
    struct mds_scratch_request transfer[ARRAYS];
};

struct zero_swap {
    struct zero_storage *storage;
    const struct zero_array *array;
    int in_file;
    struct buffer buffer[BUFFERS]; /* range k uses buffer k % BUFFERS */
    struct zero_range reading, current;
    int64_t read, used;    /* ranges whose read has started; handed out */
    enum mds_rc write_rc;  /* of the first write that failed, */
    char write_error[256]; /* and its error text */
};

/* ---- creation ---- */

static enum mds_rc alloc_staging(struct zero_swap *w)
{
    for (int i = 0; i < BUFFERS; i++)
        for (int k = 0; k < ARRAYS; k++)
            MDS_TRY(mds_storage_host_memory(w->storage, buffer_bytes,
                                            &w->buffer[i].state[k]));
    return MDS_OK;
}

enum mds_rc mds_swap_create(struct zero_storage *s, const struct zero_array *array,
                            struct zero_swap **out)
{
    struct zero_swap *w = *out = mds_zalloc(1, sizeof *w);

    if (!w)
        return MDS_EMEM;
    w->storage = s;
    w->array = array;
    w->in_file = array->place == MDS_PLACE_NVME;
    return w->in_file ? alloc_staging(w) : MDS_OK;
}

void mds_swap_destroy(struct zero_swap *w)
{
    if (!w)
        return;
    (void)mds_swap_wait(w); /* a failure does not matter any more */
    for (int i = 0; i < BUFFERS; i++)
        for (int k = 0; k < ARRAYS; k++)
            mds_host_unmap(w->buffer[i].state[k], buffer_bytes);
    free(w);
}

/* ---- transfers ---- */

/* Wait for all transfers of a buffer, even if one fails. */
static enum mds_rc wait_transfers(struct zero_swap *w, struct buffer *b)
{
    enum mds_rc rc = MDS_OK;

    for (int k = 0; k < ARRAYS; k++) {
        enum mds_rc one = mds_scratch_wait(&b->transfer[k]);

        rc = one ? one : rc;
        if (!one || !b->transfer[k].write)
            continue;
        w->write_rc = one;
        snprintf(w->write_error, sizeof w->write_error, "%s", mds_fail_text());
    }
    return rc;
}

/* A failed read only fails the save that asked for it.  A failed write loses states, so
 * every later call fails too. */
static enum mds_rc check_write(const struct zero_swap *w)
{
    return w->write_rc ? mds_fail(w->write_rc, "%s", w->write_error) : MDS_OK;
}

enum mds_rc mds_swap_wait(struct zero_swap *w)
{
    enum mds_rc rc = MDS_OK;

    for (int i = 0; i < BUFFERS; i++) {
        enum mds_rc one = wait_transfers(w, &w->buffer[i]);

        rc = one ? one : rc;
    }
    return rc ? rc : check_write(w);
}

static void start_file_transfer(struct zero_swap *w, struct buffer *b,
                                const struct zero_range *p, int write)
{
    struct mds_scratch_file *file = w->storage->file;
    int64_t bytes = p->n * (int64_t)sizeof(float);
    int64_t first =
        mds_partition_at(w->storage->parts, p, ZERO_SHARDS) * (int64_t)sizeof(float);

    for (int k = 0; k < ARRAYS; k++) {
        int64_t at = w->array[k].offset + first;

        if (write)
            mds_scratch_write_start(file, at, b->state[k], bytes, &b->transfer[k]);
        else
            mds_scratch_read_start(file, at, b->state[k], bytes, &b->transfer[k]);
    }
}

/* Before a buffer is reused, the write of what it held last must have completed. */
static enum mds_rc read_ahead(struct zero_swap *w)
{
    const struct zero_partition *parts = w->storage->parts;

    while (w->read < w->used + AHEAD && w->reading.unit < parts->units &&
           mds_partition_next_range(parts, ZERO_STAGING_ELEMENTS, &w->reading)) {
        struct buffer *b = &w->buffer[w->read++ % BUFFERS];

        MDS_TRY(wait_transfers(w, b));
        start_file_transfer(w, b, &w->reading, 0);
    }
    return MDS_OK;
}

/* ---- ranges ---- */

enum mds_rc mds_swap_begin(struct zero_swap *w)
{
    w->reading = w->current = (struct zero_range){.unit = -1};
    w->read = w->used = 0;
    MDS_TRY(check_write(w));
    return w->storage->file ? read_ahead(w) : MDS_OK;
}

static enum mds_rc next_from_file(struct zero_swap *w, float **at)
{
    struct buffer *b = &w->buffer[w->used++ % BUFFERS];

    MDS_TRY(read_ahead(w));
    MDS_TRY(wait_transfers(w, b));
    for (int k = 0; k < ARRAYS; k++)
        at[k] = b->state[k];
    return MDS_OK;
}

enum mds_rc mds_swap_in(struct zero_swap *w, struct zero_range *p, float **at)
{
    mds_partition_next_range(
        w->storage->parts, w->in_file ? ZERO_STAGING_ELEMENTS : INT64_MAX, &w->current);
    *p = w->current;
    if (w->in_file)
        return next_from_file(w, at);
    for (int k = 0; k < ARRAYS; k++)
        at[k] = mds_storage_at(w->storage, &w->array[k], p);
    return MDS_OK;
}

void mds_swap_out(struct zero_swap *w)
{
    if (w->in_file)
        start_file_transfer(w, &w->buffer[(w->used - 1) % BUFFERS], &w->current, 1);
}
