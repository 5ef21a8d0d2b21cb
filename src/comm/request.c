/* SPDX-License-Identifier: BSD-3-Clause */
/* What is in flight: requests (collectives over shards) and messages between two ranks.
 * A request sends its shards step by step, and each step goes on to its next stage when
 * the messages of the current one have arrived.  A message is sent in fragments. */
#include "base/minmax.h"
#include "comm/internal.h"

#include <stddef.h>

static int64_t segment = 4 << 20;

void mds_comm_set_segment(int64_t floats)
{
    const int64_t most = 1 << 28; /* 1 GiB: MPI counts bytes in an int */

    segment = floats < 1 ? 1 : floats > most ? most : floats;
}

int64_t mds_comm_segment(void)
{
    return segment;
}

/* ---- requests ---- */

enum { QUEUED = 0 }; /* the stage of a request that has no slot yet */

/* The i-th peer to exchange with; each rank starts with a different one. */
static int nth_peer(const struct mds_comm *c, int i)
{
    return (c->peers.rank + i) % c->peers.size;
}

/* The part of rank p's shard that this step sends: its elements, and first byte. */
static int64_t step_elements(const struct mds_comm_req *r, int p)
{
    int64_t n = mds_min(r->shard, r->count - p * r->shard) - r->at;

    return n < 0 ? 0 : mds_min(n, r->step);
}

static int64_t step_offset(const struct mds_comm_req *r, int p)
{
    return (p * r->shard + r->at) * r->elem_bytes;
}

static int64_t work_stride(const struct mds_comm_req *r)
{
    return mds_min(mds_min(r->shard, r->count), r->step);
}

/* Post a message each way, unless it would be empty. */
static enum mds_rc post_exchange(struct mds_comm_req *r, int p, const char *out,
                                 int64_t out_n, char *in, int64_t in_n)
{
    struct mds_comm *c = r->comm;

    if (in_n > 0)
        MDS_TRY(mds_mpi_recv(c->mpi, r->slot, r->tag, p, in, in_n * r->elem_bytes));
    if (out_n > 0)
        MDS_TRY(mds_mpi_send(c->mpi, r->slot, r->tag, p, out, out_n * r->elem_bytes));
    return MDS_OK;
}

static enum mds_rc post_stage(struct mds_comm_req *r, int p)
{
    int me = r->comm->peers.rank;
    int64_t own = step_elements(r, me), theirs = step_elements(r, p);
    int64_t row = (p < me ? p : p - 1) * work_stride(r) * r->elem_bytes;

    switch (r->stage) {
    case MDS_COMM_REDUCING:
        return post_exchange(r, p, r->in + step_offset(r, p), theirs, r->work + row,
                             own);
    case MDS_COMM_GATHERING:
        return post_exchange(r, p, r->out + step_offset(r, me), own,
                             r->out + step_offset(r, p), theirs);
    default:
        return post_exchange(r, p, r->in + step_offset(r, p), theirs,
                             r->out + step_offset(r, p), theirs);
    }
}

static enum mds_rc begin_stage(struct mds_comm_req *r, int stage)
{
    r->stage = stage;
    for (int i = 1; i < r->comm->peers.size; i++)
        MDS_TRY(post_stage(r, nth_peer(r->comm, i)));
    return MDS_OK;
}

/* A step begins with the lowest of the request's stages. */
static enum mds_rc begin_step(struct mds_comm_req *r)
{
    return begin_stage(r, r->stages & -r->stages);
}

static void reduce_step(struct mds_comm_req *r)
{
    const struct mds_comm *c = r->comm;

    mds_comm_reduce(&(struct mds_comm_sum){
        .out = r->sum + r->at * r->elem_bytes,
        .own = r->in + step_offset(r, c->peers.rank),
        .others = r->work,
        .stride = work_stride(r),
        .len = step_elements(r, c->peers.rank),
        .me = c->peers.rank,
        .n = c->peers.size,
        .dtype = (enum mdsk_dtype)r->call.dtype,
    });
}

static enum mds_rc assign_slot(struct mds_comm_req *r)
{
    struct mds_comm *c = r->comm;

    for (int s = 1; s < MDS_MPI_SLOTS; s++)
        if (!(c->busy & 1u << s)) {
            c->busy |= 1u << s;
            r->slot = s;
            return begin_step(r);
        }
    return MDS_OK;
}

static void finish_request(struct mds_comm_req *r)
{
    r->comm->busy &= ~(1u << r->slot);
    mds_watch_done(r->comm->peers.tag, &r->call);
    r->comm = NULL;
}

