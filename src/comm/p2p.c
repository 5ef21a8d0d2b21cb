/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between two ranks, outside of collectives. */
#include "comm/internal.h"

static enum mds_rc start_message(struct mds_comm *c, enum mds_comm_kind kind, char *buf,
                                 int64_t bytes, int peer, int tag,
                                 struct mds_comm_p2p *req)
{
    struct mds_comm_call call = {
        .kind = kind, .dtype = -1, .op = -1, .peer = peer, .tag = tag, .count = bytes};
    int ok = !req->comm && bytes >= 0 && (bytes == 0 || buf);
    int64_t ticket = 0;

    ok = ok && peer >= 0 && peer < c->peers.size && peer != c->peers.rank;
    ok = ok && tag >= 0 && tag < MDS_COMM_P2P_TAGS;
    MDS_TRY(mds_comm_begin_call(c, ok, &call));
    if (c->rates) {
        req->comm = c;
        mds_comm_clock_start(c, &call, &req->flight);
    }
    if (!c->mpi || bytes == 0)
        return MDS_OK;
    if (mds_comm_is_direct(c, buf))
        MDS_TRY(c->direct->ops->message(c->direct, &call, buf, &ticket));
    *req = (struct mds_comm_p2p){
        .comm = c, .buf = buf, .bytes = bytes, .call = call, .ticket = ticket};
    if (ticket)
        return MDS_OK;
    mds_comm_add_message(c, req);
    return mds_comm_progress();
}

enum mds_rc mds_comm_send_start(struct mds_comm *c, const void *buf, int64_t bytes,
                                int peer, int tag, struct mds_comm_p2p *req)
{
    return start_message(c, MDS_COMM_SEND, (char *)buf, bytes, peer, tag, req);
}

enum mds_rc mds_comm_recv_start(struct mds_comm *c, void *buf, int64_t bytes, int peer,
                                int tag, struct mds_comm_p2p *req)
{
    return start_message(c, MDS_COMM_RECV, buf, bytes, peer, tag, req);
}
