/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: collectives over slices, in the background.  Each walks through its slices
 * step by step, and through the stages of a step whenever its messages have arrived. */
#include "base/minmax.h"
#include "comm/internal.h"

#include <stddef.h>

enum { QUEUED = 0 }; /* a request without a slot yet is in no stage */

/* The peer this rank turns to i-th: each rank begins with another one. */
static int peer(const struct mds_comm *c, int i)
{
    return (c->rank + i) % c->size;
}

/* What moves of rank p's slice in this step: how many elements, and the first byte. */
static int64_t part(const struct mds_comm_req *r, int p)
{
    int64_t n = mds_min(r->chunk, r->count - p * r->chunk) - r->at;

    return n < 0 ? 0 : mds_min(n, r->step);
}

static int64_t offset(const struct mds_comm_req *r, int p)
{
    return (p * r->chunk + r->at) * r->elem_bytes;
}

static int64_t stride(const struct mds_comm_req *r)
{
    return mds_min(mds_min(r->chunk, r->count), r->step);
}

/* A message of n elements each way; none has no message. */
static enum mds_rc post(struct mds_comm_req *r, int p, const char *out, int64_t out_n,
                        char *in, int64_t in_n)
{
    struct mds_comm *c = r->comm;

    if (in_n > 0)
        MDS_TRY(c->ops->recv(c, r->slot, r->tag, p, in, in_n * r->elem_bytes));
    if (out_n > 0)
        MDS_TRY(c->ops->send(c, r->slot, r->tag, p, out, out_n * r->elem_bytes));
    return MDS_OK;
}

static enum mds_rc post_stage(struct mds_comm_req *r, int p)
{
    int me = r->comm->rank;
    int64_t own = part(r, me), theirs = part(r, p);
    int64_t row = (p < me ? p : p - 1) * stride(r) * r->elem_bytes;

    switch (r->stage) {
    case MDS_COMM_REDUCING:
        return post(r, p, r->in + offset(r, p), theirs, r->work + row, own);
    case MDS_COMM_GATHERING:
        return post(r, p, r->out + offset(r, me), own, r->out + offset(r, p), theirs);
    default:
        return post(r, p, r->in + offset(r, p), theirs, r->out + offset(r, p), theirs);
    }
}

static enum mds_rc begin_stage(struct mds_comm_req *r, int stage)
{
    r->stage = stage;
    for (int i = 1; i < r->comm->size; i++)
        MDS_TRY(post_stage(r, peer(r->comm, i)));
    return MDS_OK;
}

/* A step's first stage is the lowest of the request's. */
static enum mds_rc begin_step(struct mds_comm_req *r)
{
    return begin_stage(r, r->stages & -r->stages);
}

static void sum_up(struct mds_comm_req *r)
{
    const struct mds_comm *c = r->comm;

    mds_comm_reduce(&(struct mds_comm_sum){
        .out = r->sum + r->at * r->elem_bytes,
        .own = r->in + offset(r, c->rank),
        .others = r->work,
        .stride = stride(r),
        .len = part(r, c->rank),
        .me = c->rank,
        .n = c->size,
        .dtype = (enum mdsk_dtype)r->call.dtype,
    });
}

static enum mds_rc take_slot(struct mds_comm_req *r)
{
    struct mds_comm *c = r->comm;

    for (int s = 1; s < MDS_COMM_SLOTS; s++)
        if (!(c->busy & 1u << s)) {
            c->busy |= 1u << s;
            r->slot = s;
            return begin_step(r);
        }
    return MDS_OK;
}

static void finish(struct mds_comm_req *r)
{
    r->comm->busy &= ~(1u << r->slot);
    mds_watch_done(r->comm->tag, &r->call);
    r->comm = NULL;
}

/* Into the next stage, if the messages of this one have all arrived. */
static enum mds_rc step(struct mds_comm_req *r, int *moved)
{
    struct mds_comm *c = r->comm;
    int finished, left;

    if (r->stage == QUEUED)
        return take_slot(r);
    MDS_TRY(c->ops->test(c, r->slot, &finished, &left));
    *moved += finished;
    if (left > 0)
        return MDS_OK;
    if (r->stage == MDS_COMM_REDUCING) {
        sum_up(r);
        if (r->stages & MDS_COMM_GATHERING)
            return begin_stage(r, MDS_COMM_GATHERING);
    }
    r->at += r->step;
    if (r->at < mds_min(r->chunk, r->count))
        return begin_step(r);
    finish(r);
    return MDS_OK;
}

/* In order of start: so the oldest request, which all ranks have in common, is never
 * without a slot, and the group cannot lock up. */
enum mds_rc mds_comm_advance(struct mds_comm *c, int *moved)
{
    struct mds_comm_req **p = &c->first;

    while (*p) {
        struct mds_comm_req *r = *p;

        MDS_TRY(step(r, moved));
        if (r->comm)
            p = &r->next;
        else
            *p = r->next;
    }
    return MDS_OK;
}

enum mds_rc mds_comm_launch(struct mds_comm *c, struct mds_comm_req *r)
{
    struct mds_comm_req **p = &c->first;
    int moved = 0;

    while (*p)
        p = &(*p)->next;
    *p = r;
    r->next = NULL;
    r->comm = c;
    r->stage = QUEUED;
    r->at = 0;
    c->next_tag = c->next_tag % (MDS_COMM_TAGS - 1) + 1; /* 0 is the blocking calls' */
    r->tag = c->next_tag;
    return mds_comm_progress(&moved);
}

int mds_comm_done(const struct mds_comm_req *req)
{
    return !req->comm;
}

static enum mds_rc poll_device(struct mds_comm_req *req)
{
    struct mds_comm *c = req->comm;
    int done = 0;

    MDS_TRY(c->direct->test(c, req->ticket, &done));
    if (done)
        req->comm = NULL;
    return MDS_OK;
}

enum mds_rc mds_comm_poll(struct mds_comm_req *req)
{
    int moved = 0;

    if (!req->comm)
        return MDS_OK;
    if (req->comm->broken)
        return mds_comm_fail_broken(req->comm, &req->call);
    return req->ticket ? poll_device(req) : mds_comm_progress(&moved);
}

static enum mds_rc wait_direct(struct mds_comm *c, const void *what)
{
    return c->direct->wait(c, ((const struct mds_comm_req *)what)->ticket);
}

enum mds_rc mds_comm_wait(struct mds_comm_req *req)
{
    return mds_comm_flight_wait((struct mds_comm_flight){
        &req->comm, &req->call, req->ticket, req, wait_direct});
}
