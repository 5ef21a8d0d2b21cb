/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/pipe.h"

#include "base/alloc.h"

#include <stdlib.h>

enum { TAG_FWD, TAG_BWD }; /* between two stages alone both may go the same way */

/* What a stage receives and sends.  The ends of a message are the same kind of thing on
 * its two stages, so messages of a tag arrive in the order they are wanted. */
enum { FWD_IN, FWD_OUT, BWD_IN, BWD_OUT, CHANNELS };

static const struct kind {
    enum mds_pipe_op op;
    int to_peer; /* +1: the next stage, -1: the previous one */
    int tag;
} kinds[CHANNELS] = {
    [FWD_IN] = {MDS_PIPE_RECV_FWD, -1, TAG_FWD},
    [FWD_OUT] = {MDS_PIPE_SEND_FWD, +1, TAG_FWD},
    [BWD_IN] = {MDS_PIPE_RECV_BWD, +1, TAG_BWD},
    [BWD_OUT] = {MDS_PIPE_SEND_BWD, -1, TAG_BWD},
};

/* Messages take the buffers in turn. */
struct channel {
    int peer, tag;
    int buffers; /* as many as there are messages, up to MDS_PIPE_BUFFERS */
    void *buf[MDS_PIPE_BUFFERS];
    struct mds_comm_p2p req[MDS_PIPE_BUFFERS];
    int begun, used; /* messages of this run: put under way; received and used */
};

struct mds_pipe {
    struct mds_pipe_spec spec;
    struct channel channel[CHANNELS];
    int tried; /* a run is behind us */
};

/* ---- creation ---- */

static void init_channel(struct channel *c, const struct mds_schedule *s,
                         const struct kind *k)
{
    const struct mds_schedule_spec *shape = mds_schedule_get_spec(s);
    const struct mds_pipe_step *step;
    int n;

    c->peer = (shape->stage + shape->stages + k->to_peer) % shape->stages;
    c->tag = k->tag;
    step = mds_schedule_steps(s, &n);
    for (int i = 0; i < n && c->buffers < MDS_PIPE_BUFFERS; i++)
        c->buffers += step[i].op == k->op;
}

static enum mds_rc check(const struct mds_pipe_spec *spec)
{
    const struct mds_schedule_spec *s = mds_schedule_get_spec(spec->schedule);
    int rank = mds_comm_rank(spec->comm), size = mds_comm_size(spec->comm);

    if (size != s->stages || rank != s->stage || spec->boundary_bytes < 1)
        return mds_fail(
            MDS_EBUG, "pipe: stage %d of %d on rank %d of %d, tensors of %lld bytes",
            s->stage, s->stages, rank, size, (long long)spec->boundary_bytes);
    return MDS_OK;
}

enum mds_rc mds_pipe_create(const struct mds_pipe_spec *spec, struct mds_pipe **out)
{
    struct mds_pipe *p;

    MDS_TRY(check(spec));
    p = mds_zalloc(1, sizeof *p);
    if (!p)
        return MDS_EMEM;
    p->spec = *spec;
    for (int i = 0; i < CHANNELS; i++)
        init_channel(&p->channel[i], spec->schedule, &kinds[i]);
    *out = p;
    return MDS_OK;
}

void mds_pipe_destroy(struct mds_pipe *p)
{
    free(p);
}

enum mds_rc mds_pipe_take(struct mds_pipe *p, struct mds_arena *arena)
{
    for (int i = 0; i < CHANNELS; i++) {
        struct channel *c = &p->channel[i];

        for (int b = 0; b < c->buffers; b++)
            MDS_TRY(mds_arena_take(arena, MDS_MEM_COMM, p->spec.boundary_bytes,
                                   &c->buf[b]));
    }
    return MDS_OK;
}

/* ---- a run ---- */

static enum mds_rc begin_recv(struct mds_pipe *p, struct channel *c)
{
    int b = c->begun++ % c->buffers;

    return mds_comm_recv_start(p->spec.comm, c->buf[b], p->spec.boundary_bytes, c->peer,
                               c->tag, &c->req[b]);
}

static enum mds_rc begin_send(struct mds_pipe *p, struct channel *c)
{
    int b = c->begun++ % c->buffers;

