/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives and messages in device memory by NCCL.  Each communicator has a stream.
 *
 * A call waits, by an event, for what is on the device's stream when it is queued, and
 * records an event when it is complete.  Waiting for a call makes the device's stream
 * wait for that event.  Call number t of a stream uses event t % MDS_NCCL_EVENTS.  If a
 * later call has reused it, the device waits for that call, which implies the earlier
 * one. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "transport/transport.h"

#ifdef HAVE_NCCL

#include "base/alloc.h"
#include "base/clock.h"
#include "device/device.h"
#include "transport/nccl_stream.h"

#include <stdlib.h>
#include <string.h>

static const struct mds_nccl *const nccl = &mds_nccl;

enum { STREAMS = 9 }; /* the group's, and for four lanes one out and one in each */

/* stream[0] is for collectives of the whole group; it is opened by join.  The others
 * carry messages in one direction, in the order of join_pair. */
struct group {
    struct mds_direct base;
    struct group *next; /* in the list of all groups */
    struct mds_nccl_stream stream[STREAMS];
    struct mds_comm_call pair[STREAMS]; /* kind, peer and tag of a stream's messages */
    int streams;
};

static struct group *groups;

/* The ticket of a call: its number on its stream, and which stream. */
static int64_t ticket_of(int64_t number, int stream)
{
    return number * STREAMS + stream;
}

static struct mds_nccl_stream *stream_of(struct mds_direct *d, int64_t ticket)
{
    return &((struct group *)d)->stream[ticket % STREAMS];
}

/* ---- collectives ---- */

static ncclDataType_t type_of(int dtype)
{
    if (dtype == MDSK_F32)
        return ncclFloat32;
    return dtype == MDSK_BF16 ? ncclBfloat16 : ncclFloat16;
}

/* Elements of rank p's shard.  The last shards may be shorter, or empty. */
static size_t shard_elements(const struct mds_collective *s, int p)
{
    int64_t left = s->count - p * s->shard;

    return (size_t)(left < 0 ? 0 : left < s->shard ? left : s->shard);
}

static int is_even(const struct mds_direct *d, const struct mds_collective *s)
{
    return s->count == d->peers->size * s->shard;
}

/* Shards of different lengths are reduced one by one, in one launch. */
static ncclResult_t reduce_shards(const struct mds_direct *d,
                                  const struct mds_collective *s,
                                  const struct mds_nccl_stream *st)
{
    ncclDataType_t type = type_of(s->call->dtype);
    ncclResult_t code;

    if (is_even(d, s))
        return nccl->ncclReduceScatter(s->in, s->sum, (size_t)s->shard, type, ncclSum,
                                       st->comm, st->stream);
    code = nccl->ncclGroupStart();
    for (int p = 0; code == ncclSuccess && p < d->peers->size; p++)
        if (shard_elements(s, p) > 0)
            code = nccl->ncclReduce(s->in + p * s->shard * s->elem_bytes, s->sum,
                                    shard_elements(s, p), type, ncclSum, p, st->comm,
                                    st->stream);
    return code == ncclSuccess ? nccl->ncclGroupEnd() : code;
}

static ncclResult_t gather_shards(const struct mds_direct *d,
                                  const struct mds_collective *s,
                                  const struct mds_nccl_stream *st)
{
    size_t e = (size_t)s->elem_bytes;
    int64_t shard_bytes = s->shard * s->elem_bytes;
    ncclResult_t code;

    if (is_even(d, s))
        return nccl->ncclAllGather(
            s->in ? s->in : s->out + d->peers->rank * shard_bytes, s->out,
            (size_t)shard_bytes, ncclInt8, st->comm, st->stream);
    code = nccl->ncclGroupStart();
    for (int p = 0; code == ncclSuccess && p < d->peers->size; p++) {
        char *at = s->out + p * shard_bytes;

        if (shard_elements(s, p) > 0)
            code = nccl->ncclBroadcast(at, at, shard_elements(s, p) * e, ncclInt8, p,
                                       st->comm, st->stream);
    }
    return code == ncclSuccess ? nccl->ncclGroupEnd() : code;
}

/* ncclAlltoAll exists from NCCL 2.28 on; it does the same. */
static ncclResult_t scatter_shards(const struct mds_direct *d,
                                   const struct mds_collective *s,
                                   const struct mds_nccl_stream *st)
{
    ncclResult_t code = nccl->ncclGroupStart();

    for (int p = 0; code == ncclSuccess && p < d->peers->size; p++) {
        code = nccl->ncclSend(s->in + p * s->shard, (size_t)s->shard, ncclInt8, p,
                              st->comm, st->stream);
        if (code == ncclSuccess)
            code = nccl->ncclRecv(s->out + p * s->shard, (size_t)s->shard, ncclInt8, p,
                                  st->comm, st->stream);
    }
    return code == ncclSuccess ? nccl->ncclGroupEnd() : code;
}

