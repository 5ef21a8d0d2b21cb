/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/host_update.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/minmax.h"
#include "device/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 4 };

struct slot {
    struct mds_task job;
    struct zero_host_update *h;
    struct zero_piece piece;
    struct mdsk_adamw update;
    double s; /* that the update took */
    enum mds_rc rc;
    char why[256];                       /* the helper thread's sentence */
    int64_t room;                        /* elements; the host's memory for them: */
    float *grad;                         /* NULL on dry */
    char *weight;                        /* NULL on dry, and where weights lie here */
    struct mds_dev_copying sent, coming; /* copies: of the gradient, of the weights */
};

struct zero_host_update {
    struct zero_states *states;             /* borrowed, as are the next ones */
    const struct zero_gradients *gradients; /* on the device */
    struct zero_weights *weights;
    const struct zero_partition *parts;
    struct mds_dev *dev, *host;
    int returns;               /* weights lie on the device, so that they are copied */
    struct mds_worker *worker; /* NULL on dry: nothing is updated */
    struct mdsk_adamw update;  /* what is the same for all units */
    struct slot slot[SLOTS];   /* unit i's is i % SLOTS */
    /* Of this update: for units below `sent` the copy of the gradient was started,
     * below `begun` the update, below `returned` the copy of the weights. */
    int sent, begun, returned;
    char *delivered; /* [units]: the new weights were given to the group */
};

/* ---- life ---- */

static enum mds_rc take(struct zero_host_update *h, int64_t bytes, void **out)
{
    struct zero_storage *s = h->states->storage;

    s->memory_bytes += bytes;
    return s->dry || bytes == 0 ? MDS_OK : mds_dev_alloc(h->host, bytes, out);
}

static enum mds_rc take_slot(struct zero_host_update *h, int index)
{
    struct slot *s = &h->slot[index];
    void *grad = NULL, *weight = NULL;

    s->h = h;
    for (int i = index; i < h->parts->units; i += SLOTS)
        s->room = mds_max(s->room, h->parts->shard[i].n);
    MDS_TRY(take(h, s->room * (int64_t)sizeof(float), &grad));
    s->grad = grad;
    if (h->returns)
        MDS_TRY(take(h, s->room * h->weights->array.elem, &weight));
    s->weight = weight;
    return MDS_OK;
}

enum mds_rc mds_host_update_create(struct zero_states *states,
                                   const struct zero_gradients *gradients,
                                   struct zero_weights *weights, struct mds_dev *host,
                                   struct zero_host_update **out)
{
    struct zero_host_update *h = *out = mds_zalloc(1, sizeof *h);

    if (!h)
        return MDS_EMEM;
    *h = (struct zero_host_update){.states = states,
                                   .gradients = gradients,
                                   .weights = weights,
                                   .parts = states->parts,
                                   .dev = states->storage->dev,
                                   .host = host};
    h->returns = weights->array.place == MDS_PLACE_DEVICE;
    h->sent = h->begun = h->returned = h->parts->units;
    h->delivered = mds_zalloc((size_t)h->parts->units, 1);
    if (!h->delivered)
        return MDS_EMEM;
    memset(h->delivered, 1, (size_t)h->parts->units);
    for (int i = 0; i < SLOTS; i++)
        MDS_TRY(take_slot(h, i));
    return states->storage->dry ? MDS_OK : mds_worker_create(1, &h->worker);
}

void mds_host_update_destroy(struct zero_host_update *h)
{
    if (!h)
        return;
    mds_worker_destroy(h->worker);
    for (int i = 0; i < SLOTS; i++) {
        mds_dev_meet(h->dev, h->slot[i].sent);
        mds_dev_meet(h->dev, h->slot[i].coming);
    }
    (void)mds_dev_wait(h->dev); /* on failure too: nobody reads it */
    for (int i = 0; i < SLOTS; i++) {
        struct slot *s = &h->slot[i];

        if (s->grad)
            mds_dev_free(h->host, s->grad, s->room * (int64_t)sizeof(float));
        if (s->weight)
            mds_dev_free(h->host, s->weight, s->room * h->weights->array.elem);
    }
    free(h->delivered);
    free(h);
}

/* ---- a unit's way ---- */

static struct slot *slot_of(struct zero_host_update *h, int unit)
{
    return &h->slot[unit % SLOTS];
}

/* Start the copy of a unit's gradient.  The slot's last unit is done with it, but for
 * the copy of its weights. */
