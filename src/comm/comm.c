/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups: their life, and the loop in which everything waits. */
#include "comm/internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two ranks may be waiting in different groups for what the other started earlier in a
 * third: whoever waits must move everything. */
static struct mds_comm *live;

static int64_t segment = 4 << 20;

void mds_comm_set_timeout_s(double s)
{
    mds_watchdog_set_limit_s(s);
}

void mds_comm_set_segment(int64_t floats)
{
    const int64_t most = 1 << 28; /* a GiB: MPI counts bytes in an int */

    segment = floats < 1 ? 1 : floats > most ? most : floats;
}

struct mds_comm *mds_comm_live(void)
{
    return live;
}

int64_t mds_comm_segment(void)
{
    return segment;
}

enum mds_rc mds_comm_init(struct mds_comm *c, const struct mds_comm_ops *ops, int rank,
                          int size, const char *tag)
{
    struct mds_comm **last = &live;

    c->f64 = mds_zalloc((size_t)size * MDS_COMM_BATCH, sizeof *c->f64);
    if (!c->f64)
        return MDS_EMEM;
    c->ops = ops;
    c->rank = rank;
    c->size = size;
    snprintf(c->tag, sizeof c->tag, "%s", tag);
    while (*last)
        last = &(*last)->next;
    *last = c;
    return MDS_OK;
}

void mds_comm_destroy(struct mds_comm *c)
{
    struct mds_comm **p = &live;

    if (!c)
        return;
    while (*p != c)
        p = &(*p)->next;
    *p = c->next;
    if (c->direct)
        c->direct->close(c);
    free(c->f64);
    free(c->print);
    if (c->ops)
        c->ops->close(c);
    else
        free(c);
}

enum mds_rc mds_comm_create_alone(const char *tag, struct mds_comm **out)
{
    MDS_TRY(mds_comm_create_dry(0, 1, tag, out));
    (*out)->dry = 0;
    return MDS_OK;
}

int mds_comm_on_device(const struct mds_comm *c, const void *p)
{
    return c->dev && mds_dev_owns(c->dev, p);
}

void mds_comm_copy(struct mds_comm *c, void *to, const void *from, int64_t bytes)
{
    if (mds_comm_on_device(c, from))
        mds_dev_copy(c->dev, to, from, bytes);
    else
        memcpy(to, from, (size_t)bytes);
}

/* Not after a failure. */
static enum mds_rc check_whole(const struct mds_comm *c)
{
    return c->broken
               ? mds_fail(c->broken, "%s: an earlier call of this group failed", c->tag)
               : MDS_OK;
}

enum mds_rc mds_comm_add_collectives(struct mds_comm *c)
{
    MDS_TRY(check_whole(c));
    if (c->collects)
        return MDS_OK;
    c->collects = 1;
    return c->direct ? c->direct->add_collectives(c) : MDS_OK;
}

enum mds_rc mds_comm_add_lane(struct mds_comm *c, int tag, int step)
{
    MDS_TRY(check_whole(c));
    c->lanes++;
    return c->direct ? c->direct->add_lane(c, tag, step) : MDS_OK;
}

int mds_comm_rank(const struct mds_comm *c)
{
    return c->rank;
}

int mds_comm_size(const struct mds_comm *c)
{
    return c->size;
}

const char *mds_comm_tag(const struct mds_comm *c)
{
    return c->tag;
}

static enum mds_rc advance(struct mds_comm *c, int *moved)
{
    if (c->first_message)
        MDS_TRY(mds_comm_advance_messages(c, moved));
    return c->first ? mds_comm_advance(c, moved) : MDS_OK;
}

enum mds_rc mds_comm_progress(int *moved)
{
    for (struct mds_comm *c = live; c; c = c->next) {
        if (c->broken)
            continue;
        c->broken = advance(c, moved);
        if (c->broken)
            return c->broken;
    }
    return MDS_OK;
}

/* One look at what is awaited.  *done, or how many messages have moved. */
static enum mds_rc look(struct mds_comm *c, struct mds_comm *const *until, int *done,
                        int *moved)
{
    int left = 0;

    *moved = 0;
    MDS_TRY(mds_comm_progress(moved));
    if (!until) {
        int finished;

        MDS_TRY(c->ops->test(c, 0, &finished, &left));
        *moved += finished;
    }
    *done = until ? !*until : left == 0;
    return MDS_OK;
}

/* A rank of the world that does not do its part, or -1.  Of the requests in flight the
 * oldest is the one that holds up the others. */
static int find_awaited(const struct mds_comm *c, const struct mds_comm_call *call,
                        int waits_for_slot_0)
{
    int rank = call->peer;

    if (waits_for_slot_0)
        rank = c->ops->awaited(c, 0);
    else if (call->number > 0)
        rank = c->first ? c->ops->awaited(c, c->first->slot) : -1;
    return rank < 0 ? -1 : c->world_ranks[rank];
}

static enum mds_rc wait_until(struct mds_comm *c, const struct mds_comm_call *call,
                              struct mds_comm *const *until, double start)
{
    const double pause_s = 0.1, standstill_s = 1;
    double heard = start, pondered = start, looked = start;

    for (;;) {
        int done = 0, moved;
        double now;

        MDS_TRY(look(c, until, &done, &moved));
        if (done)
            return MDS_OK;
        now = mds_clock_s();
        if (now - looked > standstill_s)
            heard += now - looked; /* this process was stopped, and all may have been */
        looked = now;
        if (moved) {
            heard = now;
        } else if (now - pondered > pause_s) {
            int awaited = find_awaited(c, call, !until);

            mds_watch_awaited(awaited);
            MDS_TRY(mds_silence_go_on(c->tag, awaited, now - heard));
            pondered = now;
        } else {
            mds_clock_rest(now - heard); /* laptops run more ranks than cores */
        }
    }
}

enum mds_rc mds_comm_block(struct mds_comm *c, const struct mds_comm_call *call,
                           struct mds_comm *const *until)
{
    double start = mds_clock_s();
    enum mds_rc rc;

    if (c->broken)
        return mds_comm_fail_broken(c, call);
    mds_watch_begin(c->tag, call);
    mds_comm_profile_wait(call);
    rc = wait_until(c, call, until, start);
    mds_comm_profile_waited();
    mds_watch_end();
    if (rc)
        c->broken = rc;
    c->stats.wait_s += mds_clock_s() - start;
    return rc;
}

enum mds_rc mds_comm_flight_wait(struct mds_comm_flight f)
{
    struct mds_comm *c = *f.comm;

    if (!c)
        return MDS_OK;
    if (!f.ticket)
        return mds_comm_block(c, f.call, f.comm);
    if (c->broken)
        return mds_comm_fail_broken(c, f.call);
    mds_comm_profile_wait(f.call);
    MDS_TRY(f.wait(c, f.what));
    mds_comm_profile_waited();
    *f.comm = NULL;
    return MDS_OK;
}