static ncclResult_t queue_collective(const struct mds_direct *d,
                                     const struct mds_collective *s,
                                     const struct mds_nccl_stream *st)
{
    switch (s->stages) {
    case MDS_COMM_REDUCING | MDS_COMM_GATHERING:
        return nccl->ncclAllReduce(s->in, s->out, (size_t)s->count,
                                   type_of(s->call->dtype), ncclSum, st->comm,
                                   st->stream);
    case MDS_COMM_REDUCING:
        return reduce_shards(d, s, st);
    case MDS_COMM_GATHERING:
        return gather_shards(d, s, st);
    default:
        return scatter_shards(d, s, st);
    }
}

/* Make the next collective wait for what is on the device's stream. */
static enum mds_rc begin_collective(struct mds_direct *d,
                                    const struct mds_comm_call *call)
{
    struct mds_nccl_stream *st = stream_of(d, 0);

    if (!st->comm)
        return mds_fail(MDS_EBUG, "%s: collective before mds_comm_add_collectives",
                        d->peers->tag);
    return mds_nccl_stream_begin_call(d, st, call);
}

static enum mds_rc end_call(struct mds_direct *d, int stream,
                            const struct mds_comm_call *call, ncclResult_t code,
                            int64_t *ticket)
{
    struct mds_nccl_stream *st = stream_of(d, stream);

    MDS_TRY(mds_nccl_stream_end_call(d, st, call, code));
    *ticket = ticket_of(st->queued, stream);
    return MDS_OK;
}

static enum mds_rc nccl_collect(struct mds_direct *d, const struct mds_collective *s,
                                int64_t *ticket)
{
    MDS_TRY(begin_collective(d, s->call));
    return end_call(d, 0, s->call, queue_collective(d, s, stream_of(d, 0)), ticket);
}

static enum mds_rc nccl_broadcast(struct mds_direct *d,
                                  const struct mds_comm_call *call, void *buf,
                                  int64_t *ticket)
{
    const struct mds_nccl_stream *st = stream_of(d, 0);

    MDS_TRY(begin_collective(d, call));
    return end_call(d, 0, call,
                    nccl->ncclBroadcast(buf, buf, (size_t)call->count, ncclInt8,
                                        call->peer, st->comm, st->stream),
                    ticket);
}

static ncclResult_t queue_exchange(const struct mds_direct *d, int n, const char *in,
                                   const struct mds_comm_block *send, char *out,
                                   const struct mds_comm_block *recv)
{
    const struct mds_nccl_stream *st = &((const struct group *)d)->stream[0];
    ncclResult_t code = nccl->ncclGroupStart();

    for (int i = 0; code == ncclSuccess && i < n * d->peers->size; i++) {
        int p = i % d->peers->size;

        if (p != d->peers->rank && send[i].bytes > 0)
            code = nccl->ncclSend(in + send[i].at, (size_t)send[i].bytes, ncclInt8, p,
                                  st->comm, st->stream);
        if (p != d->peers->rank && recv[i].bytes > 0 && code == ncclSuccess)
            code = nccl->ncclRecv(out + recv[i].at, (size_t)recv[i].bytes, ncclInt8, p,
                                  st->comm, st->stream);
    }
    return code == ncclSuccess ? nccl->ncclGroupEnd() : code;
}

static enum mds_rc nccl_exchange(struct mds_direct *d, const struct mds_comm_call *call,
                                 int n, const char *in,
                                 const struct mds_comm_block *send, char *out,
                                 const struct mds_comm_block *recv, int64_t *ticket)
{
    MDS_TRY(begin_collective(d, call));
    return end_call(d, 0, call, queue_exchange(d, n, in, send, out, recv), ticket);
}

/* ---- messages ---- */

/* Of the two ranks of a communicator for messages, the sender is rank 0. */
static ncclResult_t queue_message(const struct mds_nccl_stream *st, int sends,
                                  void *buf, size_t bytes)
{
    return sends ? nccl->ncclSend(buf, bytes, ncclInt8, 1, st->comm, st->stream)
                 : nccl->ncclRecv(buf, bytes, ncclInt8, 0, st->comm, st->stream);
}

