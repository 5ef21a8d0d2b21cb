/* The update on the host, of states in memory or in a file, behind what the device
 * does.
 *
 *   update        only begins: gradients of the first units set out
 *   next forward  acquire waits for its unit, whose weights travel back
 *
 * Units go in the order in which forward passes want them, a few at a time, each
 * through a slot of pinned memory, 4 bytes for the gradient and a weight for the way
 * back:
 *
 *   gradient to the slot | job, done by a helper thread | weights to the device
 *
 * Whoever waits here moves the others on.  Gradients stay on the device until then: the
 * norm that they are clipped by needs all of them, and backward passes write those of a
 * unit after they acquired it. */
#include "base/alloc.h"
#include "base/minmax.h"
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
    enum mds_rc rc;
    char why[256];                       /* the helper thread's sentence */
    int64_t room;                        /* elements; the host's memory for them: */
    float *grad;                         /* NULL on dry */
    char *weight;                        /* NULL on dry, and where weights rest here */
    struct mds_dev_copying sent, coming; /* gradient; the latest weights */
};

struct zero_behind {
    struct mds_worker *worker; /* NULL on dry */
    struct mdsk_adamw update;  /* what is the same for all units */
    struct slot slot[SLOTS];   /* unit i's is i % SLOTS */
    /* Gradients of units below `sent` have set out, jobs below `begun` have been
     * started, weights below `returned` have set out. */
    int sent, begun, returned;
    char *settled; /* [units]: they have been given to the group */
};

/* ---- life ---- */

static enum mds_rc take(struct mds_zero *z, int64_t bytes, void **out)
{
    z->host_bytes.memory_bytes += bytes;
    return z->dry || bytes == 0 ? MDS_OK : mds_dev_alloc(z->spec.host, bytes, out);
}

static enum mds_rc take_slot(struct mds_zero *z, int index)
{
    struct slot *s = &z->behind->slot[index];
    void *grad = NULL, *weight = NULL;

    s->z = z;
    for (int i = index; i < z->units; i += SLOTS)
        s->room = mds_max(s->room, z->unit[i].n);
    MDS_TRY(take(z, s->room * (int64_t)sizeof(float), &grad));
    s->grad = grad;
    if (!mds_zero_weights_on_host(z))
        MDS_TRY(take(z, s->room * z->elem, &weight));
    s->weight = weight;
    return MDS_OK;
}

enum mds_rc mds_zero_behind_create(struct mds_zero *z)
{
    struct zero_behind *b = mds_zalloc(1, sizeof *b);

    if (!b)
        return MDS_EMEM;
    z->behind = b;
    b->sent = b->begun = b->returned = z->units;
    b->settled = mds_zalloc((size_t)z->units, 1);
    if (!b->settled)
        return MDS_EMEM;
    memset(b->settled, 1, (size_t)z->units);
    for (int i = 0; i < SLOTS; i++)
        MDS_TRY(take_slot(z, i));
    return z->dry ? MDS_OK : mds_worker_create(1, &b->worker);
}

/* Copies may still be under way. */
void mds_zero_behind_destroy(struct mds_zero *z)
{
    struct zero_behind *b = z->behind;

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
    return &z->behind->slot[unit % SLOTS];
}

/* The unit that had the slot before has left it, but for its weights. */
static void send(struct mds_zero *z, int unit)
{
    const struct zero_unit *u = &z->unit[unit];
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

    s->rc = s->z->file ? mds_zero_file_update(s->z, s->piece.unit, &s->update)
                       : mds_zero_update_on_host(s->z, &s->piece, &s->update);
    if (s->rc)
        snprintf(s->why, sizeof s->why, "%s", mds_fail_text());
}

static void aim(const struct mds_zero *z, struct slot *s)
{
    int64_t at = z->unit[s->piece.unit].at;
    struct mdsk_adamw *a = &s->update;

    *a = z->behind->update;
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

/* Both copies of the slot are done. */
static void begin(struct mds_zero *z, struct slot *s)
{
    if (z->dry || s->piece.n == 0)
        return;
    aim(z, s);
    s->job.run = update;
    mds_worker_start(z->behind->worker, &s->job);
}

/* The job is done. */
static enum mds_rc give_back(struct mds_zero *z, struct slot *s)
{
    if (s->rc)
        return mds_fail(s->rc, "%s", s->why);
    if (!mds_zero_weights_on_host(z) && s->piece.n > 0)
        s->coming = mds_dev_restore_start(z->dev, mds_zero_weight_at(z, &s->piece),
                                          s->weight, s->piece.n * z->elem);
    return MDS_OK;
}

static int is_updated(const struct mds_zero *z, struct slot *s)
{
    return z->dry || mds_worker_done(z->behind->worker, &s->job);
}

/* As far as all of them get without waiting. */
static enum mds_rc advance(struct mds_zero *z)
{
    struct zero_behind *b = z->behind;

    for (; b->returned < b->begun; b->returned++) {
        struct slot *s = slot_of(z, b->returned);

        if (!is_updated(z, s))
            break;
        MDS_TRY(give_back(z, s));
    }
    for (; b->sent < z->units && b->sent < b->returned + SLOTS; b->sent++)
        send(z, b->sent);
    for (; b->begun < b->sent; b->begun++) {
        struct slot *s = slot_of(z, b->begun);

        if (!mds_dev_copied(z->dev, s->sent) || !mds_dev_copied(z->dev, s->coming))
            break;
        begin(z, s);
    }
    return MDS_OK;
}

/* Until the weights of units below `end` have set out.  Copies wait for what was queued
 * before them, which may be a message of a peer that died. */
static enum mds_rc wait_below(struct mds_zero *z, int end)
{
    struct mds_dev_patience p = {0};

    MDS_TRY(advance(z));
    while (z->behind->returned < end) {
        MDS_TRY(mds_dev_rest(z->dev, &p));
        MDS_TRY(advance(z));
    }
    return MDS_OK;
}

/* ---- for the others ---- */

enum mds_rc mds_zero_behind_update(struct mds_zero *z, const struct mdsk_adamw *a)
{
    struct zero_behind *b = z->behind;

    if (z->file)
        MDS_TRY(mds_zero_file_begin(z));
    b->update = *a;
    b->sent = b->begun = b->returned = 0;
    memset(b->settled, 0, (size_t)z->units);
    return advance(z);
}

enum mds_rc mds_zero_behind_deliver(struct mds_zero *z, int unit)
{
    struct zero_behind *b = z->behind;

    MDS_TRY(wait_below(z, unit + 1));
    if (b->settled[unit])
        return MDS_OK;
    mds_dev_meet(z->dev, slot_of(z, unit)->coming); /* or a later one's */
    b->settled[unit] = 1;
    return mds_zero_weights_publish(z, unit);
}

enum mds_rc mds_zero_behind_wait(struct mds_zero *z)
{
    return wait_below(z, z->units);
}
