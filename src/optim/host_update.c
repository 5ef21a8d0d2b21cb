/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/host_update.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/minmax.h"
#include "device/clock.h"
#include "device/profile.h"

#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 4 };

struct slot {
    struct mds_task job;
    struct zero_host_update *h;
    struct zero_operands shard; /* of the unit */
    double s;                   /* duration of the update */
    enum mds_rc rc;
    char why[256]; /* error text of the worker thread */
    int64_t bytes; /* of pinned memory, for: */
    float *grad;   /* NULL on dry */
    void *weight;  /* behind it; not used if weights are stored on the host */
    struct mds_dev_async_copy grad_copy, weight_copy; /* in flight */
    struct mds_dev_async_copy dry; /* on dry: in place of the update */
};

struct zero_host_update {
    struct zero_states *states;             /* borrowed, as are the next ones */
    const struct zero_gradients *gradients; /* on the device */
    struct zero_weights *weights;
    const struct zero_partition *parts;
    struct mds_dev *dev, *host;
    int copy_weights_back;     /* weights are stored on the device */
    struct mds_worker *worker; /* NULL on dry: nothing is updated */
    struct slot slot[SLOTS];   /* unit i uses slot i % SLOTS */
    /* Progress of this update: the units below each of these have had the copy of their
     * gradient, their update, and the copy of their weights started. */
    int grads_copied, updates_started, weights_returned;
    int gathered; /* units below it: the gather of the new weights was started */
};

/* ---- creation ---- */

static enum mds_rc alloc_pinned_slot(struct zero_host_update *h, int index)
{
    struct slot *s = &h->slot[index];
    int64_t elements = 0;
    void *p = NULL;

    s->h = h;
    for (int i = index; i < h->parts->units; i += SLOTS)
        elements = mds_max(elements, h->parts->shard[i].n);
    s->bytes = elements * ((int64_t)sizeof(float) +
                           (h->copy_weights_back ? h->weights->array.elem : 0));
    h->states->storage->memory_bytes += s->bytes;
    if (h->states->storage->dry || s->bytes == 0)
        return MDS_OK;
    MDS_TRY(mds_dev_alloc(h->host, s->bytes, &p));
    s->grad = p;
    s->weight = s->grad + elements;
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
    h->copy_weights_back = weights->array.place == MDS_PLACE_DEVICE;
    h->grads_copied = h->updates_started = h->weights_returned = h->gathered =
        h->parts->units;
    for (int i = 0; i < SLOTS; i++)
        MDS_TRY(alloc_pinned_slot(h, i));
    return states->storage->dry ? MDS_OK : mds_worker_create(1, &h->worker);
}

void mds_host_update_destroy(struct zero_host_update *h)
{
    if (!h)
        return;
    mds_worker_destroy(h->worker);
    for (int i = 0; i < SLOTS; i++) {
        mds_dev_wait_copy(h->dev, h->slot[i].grad_copy);
        mds_dev_wait_copy(h->dev, h->slot[i].weight_copy);
    }
    (void)mds_dev_wait(h->dev); /* a failure does not matter any more */
    for (int i = 0; i < SLOTS; i++)
        if (h->slot[i].grad)
            mds_dev_free(h->host, h->slot[i].grad, h->slot[i].bytes);
    free(h);
}

/* ---- the steps of one unit ---- */

static struct slot *slot_of(struct zero_host_update *h, int unit)
{
    return &h->slot[unit % SLOTS];
}

/* Address of the slot's unit in weights, or in gradients on the device. */
static void *unit_at(const struct slot *s, const struct zero_array *a)
{
    return mds_storage_at(s->h->states->storage, a, &s->shard.range);
}

/* Start the copy of a unit's gradient.  The previous unit of this slot has finished,
 * except for the copy of its weights. */
static void start_grad_copy(struct zero_host_update *h, int unit)
{
    struct slot *s = slot_of(h, unit);

    s->shard = mds_states_operands(h->states, unit, s->grad, s->weight);
    if (!h->copy_weights_back && !h->states->master_is_weights)
        s->shard.weight = unit_at(s, &h->weights->array);
    s->grad_copy = (struct mds_dev_async_copy){0};
    if (s->shard.range.n > 0)
        s->grad_copy =
            mds_dev_offload_start(h->dev, s->grad, unit_at(s, &h->gradients->array),
                                  s->shard.range.n * (int64_t)sizeof(float));
}