static void send(struct zero_host_update *h, int unit)
{
    struct slot *s = slot_of(h, unit);

    s->piece = mds_partition_piece(h->parts, unit);
    s->sent = (struct mds_dev_copying){0};
    if (s->piece.n > 0)
        s->sent = mds_dev_save_start(
            h->dev, s->grad,
            mds_storage_at(h->states->storage, &h->gradients->array, &s->piece),
            s->piece.n * (int64_t)sizeof(float));
}

/* In the helper thread. */
static void update(struct mds_task *job)
{
    struct slot *s = (struct slot *)job;
    double begun_s = mds_clock_s();

    s->rc = mds_states_update(s->h->states, s->piece.unit, &s->update);
    if (s->rc)
        snprintf(s->why, sizeof s->why, "%s", mds_fail_text());
    s->s = mds_clock_s() - begun_s;
}

static void *weights_at(const struct zero_host_update *h, const struct slot *s)
{
    return mds_storage_at(h->states->storage, &h->weights->array, &s->piece);
}

/* Start the update: both copies of the slot are done. */
static void begin(struct zero_host_update *h, struct slot *s)
{
    if (!h->worker || s->piece.n == 0)
        return;
    s->update = h->update;
    s->update.grad = s->grad;
    if (!h->states->in_weights)
        s->update.weight = h->returns ? s->weight : weights_at(h, s);
    s->job.run = update;
    mds_worker_start(h->worker, &s->job);
}

static void tell_profile(const struct zero_host_update *h, const struct slot *s)
{
    struct mdsk_adamw a = s->update;

    a.n = s->piece.n;
    mds_profile_add(h->dev, MDS_PROFILE_HOST, MDS_OP_ADAMW, mdsk_adamw_cost(&a), s->s);
}

/* Start the copy of the weights: the update is done. */
static enum mds_rc give_back(struct zero_host_update *h, struct slot *s)
{
    if (s->rc)
        return mds_fail(s->rc, "%s", s->why);
    if (s->piece.n == 0)
        return MDS_OK;
    tell_profile(h, s);
    if (h->returns)
        s->coming = mds_dev_restore_start(h->dev, weights_at(h, s), s->weight,
                                          s->piece.n * h->weights->array.elem);
    return MDS_OK;
}

static int is_updated(struct zero_host_update *h, struct slot *s)
{
    return !h->worker || mds_worker_done(h->worker, &s->job);
}

/* Move all units on as far as they get without waiting. */
static enum mds_rc advance(struct zero_host_update *h)
{
    int units = h->parts->units;

    for (; h->returned < h->begun; h->returned++) {
        struct slot *s = slot_of(h, h->returned);

        if (!is_updated(h, s))
            break;
        MDS_TRY(give_back(h, s));
    }
    for (; h->sent < units && h->sent < h->returned + SLOTS; h->sent++)
        send(h, h->sent);
    for (; h->begun < h->sent; h->begun++) {
        struct slot *s = slot_of(h, h->begun);

        if (!mds_dev_copied(h->dev, s->sent) || !mds_dev_copied(h->dev, s->coming))
            break;
        begin(h, s);
    }
    return MDS_OK;
}

/* Wait until the copies of the weights of units below `end` are started.  They wait for
 * what was queued before them, which may be a message of a peer that died. */
static enum mds_rc wait_below(struct zero_host_update *h, int end)
{
    struct mds_dev_patience p = {0};

    MDS_TRY(advance(h));
    while (h->returned < end) {
        MDS_TRY(mds_dev_rest(h->dev, &p));
        MDS_TRY(advance(h));
    }
    return MDS_OK;
}

/* ---- for others ---- */

enum mds_rc mds_host_update_begin(struct zero_host_update *h,
                                  const struct mdsk_adamw *a)
{
    h->update = *a;
    h->sent = h->begun = h->returned = 0;
    memset(h->delivered, 0, (size_t)h->parts->units);
    return advance(h);
}

enum mds_rc mds_host_update_deliver(struct zero_host_update *h, int unit)
{
    if (!h)
        return MDS_OK;
    MDS_TRY(wait_below(h, unit + 1));
    if (h->delivered[unit])
        return MDS_OK;
    mds_dev_meet(h->dev, slot_of(h, unit)->coming); /* or a later one's */
    h->delivered[unit] = 1;
    return mds_weights_gather(h->weights, unit);
}

enum mds_rc mds_host_update_wait(struct zero_host_update *h)
{
    return h ? wait_below(h, h->parts->units) : MDS_OK;
}
