/* SPDX-License-Identifier: BSD-3-Clause */
/* The update on the host (ZeRO-Offload), of states in memory or in a file, while the
 * device goes on with the next step.
 *
 *   mds_zero_update   only begins: gradients of the first units are copied to the host
 *   next forward      acquire waits for its unit's weights to be copied back
 *
 * Units go in the order in which forward passes want them, a few at a time, each
 * through a slot of pinned memory with room for its gradient and its new weights:
 *
 *   gradient to the slot | update, by a helper thread | weights to the device
 *
 * Whoever waits for a unit here moves all of them on.  A unit's gradient stays where it
 * is on the device until it is copied: all of them are needed for the norm they are
 * clipped by, and backward writes a unit's only after it has acquired the unit. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/minmax.h"
#include "device/profile.h"
#include "optim/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 4 };

struct slot {
    struct mds_job job;
    struct mds_zero *z;
    struct zero_piece piece;
    struct mdsk_adamw update;
    double s; /* that the update took */
    enum mds_rc rc;
    char why[256];                       /* the helper thread's sentence */
    int64_t room;                        /* elements; the host's memory for them: */
    float *grad;                         /* NULL on dry */
    char *weight;                        /* NULL on dry, and where weights rest here */
    struct mds_dev_copying sent, coming; /* copies: of the gradient, of the weights */
};

struct zero_offload {
    struct mds_worker *worker; /* NULL on dry */
    struct mdsk_adamw update;  /* what is the same for all units */
    struct slot slot[SLOTS];   /* unit i's is i % SLOTS */
    /* Of this update: for units below `sent` the copy of the gradient was started,
     * below `begun` the update, below `returned` the copy of the weights. */
    int sent, begun, returned;
    char *settled; /* [units]: the new weights were given to the group */
};

/* ---- life ---- */

static enum mds_rc take(struct mds_zero *z, int64_t bytes, void **out)
{
    z->host_bytes.memory_bytes += bytes;
    return z->dry || bytes == 0 ? MDS_OK : mds_dev_alloc(z->spec.host, bytes, out);
}

static enum mds_rc take_slot(struct mds_zero *z, int index)
{
    struct slot *s = &z->offload->slot[index];
    void *grad = NULL, *weight = NULL;

    s->z = z;
    for (int i = index; i < z->parts.units; i += SLOTS)
        s->room = mds_max(s->room, z->parts.shard[i].n);
    MDS_TRY(take(z, s->room * (int64_t)sizeof(float), &grad));
    s->grad = grad;
    if (!mds_zero_weights_on_host(z))
        MDS_TRY(take(z, s->room * z->elem, &weight));
    s->weight = weight;
    return MDS_OK;
}

enum mds_rc mds_zero_offload_create(struct mds_zero *z)
{
    struct zero_offload *b = mds_zalloc(1, sizeof *b);

    if (!b)
        return MDS_EMEM;
    z->offload = b;
    b->sent = b->begun = b->returned = z->parts.units;
    b->settled = mds_zalloc((size_t)z->parts.units, 1);
    if (!b->settled)
        return MDS_EMEM;
    memset(b->settled, 1, (size_t)z->parts.units);
    for (int i = 0; i < SLOTS; i++)
        MDS_TRY(take_slot(z, i));
    return z->dry ? MDS_OK : mds_worker_create(1, &b->worker);
}

/* Copies may still be under way. */
void mds_zero_offload_destroy(struct mds_zero *z)
{
    struct zero_offload *b = z->offload;

    if (!b)
        return;
    mds_worker_destroy(b->worker);
    for (int i = 0; i < SLOTS; i++) {
        mds_dev_meet(z->dev, b->slot[i].sent);
        mds_dev_meet(z->dev, b->slot[i].coming);
    }
    (void)mds_dev_wait(z->dev); /* on failure too: nobody reads it */
    for (int i = 0; i < SLOTS; i++) {
        struct slot *s = &b->slot[i];

        if (s->grad)
            mds_dev_free(z->spec.host, s->grad, s->room * (int64_t)sizeof(float));
        if (s->weight)
            mds_dev_free(z->spec.host, s->weight, s->room * z->elem);
    }
    free(b->settled);
    free(b);
}

/* ---- a unit's way ---- */

static struct slot *slot_of(const struct mds_zero *z, int unit)
{
    return &z->offload->slot[unit % SLOTS];
}

/* Start the copy of a unit's gradient.  The slot's last unit is done with it, but for
 * the copy of its weights. */
static void send(struct mds_zero *z, int unit)
{
    const struct zero_shard *u = &z->parts.shard[unit];
    struct slot *s = slot_of(z, unit);

    s->piece = (struct zero_piece){.unit = unit, .first = u->first, .n = u->n};
    s->sent = (struct mds_dev_copying){0};
    if (u->n > 0)
        s->sent = mds_dev_save_start(z->dev, s->grad, mds_zero_grad_at(z, &s->piece),
                                     u->n * (int64_t)sizeof(float));
}