static enum mds_rc nccl_message(struct mds_direct *d, const struct mds_comm_call *call,
                                void *buf, int64_t *ticket)
{
    struct group *g = (struct group *)d;
    int at = 1;

    while (at < g->streams &&
           (g->pair[at].kind != call->kind || g->pair[at].peer != call->peer ||
            g->pair[at].tag != call->tag))
        at++;
    if (at >= g->streams)
        return mds_fail(MDS_EBUG,
                        "%s: message with rank %d, tag %d, before mds_comm_add_lane",
                        d->peers->tag, call->peer, call->tag);
    MDS_TRY(mds_nccl_stream_begin_call(d, &g->stream[at], call));
    return end_call(d, at, call,
                    queue_message(&g->stream[at], call->kind == MDS_COMM_SEND, buf,
                                  (size_t)call->count),
                    ticket);
}

static enum mds_rc nccl_wait(struct mds_direct *d, int64_t ticket)
{
    return mds_nccl_stream_wait_call(d, stream_of(d, ticket), ticket / STREAMS);
}

static int nccl_test(struct mds_direct *d, int64_t ticket)
{
    return mds_nccl_stream_test_call(stream_of(d, ticket), ticket / STREAMS);
}

/* ---- joining ---- */

_Static_assert(sizeof(ncclUniqueId) == sizeof(struct mds_direct_id),
               "the size of NCCL's id");

static enum mds_rc nccl_name(struct mds_direct *d, struct mds_direct_id *id)
{
    return mds_nccl_check(d, "ncclGetUniqueId", NULL,
                          nccl->ncclGetUniqueId((ncclUniqueId *)id));
}

static enum mds_rc nccl_join(struct mds_direct *d, const struct mds_direct_id *id,
                             const struct mds_comm_call *call)
{
    enum mds_rc rc;

    mds_nccl_limit_start(d, call);
    rc = mds_nccl_stream_open(d, stream_of(d, 0), (const ncclUniqueId *)id,
                              d->peers->size, d->peers->rank, d->channels);
    mds_nccl_limit_stop();
    return rc;
}

/* Send a first message.  NCCL connects a pair of ranks at its first message, and blocks
 * the host until the peer calls it, too.  Here both ranks do; later each might send to
 * the other first, and both would hang.  16 bytes, as NCCL reads whole words (memcheck
 * reports less). */
static enum mds_rc connect_pair(const struct mds_direct *d,
                                const struct mds_nccl_stream *st, int sends)
{
    const size_t bytes = 16;
    void *words = NULL;
    enum mds_rc rc = mds_nccl_check_cuda(d, "cudaMalloc", cudaMalloc(&words, bytes));

    if (!rc)
        rc = mds_nccl_check(d, sends ? "first ncclSend" : "first ncclRecv", st->comm,
                            queue_message(st, sends, words, bytes));
    if (!rc)
        rc = mds_nccl_check_cuda(d, "first message", cudaStreamSynchronize(st->stream));
    cudaFree(words);
    return rc;
}

static enum mds_rc nccl_join_pair(struct mds_direct *d, const struct mds_direct_id *id,
                                  const struct mds_comm_call *call)
{
    struct group *g = (struct group *)d;
    struct mds_nccl_stream *st = &g->stream[g->streams];
    int sends = call->kind == MDS_COMM_SEND;
    enum mds_rc rc;

    if (g->streams == STREAMS)
        return mds_fail(MDS_EBUG, "%s: more than %d communicators for messages, tag %d",
                        d->peers->tag, STREAMS - 1, call->tag);
    g->pair[g->streams++] = *call; /* also after a failure: close frees it */
    mds_nccl_limit_start(d, call);
    rc = mds_nccl_stream_open(d, st, (const ncclUniqueId *)id, 2, sends ? 0 : 1,
                              MDS_NCCL_LANE_CTAS);
    if (!rc)
        rc = connect_pair(d, st, sends);
    mds_nccl_limit_stop();
    return rc;
}

/* ---- the watch: called while the host waits for the device ---- */

/* Abort all communicators, so that the device waits for no peer any more. */
static void abort_communicators(void)
{
    mds_watchdog_start(MDS_WATCHDOG_LINE("ncclCommAbort"), 0);
    for (struct group *g = groups; g; g = g->next) {
        for (int i = 0; i < g->streams; i++) {
            if (g->stream[i].comm)
                nccl->ncclCommAbort(g->stream[i].comm);
            g->stream[i].comm = NULL;
        }
        if (!g->base.peers->broken)
            g->base.peers->broken = MDS_ECOMM;
    }
    mds_watchdog_stop();
}