/* Begin the next stage if all messages of this one have arrived. */
static enum mds_rc advance_request(struct mds_comm_req *r, int *moved)
{
    struct mds_comm *c = r->comm;
    int finished, left;

    if (r->stage == QUEUED)
        return assign_slot(r);
    MDS_TRY(mds_mpi_test(c->mpi, r->slot, &finished, &left));
    *moved += finished;
    if (left > 0)
        return MDS_OK;
    if (r->stage == MDS_COMM_REDUCING) {
        reduce_step(r);
        if (r->stages & MDS_COMM_GATHERING)
            return begin_stage(r, MDS_COMM_GATHERING);
    }
    r->at += r->step;
    if (r->at < mds_min(r->shard, r->count))
        return begin_step(r);
    finish_request(r);
    return MDS_OK;
}

/* In the order of their start, so that the oldest request, which is the same on all
 * ranks, always has a slot: the group cannot deadlock. */
static enum mds_rc advance_requests(struct mds_comm *c, int *moved)
{
    struct mds_comm_req **p = &c->first;

    while (*p) {
        struct mds_comm_req *r = *p;

        MDS_TRY(advance_request(r, moved));
        if (r->comm)
            p = &r->next;
        else
            *p = r->next;
    }
    return MDS_OK;
}

void mds_comm_add_request(struct mds_comm *c, struct mds_comm_req *r)
{
    struct mds_comm_req **p = &c->first;

    while (*p)
        p = &(*p)->next;
    *p = r;
    r->next = NULL;
    r->comm = c;
    r->stage = QUEUED;
    r->at = 0;
    c->next_tag = c->next_tag % (MDS_COMM_TAGS - 1) + 1; /* 0: blocking calls */
    r->tag = c->next_tag;
}

/* ---- messages ---- */

/* Long, so that the network moves most of a message without help of this program. */
static int64_t max_fragment_bytes(void)
{
    const int64_t segments = 64, limit = 1 << 30; /* MPI counts bytes in an int */
    int64_t bytes = segment * (int64_t)sizeof(float) * segments;

    return mds_min(bytes, limit);
}

/* Whether an earlier message of the same kind, peer and tag still has fragments to
 * post: MPI would take this message's fragments for those. */
static int must_wait_for_earlier(const struct mds_comm_p2p *m)
{
    const struct mds_comm_call *a = &m->call;

    for (const struct mds_comm_p2p *e = m->comm->first_message; e != m; e = e->next)
        if (e->call.kind == a->kind && e->call.peer == a->peer &&
            e->call.tag == a->tag && e->at + e->fragment < e->bytes)
            return 1;
    return 0;
}

static enum mds_rc start_fragment(struct mds_comm_p2p *m)
{
    int64_t left = m->bytes - m->at, most = max_fragment_bytes();

    if (must_wait_for_earlier(m))
        return MDS_OK;
    m->fragment = mds_min(left, most);
    return mds_mpi_start(m->comm->mpi, &m->call, MDS_COMM_TAG_P2P + m->call.tag,
                         m->buf + m->at, m->fragment, &m->message);
}

static enum mds_rc advance_message(struct mds_comm_p2p *m, int *moved)
{
    int done = 0;

    if (m->fragment == 0)
        return start_fragment(m);
    MDS_TRY(mds_mpi_finish(m->comm->mpi, &m->call, m->fragment, &m->message, &done));
    if (!done)
        return MDS_OK;
    *moved += 1;
    m->at += m->fragment;
    m->fragment = 0;
    if (m->at < m->bytes)
        return start_fragment(m);
    mds_watch_done(m->comm->peers.tag, &m->call);
    m->comm = NULL;
    return MDS_OK;
}

static enum mds_rc advance_messages(struct mds_comm *c, int *moved)
{
    struct mds_comm_p2p **p = &c->first_message;

    while (*p) {
        struct mds_comm_p2p *m = *p;

        MDS_TRY(advance_message(m, moved));
        if (m->comm)
            p = &m->next;
        else
            *p = m->next;
    }
    return MDS_OK;
}

void mds_comm_add_message(struct mds_comm *c, struct mds_comm_p2p *m)
{
    struct mds_comm_p2p **p = &c->first_message;

    while (*p)
        p = &(*p)->next;
    *p = m;
    m->comm = c;
}

enum mds_rc mds_comm_advance(struct mds_comm *c, int *moved)
{
    MDS_TRY(advance_messages(c, moved));
    return advance_requests(c, moved);
}
