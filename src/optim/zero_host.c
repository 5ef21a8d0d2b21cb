/* The update on the host of states in a file, piece by piece: while a helper thread
 * updates one piece, this one copies the gradients of the next from the device and the
 * weights of the last one there, and two more threads read ahead and write behind.
 *
 *   k      states from the file, gradients from the device
 *   k - 1  update
 *   k - 2  weights to the device, states to the file
 */
#include "base/alloc.h"
#include "optim/internal.h"

#include <stdlib.h>

enum {
    SLOTS = 4, /* three pieces at work, and one whose states are being written */
    STATES = 3
};

static const enum mds_zero_what state_of[STATES] = {MDS_ZERO_WEIGHT, MDS_ZERO_M,
                                                    MDS_ZERO_V};

/* A piece on its way. */
struct slot {
    struct mds_job job;
    const struct mds_zero *z;
    struct zero_piece piece;
    struct mdsk_adamw update;
    enum mds_rc rc;
    float *grad;
    float *state[STATES];
    void *rounded; /* 16-bit weights; NULL: they are in state[0], or rest here */
    struct mds_spill_req transfer[STATES];
};

struct zero_host {
    struct mds_worker *worker; /* NULL on dry */
    struct slot slot[SLOTS];
};

/* ---- creation ---- */

static const int64_t slot_bytes = ZERO_CHUNK * (int64_t)sizeof(float);

static enum mds_rc take_buffers(struct mds_zero *z, struct slot *s)
{
    s->z = z;
    MDS_TRY(mds_zero_host_alloc(z, slot_bytes, &s->grad));
    for (int i = 0; i < STATES; i++)
        MDS_TRY(mds_zero_host_alloc(z, slot_bytes, &s->state[i]));
    if (z->dtype != MDSK_F32 && !mds_zero_weights_on_host(z))
        MDS_TRY(mds_zero_host_alloc(z, ZERO_CHUNK * z->elem, &s->rounded));
    return MDS_OK;
}

enum mds_rc mds_zero_host_create(struct mds_zero *z)
{
    z->host = mds_zalloc(1, sizeof *z->host);
    if (!z->host)
        return MDS_EMEM;
    for (int i = 0; i < SLOTS; i++)
        MDS_TRY(take_buffers(z, &z->host->slot[i]));
    return z->dry ? MDS_OK : mds_worker_create(1, &z->host->worker);
}

void mds_zero_host_destroy(struct mds_zero *z)
{
    struct zero_host *h = z->host;

    if (!h)
        return;
    mds_worker_destroy(h->worker);
    for (int i = 0; i < SLOTS; i++) {
        struct slot *s = &h->slot[i];

        for (int k = 0; k < STATES; k++) {
            (void)mds_spill_wait(
                &s->transfer[k]); /* on failure only: nobody reads it */
            mds_host_unmap(s->state[k], slot_bytes);
        }
        mds_host_unmap(s->rounded, ZERO_CHUNK * z->elem);
        mds_host_unmap(s->grad, slot_bytes);
    }
    free(h);
}

/* ---- a piece ---- */

static enum mds_rc wait_transfers(struct slot *s)
{
    for (int i = 0; i < STATES; i++)
        MDS_TRY(mds_spill_wait(&s->transfer[i]));
    return MDS_OK;
}

static enum mds_rc fetch(struct mds_zero *z, struct slot *s)
{
    int64_t at = mds_zero_piece_at(z, &s->piece),
            bytes = s->piece.n * (int64_t)sizeof(float);

    MDS_TRY(wait_transfers(s)); /* what was here before has been written */
    for (int i = 0; i < STATES && z->file; i++)
        mds_spill_read_start(z->file, mds_zero_file_offset(z, state_of[i], at),
                             s->state[i], bytes, &s->transfer[i]);
    return mds_zero_copy_out(z, s->grad, mds_zero_grad_at(z, &s->piece), bytes);
}

/* In the helper thread. */
static void update(struct mds_job *job)
{
    struct slot *s = (struct slot *)job;

    s->rc = mds_zero_update_on_host(s->z, &s->piece, &s->update);
}

static void aim(const struct mds_zero *z, struct slot *s,
                const struct mdsk_adamw *scalars)
{
    s->update = *scalars;
    s->update.master = s->state[0];
    s->update.m = s->state[1];
    s->update.v = s->state[2];
    s->update.grad = s->grad;
    s->update.dtype = z->dtype;
    s->update.weight =
        mds_zero_weights_on_host(z) ? mds_zero_weight_at(z, &s->piece) : s->rounded;
}

static enum mds_rc begin_update(struct mds_zero *z, struct slot *s,
                                const struct mdsk_adamw *scalars)
{
    if (z->dry)
        return MDS_OK;
    MDS_TRY(wait_transfers(s));
    aim(z, s, scalars);
    s->job.run = update;
    mds_worker_start(z->host->worker, &s->job);
    return MDS_OK;
}

static enum mds_rc end_update(struct mds_zero *z, struct slot *s)
{
    int64_t at = mds_zero_piece_at(z, &s->piece),
            bytes = s->piece.n * (int64_t)sizeof(float);

    if (!z->dry)
        mds_worker_wait(z->host->worker, &s->job);
    if (s->rc)
        return mds_fail(s->rc, "the host's update: no scratch memory");
    if (!mds_zero_weights_on_host(z))
        mds_dev_copy_in(z->dev, mds_zero_weight_at(z, &s->piece),
                        s->rounded ? s->rounded : s->update.master,
                        s->piece.n * z->elem);
    for (int i = 0; i < STATES && z->file; i++)
        mds_spill_write_start(z->file, mds_zero_file_offset(z, state_of[i], at),
                              s->state[i], bytes, &s->transfer[i]);
    return MDS_OK;
}

/* ---- all of them ---- */

/* Everything of this rank's in units below `end` is new. */
static enum mds_rc publish_below(struct mds_zero *z, int end, int *next)
{
    while (*next < end)
        MDS_TRY(mds_zero_weights_publish(z, (*next)++));
    return MDS_OK;
}

enum mds_rc mds_zero_host_update(struct mds_zero *z, const struct mdsk_adamw *a)
{
    struct slot *slot = z->host->slot;
    struct zero_piece piece = {.unit = -1};
    int64_t pieces = INT64_MAX; /* until the last one is met */
    int unpublished = 0;

    for (int64_t k = 0; k < pieces || k - 2 < pieces; k++) {
        if (k < pieces && !mds_zero_next_piece(z, ZERO_CHUNK, &piece))
            pieces = k;
        if (k < pieces) {
            slot[k % SLOTS].piece = piece;
            MDS_TRY(fetch(z, &slot[k % SLOTS]));
        }
        if (k >= 1 && k - 1 < pieces)
            MDS_TRY(begin_update(z, &slot[(k - 1) % SLOTS], a));
        if (k >= 2 && k - 2 < pieces) {
            MDS_TRY(publish_below(z, slot[(k - 2) % SLOTS].piece.unit, &unpublished));
            MDS_TRY(end_update(z, &slot[(k - 2) % SLOTS]));
        }
    }
    for (int i = 0; i < SLOTS; i++)
        MDS_TRY(wait_transfers(&slot[i]));
    return publish_below(z, z->units, &unpublished);
}