/* Report an asynchronous error of NCCL. */
static enum mds_rc check_stream(const struct mds_direct *d,
                                const struct mds_nccl_stream *st)
{
    ncclResult_t state = ncclSuccess;

    if (!st->comm)
        return MDS_OK;
    MDS_TRY(mds_nccl_check(d, "ncclCommGetAsyncError", st->comm,
                           nccl->ncclCommGetAsyncError(st->comm, &state)));
    return state == ncclInProgress
               ? MDS_OK
               : mds_nccl_check(d, "asynchronous error", st->comm, state);
}

/* Poll all streams: the number of completed calls, and the first call that is not
 * complete. */
static enum mds_rc poll_streams(int64_t *over, const struct mds_direct **group,
                                const struct mds_comm_call **call)
{
    *over = 0;
    for (struct group *g = groups; g; g = g->next)
        for (int i = 0; i < g->streams; i++) {
            struct mds_nccl_stream *st = &g->stream[i];

            MDS_TRY(check_stream(&g->base, st));
            mds_nccl_stream_update(st);
            *over += st->completed;
            if (!*group && st->completed < st->queued) {
                *group = &g->base;
                *call = &st->call[(st->completed + 1) % MDS_NCCL_EVENTS];
            }
        }
    return MDS_OK;
}

/* MDS_OK: go on waiting for a call of the group. */
static enum mds_rc check_silence(const struct mds_peers *us,
                                 const struct mds_comm_call *call, double silent_s)
{
    int peer = call->peer >= 0 ? call->peer : (us->rank + 1) % us->size;
    enum mds_rc rc;

    mds_watch_begin(us->tag, call);
    rc = mds_peer_timeout_check(us->tag, us->world[peer], silent_s);
    mds_watch_end();
    return rc;
}

/* Time in which the host does not wait, and nobody polls, does not count as silence. */
static enum mds_rc watch_streams(void)
{
    static int64_t last_over = -1;
    static double since, last_look;
    const double pause_s = 1;
    const struct mds_comm_call *call = NULL;
    const struct mds_direct *d = NULL;
    double now = mds_clock_s();
    int64_t over = 0;
    enum mds_rc rc;

    mds_peer_timeout_listen();
    rc = poll_streams(&over, &d, &call);
    if (over != last_over || !d || now - last_look > pause_s)
        since = now;
    last_over = over;
    last_look = now;
    if (!rc && d)
        rc = check_silence(d->peers, call, now - since);
    if (rc)
        abort_communicators();
    return rc;
}

/* ---- opening and closing ---- */

/* Pairs in the order in which they were joined: closing needs both ranks of a pair, and
 * this order cannot deadlock (join_turn in comm/comm.c). */
static void nccl_close(struct mds_direct *d)
{
    struct group *g = (struct group *)d, **p = &groups;
    int broken = d->peers->broken != MDS_OK;

    while (*p != g)
        p = &(*p)->next;
    *p = g->next;
    mds_watchdog_start(MDS_WATCHDOG_LINE("ncclCommDestroy"), d->peers->rank > 0);
    for (int i = 1; i < g->streams; i++)
        mds_nccl_stream_close(&g->stream[i], broken);
    mds_nccl_stream_close(&g->stream[0], broken);
    mds_watchdog_stop();
    free(g);
}

static const struct mds_direct_ops ops = {
    .name = nccl_name,
    .join = nccl_join,
    .join_pair = nccl_join_pair,
    .collect = nccl_collect,
    .broadcast = nccl_broadcast,
    .exchange = nccl_exchange,
    .message = nccl_message,
    .wait = nccl_wait,
    .test = nccl_test,
    .close = nccl_close,
};

enum mds_rc mds_direct_open(struct mds_peers *peers, struct mds_dev *dev,
                            struct mds_direct **out)
{
    struct group *g, **last = &groups;

    /* NVLink multicast needs services on the node that many sites do not run. */
    setenv("NCCL_NVLS_ENABLE", "0", 0);
    MDS_TRY(mds_nccl_open());
    g = mds_zalloc(1, sizeof *g);
    if (!g)
        return MDS_EMEM;
    g->base = (struct mds_direct){.ops = &ops, .peers = peers, .dev = dev};
    g->streams = 1;
    while (*last)
        last = &(*last)->next;
    *last = g;
    mds_dev_set_watch(dev, watch_streams);
    *out = &g->base;
    return MDS_OK;
}

#else

enum mds_rc mds_direct_open(struct mds_peers *peers, struct mds_dev *dev,
                            struct mds_direct **out)
{
    (void)dev, (void)out;
    return mds_fail(MDS_ENOSUP,
                    "%s: this build has no NCCL (configure --with-nccl): use one GPU, "
                    "or --device cpu",
                    peers->tag);
}

#endif
