/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop in which this rank waits for messages. */
#include "comm/internal.h"

#include "base/clock.h"
#include "device/profile.h"

#include <stddef.h>

/* All groups.  Whoever waits makes progress on all of them: two ranks may wait in
 * different groups, each for a message of a third that the other started earlier. */
static struct mds_comm *live;

static struct mds_dev *profiled;

void mds_comm_set_timeout_s(double s)
{
    mds_watchdog_set_limit_s(s);
}

void mds_comm_set_profile(struct mds_dev *dev)
{
    profiled = dev;
}

void mds_comm_register(struct mds_comm *c)
{
    struct mds_comm **last = &live;

    while (*last)
        last = &(*last)->next;
    *last = c;
}

void mds_comm_unregister(struct mds_comm *c)
{
    struct mds_comm **p = &live;

    while (*p != c)
        p = &(*p)->next;
    *p = c->next;
}

enum mds_rc mds_comm_fail_broken(const struct mds_comm *c,
                                 const struct mds_comm_call *call)
{
    return mds_fail(c->peers.broken, "%s: %s: an earlier call of this group failed",
                    c->peers.tag, mds_comm_kind_name(call->kind));
}

static enum mds_rc advance_all(int *moved)
{
    for (struct mds_comm *c = live; c; c = c->next) {
        if (c->peers.broken)
            continue;
        c->peers.broken = mds_comm_advance(c, moved);
        if (c->peers.broken)
            return c->peers.broken;
    }
    return MDS_OK;
}

enum mds_rc mds_comm_progress(void)
{
    int moved = 0;

    return advance_all(&moved);
}

/* Poll once.  *done: the wait is over; *moved: how many messages finished. */
static enum mds_rc poll_once(struct mds_comm *c, struct mds_comm *const *until,
                             int *done, int *moved)
{
    int left = 0;

    *moved = 0;
    MDS_TRY(advance_all(moved));
    if (!until) {
        int finished;

        MDS_TRY(mds_mpi_test(c->mpi, 0, &finished, &left));
        *moved += finished;
    }
    *done = until ? !*until : left == 0;
    return MDS_OK;
}

/* The world rank whose message is missing, or -1.  Of the requests in flight, the
 * oldest holds up the others. */
static int find_awaited(const struct mds_comm *c, const struct mds_comm_call *call,
                        int waits_for_slot_0)
{
    int rank = call->peer;

    if (waits_for_slot_0)
        rank = mds_mpi_awaited(c->mpi, 0);
    else if (call->number > 0)
        rank = c->first ? mds_mpi_awaited(c->mpi, c->first->slot) : -1;
    return rank < 0 ? -1 : c->peers.world[rank];
}

static enum mds_rc wait_until(struct mds_comm *c, const struct mds_comm_call *call,
                              struct mds_comm *const *until)
{
    const double pause_s = 0.1, standstill_s = 1;
    double moved_at = mds_clock_s(), checked_at = moved_at, polled_at = moved_at;

    for (;;) {
        int done = 0, moved;
        double now;

        MDS_TRY(poll_once(c, until, &done, &moved));
        if (done)
            return MDS_OK;
        now = mds_clock_s();
        if (now - polled_at > standstill_s)
            moved_at += now - polled_at; /* stopped, as all ranks may have been */
        polled_at = now;
        if (moved) {
            moved_at = now;
        } else if (now - checked_at > pause_s) {
            int awaited = find_awaited(c, call, !until);

            mds_watch_awaited(awaited);
            MDS_TRY(mds_peer_timeout_check(c->peers.tag, awaited, now - moved_at));
            checked_at = now;
        } else {
            mds_clock_backoff(now - moved_at); /* there may be more ranks than cores */
        }
    }
}

static void begin_wait(const struct mds_comm_call *call)
{
    mds_profile_begin(profiled, MDS_PROFILE_WAIT, (int)call->kind,
                      (struct mdsk_cost){0, 0}, NULL);
}

static void end_wait(void)
{
    mds_profile_end(profiled, MDS_PROFILE_WAIT, NULL);
}

enum mds_rc mds_comm_block(struct mds_comm *c, const struct mds_comm_call *call,
                           struct mds_comm *const *until)
{
    enum mds_rc rc;

    if (c->peers.broken)
        return mds_comm_fail_broken(c, call);
    mds_watch_begin(c->peers.tag, call);
    begin_wait(call);
    rc = wait_until(c, call, until);
    end_wait();
    mds_watch_end();
    if (rc)
        c->peers.broken = rc;
    return rc;
}

/* Wait for a request or a message, which is in flight while *comm is not NULL; ticket
 * > 0: by NCCL. */
static enum mds_rc wait_for(struct mds_comm **comm, const struct mds_comm_call *call,
                            int64_t ticket, const struct mds_comm_flight *flight)
{
    struct mds_comm *c = *comm;

    if (!c)
        return MDS_OK;
    if (c->dry) {
        mds_comm_clock_wait(c, flight);
        *comm = NULL;
        return MDS_OK;
    }
    if (!ticket)
        return mds_comm_block(c, call, comm);
    if (c->peers.broken)
        return mds_comm_fail_broken(c, call);
    begin_wait(call);
    MDS_TRY(c->direct->ops->wait(c->direct, ticket));
    end_wait();
    *comm = NULL;
    return MDS_OK;
}

enum mds_rc mds_comm_wait(struct mds_comm_req *req)
{
    return wait_for(&req->comm, &req->call, req->ticket, &req->flight);
}

enum mds_rc mds_comm_p2p_wait(struct mds_comm_p2p *req)
{
    return wait_for(&req->comm, &req->call, req->ticket, &req->flight);
}

int mds_comm_done(const struct mds_comm_req *req)
{
    return !req->comm;
}

enum mds_rc mds_comm_poll(struct mds_comm_req *req)
{
    struct mds_comm *c = req->comm;

    if (!c)
        return MDS_OK;
    if (c->dry)
        return mds_comm_clock_passed(c, &req->flight) ? mds_comm_wait(req) : MDS_OK;
    if (c->peers.broken)
        return mds_comm_fail_broken(c, &req->call);
    if (!req->ticket)
        return mds_comm_progress();
    if (c->direct->ops->test(c->direct, req->ticket))
        req->comm = NULL;
    return MDS_OK;
}
