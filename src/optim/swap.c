/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/swap.h"
#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>

enum { BUFFERS = 4, AHEAD = 2, ARRAYS = ZERO_SWAP_ARRAYS };

static const int64_t buffer_bytes = ZERO_CHUNK * (int64_t)sizeof(float);

struct buffer {
    float *of[ARRAYS]; /* NULL on dry */
    struct mds_scratch_request transfer[ARRAYS];
};

struct zero_swap {
    struct zero_storage *storage;
    const struct zero_array *array;
    int in_file;
    struct buffer buffer[BUFFERS]; /* piece k's is k % BUFFERS */
    struct zero_piece coming, now;
    int64_t read, used; /* pieces whose reading began; that came in */
    enum mds_rc lost;   /* what was changed could not be written; */
    char why[256];      /* the sentence */
};

/* ---- life ---- */

static enum mds_rc take_buffers(struct zero_swap *w)
{
    for (int i = 0; i < BUFFERS; i++)
        for (int k = 0; k < ARRAYS; k++)
            MDS_TRY(
                mds_storage_host_memory(w->storage, buffer_bytes, &w->buffer[i].of[k]));
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
    return w->in_file ? take_buffers(w) : MDS_OK;
}

void mds_swap_destroy(struct zero_swap *w)
{
    if (!w)
        return;
    (void)mds_swap_wait(w); /* a failure: nobody reads it any more */
    for (int i = 0; i < BUFFERS; i++)
        for (int k = 0; k < ARRAYS; k++)
            mds_host_unmap(w->buffer[i].of[k], buffer_bytes);
    free(w);
}

/* ---- transfers ---- */

/* All are waited for, whichever fails. */
static enum mds_rc wait_for(struct zero_swap *w, struct buffer *b)
{
    enum mds_rc rc = MDS_OK;

    for (int k = 0; k < ARRAYS; k++) {
        enum mds_rc one = mds_scratch_wait(&b->transfer[k]);

        rc = one ? one : rc;
        if (!one || !b->transfer[k].write)
            continue;
        w->lost = one;
        snprintf(w->why, sizeof w->why, "%s", mds_fail_text());
    }
    return rc;
}

/* A save can go without states that cannot be read, and the run goes on; not without
 * states that are lost, whoever met that first. */
static enum mds_rc check_lost(const struct zero_swap *w)
{
    return w->lost ? mds_fail(w->lost, "%s", w->why) : MDS_OK;
}

enum mds_rc mds_swap_wait(struct zero_swap *w)
{
    enum mds_rc rc = MDS_OK;

    for (int i = 0; i < BUFFERS; i++) {
        enum mds_rc one = wait_for(w, &w->buffer[i]);

        rc = one ? one : rc;
    }
    return rc ? rc : check_lost(w);
}

static void start(struct zero_swap *w, struct buffer *b, const struct zero_piece *p,
                  int write)
{
    struct mds_scratch_file *file = w->storage->file;
    int64_t bytes = p->n * (int64_t)sizeof(float);

    for (int k = 0; k < ARRAYS; k++) {
        int64_t at = mds_storage_offset(w->storage, &w->array[k], p);

        if (write)
            mds_scratch_write_start(file, at, b->of[k], bytes, &b->transfer[k]);
        else
            mds_scratch_read_start(file, at, b->of[k], bytes, &b->transfer[k]);
    }
}

/* What was in a buffer before has been written by the time another piece comes, or in
 * the next round the same one again. */
static enum mds_rc read_ahead(struct zero_swap *w)
{
    const struct zero_partition *parts = w->storage->parts;

    while (w->read < w->used + AHEAD && w->coming.unit < parts->units &&
           mds_partition_next(parts, ZERO_CHUNK, &w->coming)) {
        struct buffer *b = &w->buffer[w->read++ % BUFFERS];

        MDS_TRY(wait_for(w, b));
        start(w, b, &w->coming, 0);
    }
    return MDS_OK;
}

/* ---- pieces ---- */

enum mds_rc mds_swap_begin(struct zero_swap *w)
{
    w->coming = w->now = (struct zero_piece){.unit = -1};
    w->read = w->used = 0;
    MDS_TRY(check_lost(w));
    return w->storage->file ? read_ahead(w) : MDS_OK;
}

static enum mds_rc from_file(struct zero_swap *w, float **at)
{
    struct buffer *b = &w->buffer[w->used++ % BUFFERS];

    MDS_TRY(read_ahead(w));
    MDS_TRY(wait_for(w, b));
    for (int k = 0; k < ARRAYS; k++)
        at[k] = b->of[k];
    return MDS_OK;
}

enum mds_rc mds_swap_in(struct zero_swap *w, struct zero_piece *p, float **at)
{
    mds_partition_next(w->storage->parts, w->in_file ? ZERO_CHUNK : INT64_MAX, &w->now);
    *p = w->now;
    if (w->in_file)
        return from_file(w, at);
    for (int k = 0; k < ARRAYS; k++)
        at[k] = mds_storage_at(w->storage, &w->array[k], p);
    return MDS_OK;
}

void mds_swap_out(struct zero_swap *w)
{
    if (w->in_file)
        start(w, &w->buffer[(w->used - 1) % BUFFERS], &w->now, 1);
}