/* In the helper thread. */
static void update(struct mds_job *job)
{
    struct slot *s = (struct slot *)job;
    double begun_s = mds_clock_s();

    s->rc = s->z->file ? mds_zero_file_update(s->z, s->piece.unit, &s->update)
                       : mds_zero_update_on_host(s->z, &s->piece, &s->update);
    if (s->rc)
        snprintf(s->why, sizeof s->why, "%s", mds_fail_text());
    s->s = mds_clock_s() - begun_s;
}

/* s->update for the slot's unit. */
static void set_update(const struct mds_zero *z, struct slot *s)
{
    int64_t at = z->parts.shard[s->piece.unit].at;
    struct mdsk_adamw *a = &s->update;

    *a = z->offload->update;
    a->grad = s->grad;
    a->dtype = z->dtype;
    a->weight =
        mds_zero_weights_on_host(z) ? mds_zero_weight_at(z, &s->piece) : s->weight;
    if (z->file)
        return;
    a->master = z->master + at;
    a->m = z->m + at;
    a->v = z->v + at;
    if (a->weight == a->master)
        a->weight = NULL;
}

/* Start the update: both copies of the slot are done. */
static void begin(struct mds_zero *z, struct slot *s)
{
    if (z->dry || s->piece.n == 0)
        return;
    set_update(z, s);
    s->job.run = update;
    mds_worker_start(z->offload->worker, &s->job);
}

static void tell_profile(const struct mds_zero *z, const struct slot *s)
{
    struct mdsk_adamw a = s->update;

    a.n = s->piece.n;
    mds_profile_add(z->dev, MDS_PROFILE_HOST, MDS_OP_ADAMW, mdsk_adamw_cost(&a), s->s);
}

/* Start the copy of the weights: the update is done. */
static enum mds_rc give_back(struct mds_zero *z, struct slot *s)
{
    if (s->rc)
        return mds_fail(s->rc, "%s", s->why);
    if (s->piece.n == 0)
        return MDS_OK;
    tell_profile(z, s);
    if (!mds_zero_weights_on_host(z))
        s->coming = mds_dev_restore_start(z->dev, mds_zero_weight_at(z, &s->piece),
                                          s->weight, s->piece.n * z->elem);
    return MDS_OK;
}

static int is_updated(const struct mds_zero *z, struct slot *s)
{
    return z->dry || mds_worker_done(z->offload->worker, &s->job);
}

/* Move all units on as far as they get without waiting. */
static enum mds_rc advance(struct mds_zero *z)
{
    struct zero_offload *b = z->offload;

    for (; b->returned < b->begun; b->returned++) {
        struct slot *s = slot_of(z, b->returned);

        if (!is_updated(z, s))
            break;
        MDS_TRY(give_back(z, s));
    }
    for (; b->sent < z->parts.units && b->sent < b->returned + SLOTS; b->sent++)
        send(z, b->sent);
    for (; b->begun < b->sent; b->begun++) {
        struct slot *s = slot_of(z, b->begun);

        if (!mds_dev_copied(z->dev, s->sent) || !mds_dev_copied(z->dev, s->coming))
            break;
        begin(z, s);
    }
    return MDS_OK;
}

/* Wait until the copies of the weights of units below `end` are started.  They wait for
 * what was queued before them, which may be a message of a peer that died. */
static enum mds_rc wait_below(struct mds_zero *z, int end)
{
    struct mds_dev_patience p = {0};

    MDS_TRY(advance(z));
    while (z->offload->returned < end) {
        MDS_TRY(mds_dev_rest(z->dev, &p));
        MDS_TRY(advance(z));
    }
    return MDS_OK;
}

/* ---- for the others ---- */

enum mds_rc mds_zero_offload_update(struct mds_zero *z, const struct mdsk_adamw *a)
{
    struct zero_offload *b = z->offload;

    if (z->file)
        MDS_TRY(mds_zero_file_begin(z));
    b->update = *a;
    b->sent = b->begun = b->returned = 0;
    memset(b->settled, 0, (size_t)z->parts.units);
    return advance(z);
}

enum mds_rc mds_zero_offload_deliver(struct mds_zero *z, int unit)
{
    struct zero_offload *b = z->offload;

    MDS_TRY(wait_below(z, unit + 1));
    if (b->settled[unit])
        return MDS_OK;
    mds_dev_meet(z->dev, slot_of(z, unit)->coming); /* or a later one's */
    b->settled[unit] = 1;
    return mds_zero_weights_publish(z, unit);
}

enum mds_rc mds_zero_offload_wait(struct mds_zero *z)
{
    return wait_below(z, z->parts.units);
}

enum mds_rc mds_zero_check_update(struct mds_zero *z)
{
    if (z->offload)
        MDS_TRY(mds_zero_offload_wait(z));
    return z->stream ? mds_zero_file_settle(z) : MDS_OK;
}
