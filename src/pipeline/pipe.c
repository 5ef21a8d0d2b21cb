/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/pipe.h"

#include "base/alloc.h"

#include <stdlib.h>

enum { TAG_FWD, TAG_BWD }; /* with two stages both directions have the same peer */

/* What a stage receives and sends.  Sender and receiver of a tag have the same order of
 * messages, so messages of a tag arrive in the order in which they are needed. */
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

/* Messages use the buffers in turn. */
struct channel {
    int peer, tag;
    int buffers; /* number of messages, at most MDS_PIPE_BUFFERS */
    void *buf[MDS_PIPE_BUFFERS];
    struct mds_comm_p2p req[MDS_PIPE_BUFFERS];
    int started, used; /* messages of this call of mds_pipe_run: started; consumed */
};

struct mds_pipe {
    struct mds_pipe_spec spec;
    struct channel channel[CHANNELS];
    int has_run; /* mds_pipe_run has completed once */
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

static enum mds_rc check_pipe_spec(const struct mds_pipe_spec *spec)
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

    MDS_TRY(check_pipe_spec(spec));
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

enum mds_rc mds_pipe_alloc(struct mds_pipe *p, struct mds_arena *arena)
{
    for (int i = 0; i < CHANNELS; i++) {
        struct channel *c = &p->channel[i];

        for (int b = 0; b < c->buffers; b++)
            MDS_TRY(mds_arena_alloc(arena, MDS_MEM_COMM, p->spec.boundary_bytes,
                                    &c->buf[b]));
    }
    return MDS_OK;
}

/* ---- execution ---- */

static enum mds_rc start_recv(struct mds_pipe *p, struct channel *c)
{
    int b = c->started++ % c->buffers;

    return mds_comm_recv_start(p->spec.comm, c->buf[b], p->spec.boundary_bytes, c->peer,
                               c->tag, &c->req[b]);
}

static enum mds_rc start_send(struct mds_pipe *p, struct channel *c)
{
    int b = c->started++ % c->buffers;

    return mds_comm_send_start(p->spec.comm, c->buf[b], p->spec.boundary_bytes, c->peer,
                               c->tag, &c->req[b]);
}

/* Post a receive ahead of time, except in the first run.  A GPU runtime that loads code
 * or allocates memory for the first time may wait for everything on the device,
 * including a receive posted early, whose sender may be waiting for what this stage
 * does next. So the first run posts each receive only when it is needed. */
static enum mds_rc start_recv_early(struct mds_pipe *p, struct channel *c)
{
    return p->has_run ? start_recv(p, c) : MDS_OK;
}

/* Wait for the oldest received tensor. */
static enum mds_rc await_input(struct mds_pipe *p, struct channel *c, const void **in)
{
    int b;

    if (c->started == c->used)
        MDS_TRY(start_recv(p, c));
    b = c->used++ % c->buffers;
    *in = c->buf[b];
    return mds_comm_p2p_wait(&c->req[b]);
}

/* The next buffer to send from, after its previous message has been sent. */
static enum mds_rc await_output(struct channel *c, void **out)
{
    int b = c->started % c->buffers;

    *out = c->buf[b];
    return mds_comm_p2p_wait(&c->req[b]);
}

static enum mds_rc execute_forward(struct mds_pipe *p,
                                   const struct mds_pipe_stage *stage,
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

static enum mds_rc execute_backward(struct mds_pipe *p,
                                    const struct mds_pipe_stage *stage,
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

static enum mds_rc execute_step(struct mds_pipe *p, const struct mds_pipe_stage *stage,
                                const struct mds_pipe_step *step)
{
    switch (step->op) {
    case MDS_PIPE_RECV_FWD:
        return start_recv_early(p, &p->channel[FWD_IN]);
    case MDS_PIPE_FORWARD:
        return execute_forward(p, stage, step);
    case MDS_PIPE_SEND_FWD:
        return start_send(p, &p->channel[FWD_OUT]);
    case MDS_PIPE_RECV_BWD:
        return start_recv_early(p, &p->channel[BWD_IN]);
    case MDS_PIPE_BACKWARD:
        return execute_backward(p, stage, step);
    case MDS_PIPE_SEND_BWD:
        return start_send(p, &p->channel[BWD_OUT]);
    }
    return mds_fail(MDS_EBUG, "pipe: step %d", (int)step->op);
}

/* Wait for all sends; receives were waited for when they were consumed. */
static enum mds_rc wait_sends(struct mds_pipe *p)
{
    for (int i = 0; i < CHANNELS; i++)
        for (int b = 0; b < p->channel[i].buffers; b++)
            MDS_TRY(mds_comm_p2p_wait(&p->channel[i].req[b]));
    return MDS_OK;
}

enum mds_rc mds_pipe_run(struct mds_pipe *p, const struct mds_pipe_stage *stage,
                         int micro_batches)
{
    const struct mds_pipe_step *step;
    int n;

    for (int i = 0; i < CHANNELS; i++) {
        struct channel *c = &p->channel[i];

        if (c->buffers > 0 && !c->buf[0])
            return mds_fail(MDS_EBUG, "pipe: run before mds_pipe_alloc");
        c->started = c->used = 0;
    }
    step = mds_schedule_steps(p->spec.schedule, &n);
    for (int i = 0; i < n; i++)
        if (step[i].micro_batch < micro_batches)
            MDS_TRY(execute_step(p, stage, &step[i]));
    p->has_run = 1;
    return wait_sends(p);
}
