/* SPDX-License-Identifier: BSD-3-Clause */
/* The update of states in a file.  Pieces of all units pass through a few slots of host
 * memory, in the order in which the update behind the device's work takes them:
 *
 *   k + 1, k + 2   on their way from the file
 *   k              updated
 *   k - 1          on its way to the file
 *
 * What moves them are the file's own threads; one other at a time calls what is here.
 */
#include "base/alloc.h"
#include "optim/internal.h"

#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 4, AHEAD = 2, STATES = 3 };

static const enum mds_zero_what state_of[STATES] = {MDS_ZERO_WEIGHT, MDS_ZERO_M,
                                                    MDS_ZERO_V};
static const int64_t slot_bytes = ZERO_CHUNK * (int64_t)sizeof(float);

struct slot {
    float *state[STATES]; /* NULL on dry */
    struct mds_spill_req transfer[STATES];
};

struct zero_file {
    struct slot slot[SLOTS]; /* piece k's is k % SLOTS */
    struct zero_piece coming, now;
    int64_t read, updated; /* pieces of this update whose reading, updating began */
    enum mds_rc rc;        /* of this update */
    enum mds_rc lost;      /* what an update wrote did not get there; */
    char why[256];         /* the sentence */
};

/* ---- life ---- */

enum mds_rc mds_zero_file_create(struct mds_zero *z)
{
    z->stream = mds_zalloc(1, sizeof *z->stream);
    if (!z->stream)
        return MDS_EMEM;
    for (int i = 0; i < SLOTS; i++)
        for (int k = 0; k < STATES; k++)
            MDS_TRY(mds_zero_host_alloc(z, slot_bytes, &z->stream->slot[i].state[k]));
    return MDS_OK;
}

void mds_zero_file_destroy(struct mds_zero *z)
{
    if (!z->stream)
        return;
    (void)mds_zero_file_settle(z); /* a failure: nobody reads it any more */
    for (int i = 0; i < SLOTS; i++)
        for (int k = 0; k < STATES; k++)
            mds_host_unmap(z->stream->slot[i].state[k], slot_bytes);
    free(z->stream);
}

/* ---- pieces ---- */

/* All three are waited for, whichever fails. */
static enum mds_rc settle(struct zero_file *f, struct slot *s)
{
    enum mds_rc rc = MDS_OK;

    for (int k = 0; k < STATES; k++) {
        enum mds_rc one = mds_spill_wait(&s->transfer[k]);

        rc = one ? one : rc;
        if (!one || !s->transfer[k].write)
            continue;
        f->lost = one;
        snprintf(f->why, sizeof f->why, "%s", mds_fail_text());
    }
    return rc;
}

/* A save can go without states that cannot be read, and the run goes on; not without
 * states that are lost, whoever met that first. */
static enum mds_rc check_lost(const struct zero_file *f)
{
    return f->lost ? mds_fail(f->lost, "%s", f->why) : MDS_OK;
}

enum mds_rc mds_zero_file_settle(struct mds_zero *z)
{
    enum mds_rc rc = MDS_OK;

    for (int i = 0; i < SLOTS; i++) {
        enum mds_rc one = settle(z->stream, &z->stream->slot[i]);

        rc = one ? one : rc;
    }
    return rc ? rc : check_lost(z->stream);
}

static void start(struct mds_zero *z, struct slot *s, const struct zero_piece *p,
                  int write)
{
    int64_t at = mds_partition_at(&z->parts, p, 1),
            bytes = p->n * (int64_t)sizeof(float);

    for (int k = 0; k < STATES; k++) {
        int64_t offset = mds_zero_file_offset(z, state_of[k], at);

        if (write)
            mds_spill_write_start(z->file, offset, s->state[k], bytes, &s->transfer[k]);
        else
            mds_spill_read_start(z->file, offset, s->state[k], bytes, &s->transfer[k]);
    }
}

/* What was in a slot before has been written by the time another piece comes, or in the
 * next update the same one again. */
static enum mds_rc read_ahead(struct mds_zero *z)
{
    struct zero_file *f = z->stream;

    while (f->read < f->updated + AHEAD && f->coming.unit < z->parts.units &&
           mds_partition_next(&z->parts, ZERO_CHUNK, &f->coming)) {
        struct slot *s = &f->slot[f->read++ % SLOTS];

        MDS_TRY(settle(f, s));
        start(z, s, &f->coming, 0);
    }
    return MDS_OK;
}

static enum mds_rc update_piece(struct mds_zero *z, const struct mdsk_adamw *unit)
{
    struct zero_file *f = z->stream;
    struct slot *s = &f->slot[f->updated++ % SLOTS];
    int64_t skip = f->now.first - z->parts.shard[f->now.unit].first;
    struct mdsk_adamw a = *unit;

    MDS_TRY(read_ahead(z));
    MDS_TRY(settle(f, s));
    a.master = s->state[0];
    a.m = s->state[1];
    a.v = s->state[2];
    a.grad += skip;
    a.weight = (char *)a.weight + skip * z->elem;
    MDS_TRY(mds_zero_update_on_host(z, &f->now, &a));
    start(z, s, &f->now, 1);
    return MDS_OK;
}

/* ---- for zero_offload.c ---- */

enum mds_rc mds_zero_file_begin(struct mds_zero *z)
{
    struct zero_file *f = z->stream;

    f->coming = f->now = (struct zero_piece){.unit = -1};
    f->read = f->updated = 0;
    f->rc = check_lost(f);
    return f->rc ? f->rc : read_ahead(z);
}

enum mds_rc mds_zero_file_update(struct mds_zero *z, int unit,
                                 const struct mdsk_adamw *a)
{
    const struct zero_shard *u = &z->parts.shard[unit];
    struct zero_file *f = z->stream;

    do {
        mds_partition_next(&z->parts, ZERO_CHUNK, &f->now);
        if (!f->rc)
            f->rc = update_piece(z, a);
    } while (!f->rc && f->now.first + f->now.n < u->first + u->n);
    return f->rc;
}
