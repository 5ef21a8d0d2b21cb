/* The update on the host, in memory, behind what the device does.
 *
 *   backward      each unit's gradient leaves for the host as soon as it is summed
 *   update        is only begun: a job for each unit, done by a helper thread in the
 *                 order in which forward passes want the units
 *   next forward  acquire waits for its unit's job, whose weights travel back; those of
 *                 the units after it do so ahead of time, if they are ready
 *
 * The norm that gradients are clipped by needs all of them: so the update cannot begin
 * during backward without using last step's.  What passes through pinned memory has a
 * place of its own there, 4 bytes for the gradient and a weight for the way back. */
#include "base/alloc.h"
#include "optim/internal.h"

#include <stdlib.h>

enum { AHEAD = 2 }; /* units whose weights return before they are wanted */

enum state {
    SETTLED,  /* the device has the weights */
    UPDATING, /* the job is under way, or done and nothing is known of it */
    RETURNING /* weights travel */
};

struct unit {
    struct mds_job job;
    const struct mds_zero *z;
    struct zero_piece piece;
    struct mdsk_adamw update;
    enum mds_rc rc;
    enum state state;
    struct mds_dev_copying copy; /* of the weights */
};

struct zero_behind {
    struct mds_worker *worker;    /* NULL on dry */
    float *grad;                  /* [own]; NULL on dry */
    char *weight;                 /* [own]; NULL on dry, and where weights rest here */
    struct mds_dev_copying saved; /* the latest gradient */
    struct unit *unit;            /* [units] */
};

/* ---- life ---- */

static int64_t grad_bytes(const struct mds_zero *z)
{
    return z->own * (int64_t)sizeof(float);
}

static enum mds_rc take(struct mds_zero *z, int64_t bytes, void **out)
{
    z->host_bytes.memory_bytes += bytes;
    return z->dry ? MDS_OK : mds_dev_alloc(z->spec.host, bytes, out);
}

enum mds_rc mds_zero_behind_create(struct mds_zero *z)
{
    struct zero_behind *b = mds_zalloc(1, sizeof *b);
    void *grad = NULL, *weight = NULL;

    if (!b)
        return MDS_EMEM;
    z->behind = b;
    b->unit = mds_zalloc((size_t)z->units, sizeof *b->unit);
    if (!b->unit)
        return MDS_EMEM;
    MDS_TRY(take(z, grad_bytes(z), &grad));
    b->grad = grad;
    if (!mds_zero_weights_on_host(z))
        MDS_TRY(take(z, z->own * z->elem, &weight));
    b->weight = weight;
    return z->dry ? MDS_OK : mds_worker_create(1, &b->worker);
}

/* Copies may still be under way. */
void mds_zero_behind_destroy(struct mds_zero *z)
{
    struct zero_behind *b = z->behind;

    if (!b)
        return;
    mds_worker_destroy(b->worker);
    mds_dev_meet(z->dev, b->saved);
    for (int i = 0; b->unit && i < z->units; i++)
        mds_dev_meet(z->dev, b->unit[i].copy);
    (void)mds_dev_wait(z->dev); /* on failure too: nobody reads it */
    if (b->grad)
        mds_dev_free(z->spec.host, b->grad, grad_bytes(z));
    if (b->weight)
        mds_dev_free(z->spec.host, b->weight, z->own * z->elem);
    free(b->unit);
    free(b);
}

/* ---- gradients ---- */

/* Its last gradient has been used: a pass before this one acquired the unit. */
void mds_zero_behind_send(struct mds_zero *z, int unit)
{
    const struct zero_unit *u = &z->unit[unit];
    struct zero_piece p = {.unit = unit, .first = u->first, .n = u->n};
    struct zero_behind *b = z->behind;

    if (u->n > 0)
        b->saved =
            mds_dev_save_start(z->dev, b->grad ? b->grad + u->at : NULL,
                               mds_zero_grad_at(z, &p), u->n * (int64_t)sizeof(float));
}

