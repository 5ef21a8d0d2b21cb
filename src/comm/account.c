/* SPDX-License-Identifier: BSD-3-Clause */
/* The front of every call: checks, counts, and the call's place in the source. */
#include "comm/internal.h"

#include "device/profile.h"

static const char *site_file = "";
static int site_line;

void mds_comm_at(const char *file, int line)
{
    site_file = file;
    site_line = line;
}

const struct mds_comm_stats *mds_comm_stats(const struct mds_comm *c)
{
    return &c->stats;
}

/* Payload in bytes. */
static int64_t payload_bytes(const struct mds_comm_call *call)
{
    return call->count * (call->dtype < 0 ? 1 : (int64_t)mdsk_dtype_size(call->dtype));
}

/* Slices that are exchanged directly: each rank sends all but its own, Thakur et al.; a
 * tree's edges number one less than its ranks; small numbers go to everyone whole. */
static int64_t wire_bytes(const struct mds_comm *c, const struct mds_comm_call *call)
{
    int64_t bytes = payload_bytes(call), others = c->size - 1;

    switch (call->kind) {
    case MDS_COMM_ALL_REDUCE:
        return 2 * others * bytes / c->size;
    case MDS_COMM_F64:
        return others * bytes;
    case MDS_COMM_BARRIER:
        return others * (int64_t)sizeof *c->f64;
    case MDS_COMM_SEND:
        return bytes;
    case MDS_COMM_RECV:
        return 0;
    default:
        return others * bytes / c->size;
    }
}

/* ---- the profile ---- */

static struct mds_dev *profiled;

void mds_comm_set_profile(struct mds_dev *dev)
{
    profiled = dev;
}

void mds_comm_profile_wait(const struct mds_comm_call *call)
{
    mds_profile_begin(profiled, MDS_PROFILE_WAIT, (int)call->kind,
                      (struct mdsk_cost){0, 0}, NULL);
}

void mds_comm_profile_waited(void)
{
    mds_profile_end(profiled, MDS_PROFILE_WAIT, NULL);
}

void mds_comm_profile_move(const struct mds_comm *c, const struct mds_comm_call *call,
                           void *stream)
{
    mds_range_begin(mds_comm_kind_name(call->kind));
    mds_profile_begin(profiled, MDS_PROFILE_MOVE, (int)call->kind,
                      (struct mdsk_cost){0, (double)wire_bytes(c, call)}, stream);
}

void mds_comm_profile_moved(void *stream)
{
    mds_profile_end(profiled, MDS_PROFILE_MOVE, stream);
    mds_range_end();
}

static void charge(struct mds_comm *c, const struct mds_comm_call *call)
{
    struct mds_comm_count *n = &c->stats.of[call->kind];
    int64_t wire = wire_bytes(c, call);

    n->calls++;
    n->payload_bytes += payload_bytes(call);
    n->wire_bytes += wire;
    c->stats.calls++;
    c->stats.wire_bytes += wire;
}

enum mds_rc mds_comm_fail_broken(const struct mds_comm *c,
                                 const struct mds_comm_call *call)
{
    return mds_fail(c->broken, "%s: %s: an earlier call of this group failed", c->tag,
                    mds_comm_kind_name(call->kind));
}

enum mds_rc mds_comm_enter(struct mds_comm *c, int ok, struct mds_comm_call *call)
{
    int message = call->kind == MDS_COMM_SEND || call->kind == MDS_COMM_RECV;

    call->file = site_file;
    call->line = site_line;
    if (!ok)
        return mds_fail(MDS_EBUG, "%s: %s at %s:%d: wrong arguments", c->tag,
                        mds_comm_kind_name(call->kind), call->file, call->line);
    if (c->broken)
        return mds_comm_fail_broken(c, call);
    if (c->size == 1)
        return MDS_OK;
    charge(c, call);
    call->number = message ? 0 : ++c->number;
    if (c->ops)
        mds_watch_entered(c->tag, call);
    return !message && c->ops && mds_comm_checks() ? mds_comm_check(c, call) : MDS_OK;
}
