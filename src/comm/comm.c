/* Groups: their life, their accounts, and the loop in which everything waits. */
#include "comm/internal.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

/* Two ranks may be waiting in different groups for what the other started earlier in a
 * third: whoever waits must move everything. */
static struct mds_comm *live;

static double timeout_s = 600;
static int64_t segment = 4 << 20;

void mds_comm_set_timeout_s(double s)
{
    timeout_s = s;
}

void mds_comm_set_segment(int64_t floats)
{
    const int64_t most = 1 << 28; /* a GiB: MPI counts bytes in an int */

    segment = floats < 1 ? 1 : floats > most ? most : floats;
}

int64_t mds_comm_segment(void)
{
    return segment;
}

enum mds_rc mds_comm_init(struct mds_comm *c, const struct mds_comm_ops *ops, int rank,
                          int size, const char *tag)
{
    c->f64 = mds_zalloc((size_t)size * MDS_COMM_BATCH, sizeof *c->f64);
    if (!c->f64)
        return MDS_EMEM;
    c->ops = ops;
    c->rank = rank;
    c->size = size;
    snprintf(c->tag, sizeof c->tag, "%s", tag);
    c->next = live;
    live = c;
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
    free(c->f64);
    if (c->ops)
        c->ops->close(c);
    else
        free(c);
}

int mds_comm_rank(const struct mds_comm *c)
{
    return c->rank;
}

int mds_comm_size(const struct mds_comm *c)
{
    return c->size;
}

const struct mds_comm_stats *mds_comm_stats(const struct mds_comm *c)
{
    return &c->stats;
}

enum mds_rc mds_comm_enter(struct mds_comm *c, const char *what, int ok, int64_t bytes)
{
    if (!ok)
        return mds_fail(MDS_EBUG, "%s: %s: wrong arguments", c->tag, what);
    if (c->broken)
        return mds_fail(c->broken, "%s: %s: an earlier call of this group failed",
                        c->tag, what);
    if (c->size > 1) {
        c->stats.calls++;
        c->stats.wire_bytes += bytes;
    }
    return MDS_OK;
}

enum mds_rc mds_comm_progress(int *moved)
{
    for (struct mds_comm *c = live; c; c = c->next) {
        if (!c->first || c->broken)
            continue;
        c->broken = mds_comm_advance(c, moved);
        if (c->broken)
            return c->broken;
    }
    return MDS_OK;
}

static enum mds_rc fail_silent(struct mds_comm *c, int slot)
{
    c->broken = MDS_ECOMM;
    return mds_fail(
        MDS_ECOMM,
        "%s: rank %d has been silent for %g s, the limit: look for what it said last",
        c->tag, c->ops->awaited(c, slot), timeout_s);
}

/* One look at what is awaited.  *done, or how many messages have moved. */
static enum mds_rc look(struct mds_comm *c, const struct mds_comm_req *req, int *done,
                        int *moved)
{
    int left = 0;

    *moved = 0;
    MDS_TRY(mds_comm_progress(moved));
    if (!req) {
        int finished;

        MDS_TRY(c->ops->test(c, 0, &finished, &left));
        *moved += finished;
    }
    *done = req ? !req->comm : left == 0;
    return MDS_OK;
}

enum mds_rc mds_comm_block(struct mds_comm *c, const struct mds_comm_req *req)
{
    double start = mds_clock_s(), heard = start, now = start;
    int done = 0, moved;

    for (;;) {
        enum mds_rc rc = look(c, req, &done, &moved);

        if (rc) {
            c->broken = rc;
            return rc;
        }
        now = mds_clock_s();
        if (done)
            break;
        if (moved)
            heard = now;
        else if (now - heard > timeout_s)
            return fail_silent(c, req ? c->first->slot : 0);
        else
            sched_yield(); /* laptops run more ranks than they have cores */
    }
    c->stats.wait_s += now - start;
    return MDS_OK;
}