    return mds_comm_send_start(p->spec.comm, c->buf[b], p->spec.boundary_bytes, c->peer,
                               c->tag, &c->req[b]);
}

/* What is done for the first time may make a GPU's runtime wait for all that the device
 * does (it loads code, takes memory): for a message, too, that was asked for early, and
 * whose sender waits for what this stage would do next.  In a first run messages are
 * asked for when nothing can be done without them. */
static enum mds_rc ask_early(struct mds_pipe *p, struct channel *c)
{
    return p->tried ? begin_recv(p, c) : MDS_OK;
}

/* The oldest received tensor, once it is here. */
static enum mds_rc await_input(struct mds_pipe *p, struct channel *c, const void **in)
{
    int b;

    if (c->begun == c->used)
        MDS_TRY(begin_recv(p, c));
    b = c->used++ % c->buffers;
    *in = c->buf[b];
    return mds_comm_p2p_wait(&c->req[b]);
}

/* The next buffer to send from, once its last message has left. */
static enum mds_rc await_output(struct channel *c, void **out)
{
    int b = c->begun % c->buffers;

    *out = c->buf[b];
    return mds_comm_p2p_wait(&c->req[b]);
}

static enum mds_rc forward(struct mds_pipe *p, const struct mds_pipe_stage *stage,
                           const struct mds_pipe_step *step)
{
    const void *in = NULL;
    void *out = NULL;

    if (!mds_schedule_is_first(p->spec.schedule, step->chunk))
        MDS_TRY(await_input(p, &p->channel[FWD_IN], &in));
    if (!mds_schedule_is_last(p->spec.schedule, step->chunk))
        MDS_TRY(await_output(&p->channel[FWD_OUT], &out));
    return stage->forward(stage->ctx, step->micro_batch, step->chunk, in, out);
}

static enum mds_rc backward(struct mds_pipe *p, const struct mds_pipe_stage *stage,
                            const struct mds_pipe_step *step)
{
    const void *d_out = NULL;
    void *d_in = NULL;

    if (!mds_schedule_is_last(p->spec.schedule, step->chunk))
        MDS_TRY(await_input(p, &p->channel[BWD_IN], &d_out));
    if (!mds_schedule_is_first(p->spec.schedule, step->chunk))
        MDS_TRY(await_output(&p->channel[BWD_OUT], &d_in));
    return stage->backward(stage->ctx, step->micro_batch, step->chunk, d_out, d_in);
}

static enum mds_rc do_step(struct mds_pipe *p, const struct mds_pipe_stage *stage,
                           const struct mds_pipe_step *step)
{
    switch (step->op) {
    case MDS_PIPE_RECV_FWD:
        return ask_early(p, &p->channel[FWD_IN]);
    case MDS_PIPE_FORWARD:
        return forward(p, stage, step);
    case MDS_PIPE_SEND_FWD:
        return begin_send(p, &p->channel[FWD_OUT]);
    case MDS_PIPE_RECV_BWD:
        return ask_early(p, &p->channel[BWD_IN]);
    case MDS_PIPE_BACKWARD:
        return backward(p, stage, step);
    case MDS_PIPE_SEND_BWD:
        return begin_send(p, &p->channel[BWD_OUT]);
    }
    return mds_fail(MDS_EBUG, "pipe: step %d", (int)step->op);
}

/* All sends have left; receives were waited for when they were used. */
static enum mds_rc drain(struct mds_pipe *p)
{
    for (int i = 0; i < CHANNELS; i++)
        for (int b = 0; b < p->channel[i].buffers; b++)
            MDS_TRY(mds_comm_p2p_wait(&p->channel[i].req[b]));
    return MDS_OK;
}

enum mds_rc mds_pipe_run(struct mds_pipe *p, const struct mds_pipe_stage *stage)
{
    const struct mds_pipe_step *step;
    int n;

    for (int i = 0; i < CHANNELS; i++) {
        struct channel *c = &p->channel[i];

        if (c->buffers > 0 && !c->buf[0])
            return mds_fail(MDS_EBUG, "pipe: no buffers taken");
        c->begun = c->used = 0;
    }
    step = mds_schedule_steps(p->spec.schedule, &n);
    for (int i = 0; i < n; i++)
        MDS_TRY(do_step(p, stage, &step[i]));
    p->tried = 1;
    return drain(p);
}