void mds_zero_behind_meet(struct mds_zero *z)
{
    mds_dev_meet(z->dev, z->behind->saved);
}

/* ---- the update ---- */

static enum mds_rc launch(const struct mds_zero *z, const struct mdsk_adamw *a)
{
    (void)z;
    return mdsk_adamw_cpu(NULL, a) ? MDS_EMEM : MDS_OK;
}

/* In the helper thread. */
static void update(struct mds_job *job)
{
    struct unit *u = (struct unit *)job;

    u->rc = mds_zero_update_piece(u->z, &u->piece, &u->update, launch);
}

static void aim(const struct mds_zero *z, int unit, struct mdsk_adamw *a)
{
    const struct zero_behind *b = z->behind;
    int64_t at = z->unit[unit].at;
    char *rest = mds_zero_weight_at(z, &b->unit[unit].piece);

    a->master = z->master + at;
    a->m = z->m + at;
    a->v = z->v + at;
    a->grad = b->grad + at;
    a->dtype = z->dtype;
    a->weight = mds_zero_weights_on_host(z) ? rest : b->weight + at * z->elem;
    if (a->weight == a->master)
        a->weight = NULL;
}

void mds_zero_behind_update(struct mds_zero *z, const struct mdsk_adamw *a)
{
    struct zero_behind *b = z->behind;

    for (int i = 0; i < z->units; i++) {
        const struct zero_unit *u = &z->unit[i];
        struct unit *mine = &b->unit[i];

        mine->state = UPDATING;
        mine->piece = (struct zero_piece){.unit = i, .first = u->first, .n = u->n};
        if (z->dry || u->n == 0)
            continue;
        mine->z = z;
        mine->update = *a;
        aim(z, i, &mine->update);
        mine->job.run = update;
        mds_worker_start(b->worker, &mine->job);
    }
}

/* ---- weights ---- */

static enum mds_rc wait_for_job(struct mds_zero *z, struct unit *u)
{
    if (!z->dry)
        mds_worker_wait(z->behind->worker, &u->job);
    return u->rc ? mds_fail(u->rc, "the host's update: no scratch memory") : MDS_OK;
}

static int is_updated(const struct mds_zero *z, struct unit *u)
{
    return z->dry || mds_worker_done(z->behind->worker, &u->job);
}

/* The job is done. */
static void begin_return(struct mds_zero *z, struct unit *u)
{
    const struct zero_behind *b = z->behind;
    int64_t at = z->unit[u->piece.unit].at * z->elem;

    u->state = RETURNING;
    if (!mds_zero_weights_on_host(z) && u->piece.n > 0)
        u->copy = mds_dev_restore_start(z->dev, mds_zero_weight_at(z, &u->piece),
                                        b->weight ? b->weight + at : NULL,
                                        u->piece.n * z->elem);
}

static void look_ahead(struct mds_zero *z, int unit)
{
    for (int i = unit + 1; i <= unit + AHEAD && i < z->units; i++) {
        struct unit *u = &z->behind->unit[i];

        if (u->state == UPDATING && is_updated(z, u))
            begin_return(z, u);
    }
}

enum mds_rc mds_zero_behind_deliver(struct mds_zero *z, int unit)
{
    struct unit *u = &z->behind->unit[unit];

    if (u->state == UPDATING) {
        MDS_TRY(wait_for_job(z, u));
        begin_return(z, u);
    }
    look_ahead(z, unit);
    if (u->state == SETTLED)
        return MDS_OK;
    mds_dev_meet(z->dev, u->copy);
    u->state = SETTLED;
    return mds_zero_weights_publish(z, unit);
}

enum mds_rc mds_zero_behind_wait(struct mds_zero *z)
{
    for (int i = 0; i < z->units; i++)
        MDS_TRY(wait_for_job(z, &z->behind->unit[i]));
    return MDS_OK;
}
