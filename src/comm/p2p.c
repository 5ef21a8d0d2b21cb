/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between two ranks, outside of collectives. */
#include "comm/internal.h"
#include "base/minmax.h"

#include <stddef.h>

/* Pieces are long, so that the network rather than this program moves most of it. */
static int64_t most_of_a_piece(void)
{
    const int64_t segments = 64, limit = 1 << 30; /* MPI counts bytes in an int */
    int64_t bytes = mds_comm_segment() * (int64_t)sizeof(float) * segments;

    return mds_min(bytes, limit);
}

/* Whether an earlier message that has the same name still has pieces to post: those of
 * the later one would be taken for them. */
static int is_behind(const struct mds_comm_p2p *m)
{
    const struct mds_comm_call *a = &m->call;

    for (const struct mds_comm_p2p *e = m->comm->first_message; e != m; e = e->next)
        if (e->call.kind == a->kind && e->call.peer == a->peer &&
            e->call.tag == a->tag && e->at + e->piece < e->bytes)
            return 1;
    return 0;
}

static enum mds_rc start_piece(struct mds_comm_p2p *m)
{
    int64_t left = m->bytes - m->at, most = most_of_a_piece();

    if (is_behind(m))
        return MDS_OK;
    m->piece = mds_min(left, most);
    return m->comm->ops->start_piece(m->comm, m);
}

static enum mds_rc step(struct mds_comm_p2p *m, int *moved)
{
    int done = 0;

    if (m->piece == 0)
        return start_piece(m);
    MDS_TRY(m->comm->ops->test_piece(m->comm, m, &done));
    if (!done)
        return MDS_OK;
    *moved += 1;
    m->at += m->piece;
    m->piece = 0;
    if (m->at < m->bytes)
        return start_piece(m);
    mds_watch_done(m->comm->tag, &m->call);
    m->comm = NULL;
    return MDS_OK;
}

enum mds_rc mds_comm_advance_messages(struct mds_comm *c, int *moved)
{
    struct mds_comm_p2p **p = &c->first_message;

    while (*p) {
        struct mds_comm_p2p *m = *p;

        MDS_TRY(step(m, moved));
        if (m->comm)
            p = &m->next;
        else
            *p = m->next;
    }
    return MDS_OK;
}

static enum mds_rc start_on_device(struct mds_comm_p2p *m)
{
    enum mds_rc rc = m->comm->direct->start_message(m->comm, m);

    if (rc)
        m->comm = NULL;
    return rc;
}

static enum mds_rc start(struct mds_comm *c, enum mds_comm_kind kind, char *buf,
                         int64_t bytes, int peer, int tag, struct mds_comm_p2p *req)
{
    struct mds_comm_call call = {
        .kind = kind, .dtype = -1, .op = -1, .peer = peer, .tag = tag, .count = bytes};
    struct mds_comm_p2p **p = &c->first_message;
    int ok = !req->comm && bytes >= 0 && (bytes == 0 || buf), moved = 0;

    ok = ok && peer >= 0 && peer < c->size && peer != c->rank;
    ok = ok && tag >= 0 && tag < MDS_COMM_P2P_TAGS;
    MDS_TRY(mds_comm_enter(c, ok, &call));
    if (!c->ops || bytes == 0)
        return MDS_OK;
    *req = (struct mds_comm_p2p){.comm = c, .buf = buf, .bytes = bytes, .call = call};
    if (c->direct && mds_comm_on_device(c, buf))
        return start_on_device(req);
    while (*p)
        p = &(*p)->next;
    *p = req;
    return mds_comm_progress(&moved);
}

enum mds_rc mds_comm_send_start(struct mds_comm *c, const void *buf, int64_t bytes,
                                int peer, int tag, struct mds_comm_p2p *req)
{
    return start(c, MDS_COMM_SEND, (char *)buf, bytes, peer, tag, req);
}

enum mds_rc mds_comm_recv_start(struct mds_comm *c, void *buf, int64_t bytes, int peer,
                                int tag, struct mds_comm_p2p *req)
{
    return start(c, MDS_COMM_RECV, buf, bytes, peer, tag, req);
}

static enum mds_rc wait_direct(struct mds_comm *c, const void *what)
{
    return c->direct->wait_message(c, what);
}

enum mds_rc mds_comm_p2p_wait(struct mds_comm_p2p *req)
{
    return mds_comm_flight_wait((struct mds_comm_flight){
        &req->comm, &req->call, req->ticket, req, wait_direct});
}