/* Runs in the worker thread. */
static void run_update(struct mds_task *job)
{
    struct slot *s = (struct slot *)job;
    double begun_s = mds_clock_s();

    s->rc = mds_states_update(s->h->states, &s->shard);
    if (s->rc)
        snprintf(s->why, sizeof s->why, "%s", mds_fail_text());
    s->s = mds_clock_s() - begun_s;
}

/* Start the update of a slot whose two copies have completed. */
static void start_update(struct zero_host_update *h, struct slot *s)
{
    if (!h->worker)
        s->dry = mds_dev_update_start(h->dev, s->shard.range.n, s->grad_copy,
                                      s->weight_copy);
    if (!h->worker || s->shard.range.n == 0)
        return;
    s->job.run = run_update;
    mds_worker_start(h->worker, &s->job);
}

/* Start the copy of the weights of a slot whose update has completed. */
static enum mds_rc start_weight_copy(struct zero_host_update *h, struct slot *s)
{
    if (s->rc)
        return mds_fail(s->rc, "%s", s->why);
    if (s->shard.range.n == 0)
        return MDS_OK;
    mds_profile_add(h->dev, MDS_PROFILE_HOST, s->shard.range.by.rule->op,
                    s->shard.range.by.rule->cost(&s->shard), s->s);
    if (h->copy_weights_back)
        s->weight_copy =
            mds_dev_reload_start(h->dev, unit_at(s, &h->weights->array), s->weight,
                                 s->shard.range.n * h->weights->array.elem);
    return MDS_OK;
}

/* On dry nothing is done until it is waited for: units below `end` are. */
static int is_updated(struct zero_host_update *h, int unit, int end)
{
    struct slot *s = slot_of(h, unit);

    if (h->worker)
        return mds_worker_done(h->worker, &s->job);
    if (unit < end)
        mds_dev_wait_copy(h->dev, s->dry);
    return unit < end;
}

/* Advance all units as far as possible without waiting. */
static enum mds_rc advance_units(struct zero_host_update *h, int end)
{
    int units = h->parts->units;

    for (; h->weights_returned < h->updates_started; h->weights_returned++) {
        struct slot *s = slot_of(h, h->weights_returned);

        if (!is_updated(h, h->weights_returned, end))
            break;
        MDS_TRY(start_weight_copy(h, s));
    }
    for (; h->grads_copied < units && h->grads_copied < h->weights_returned + SLOTS;
         h->grads_copied++)
        start_grad_copy(h, h->grads_copied);
    for (; h->updates_started < h->grads_copied; h->updates_started++) {
        struct slot *s = slot_of(h, h->updates_started);

        if (!mds_dev_copy_done(h->dev, s->grad_copy) ||
            !mds_dev_copy_done(h->dev, s->weight_copy))
            break;
        start_update(h, s);
    }
    return MDS_OK;
}

/* Wait until the copies of the weights of all units below `end` have been started.
 * They are queued behind other work, which may include a message from a peer that
 * died. */
static enum mds_rc wait_units_below(struct zero_host_update *h, int end)
{
    struct mds_dev_poll p = {0};

    MDS_TRY(advance_units(h, end));
    while (h->weights_returned < end) {
        MDS_TRY(mds_dev_poll_pause(h->dev, &p));
        MDS_TRY(advance_units(h, end));
    }
    return MDS_OK;
}

/* ---- the interface ---- */

enum mds_rc mds_host_update_begin(struct zero_host_update *h)
{
    h->grads_copied = h->updates_started = h->weights_returned = h->gathered = 0;
    return advance_units(h, 0);
}

enum mds_rc mds_host_update_wait_unit(struct zero_host_update *h, int unit)
{
    if (!h)
        return MDS_OK;
    MDS_TRY(wait_units_below(h, unit + 1));
    for (; h->gathered <= unit; h->gathered++) {
        /* Or the copy of a later unit in this slot. */
        mds_dev_wait_copy(h->dev, slot_of(h, h->gathered)->weight_copy);
        MDS_TRY(mds_weights_gather(h->weights, h->gathered));
    }
    return MDS_OK;
}

enum mds_rc mds_host_update_wait(struct zero_host_update *h)
{
    return h ? wait_units_below(h, h->parts->units) : MDS_OK;
}
