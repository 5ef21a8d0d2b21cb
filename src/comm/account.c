/* SPDX-License-Identifier: BSD-3-Clause */
/* What every call does first: check its arguments, count it, record its call site. */
#include "comm/internal.h"

#include "device/device.h"

static const char *site_file = "";
static int site_line;

void mds_comm_set_call_site(const char *file, int line)
{
    site_file = file;
    site_line = line;
}

const struct mds_comm_stats *mds_comm_stats(const struct mds_comm *c)
{
    return &c->stats;
}

static int64_t payload_bytes(const struct mds_comm_call *call)
{
    return call->count * (call->dtype < 0 ? 1 : (int64_t)mdsk_dtype_size(call->dtype));
}

/* Bytes sent per rank, the mean over the group.  Collectives exchange shards directly:
 * each rank sends all shards but its own (Thakur et al.).  A broadcast's tree has size
 * - 1 edges.  all_reduce_f64 sends all numbers to every rank. */
static int64_t wire_bytes(const struct mds_comm *c, const struct mds_comm_call *call)
{
    int64_t bytes = payload_bytes(call), others = c->peers.size - 1;

    switch (call->kind) {
    case MDS_COMM_ALL_REDUCE:
        return 2 * others * bytes / c->peers.size;
    case MDS_COMM_F64:
        return others * bytes;
    case MDS_COMM_BARRIER:
        return others * (int64_t)sizeof *c->f64;
    case MDS_COMM_SEND:
    case MDS_COMM_EXCHANGE:
        return bytes;
    case MDS_COMM_RECV:
        return 0;
    default:
        return others * bytes / c->peers.size;
    }
}

static void count_call(struct mds_comm *c, const struct mds_comm_call *call)
{
    struct mds_comm_count *n = &c->stats.of[call->kind];

    n->calls++;
    n->payload_bytes += payload_bytes(call);
    n->wire_bytes += call->wire_bytes;
    c->stats.calls++;
    c->stats.wire_bytes += call->wire_bytes;
}

int mds_comm_is_direct(const struct mds_comm *c, const void *p)
{
    return c->direct && mds_dev_owns(c->dev, p);
}

enum mds_rc mds_comm_begin_call(struct mds_comm *c, int ok, struct mds_comm_call *call)
{
    int message = call->kind == MDS_COMM_SEND || call->kind == MDS_COMM_RECV;

    call->file = site_file;
    call->line = site_line;
    if (!ok)
        return mds_fail(MDS_EBUG, "%s: %s at %s:%d: invalid arguments", c->peers.tag,
                        mds_comm_kind_name(call->kind), call->file, call->line);
    if (c->peers.broken)
        return mds_comm_fail_broken(c, call);
    if (c->peers.size == 1)
        return MDS_OK;
    call->wire_bytes = wire_bytes(c, call);
    count_call(c, call);
    call->number = message ? 0 : ++c->number;
    if (c->mpi)
        mds_watch_entered(c->peers.tag, call);
    return !message && c->mpi ? mds_comm_check(c, call) : MDS_OK;
}
