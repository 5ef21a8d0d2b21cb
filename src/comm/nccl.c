/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives of device memory by NCCL, each group on a stream of its own.
 *
 * A call is queued behind what is on the device's stream at that moment (an event), and
 * leaves an event that whoever waits for it makes the device's stream wait for.  A
 * group's events stand in a ring: a ticket counts them.  One that was used again since
 * is of a later call on the same stream: to wait for that is more than asked for, and
 * right. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "comm/internal.h"
#include "device/device.h"

#ifdef HAVE_NCCL

#include "base/alloc.h"
#include "base/clock.h"
#include "comm/nccl_line.h"

#include <stdlib.h>
#include <string.h>

static const struct mds_nccl *const nccl = &mds_nccl;

enum { LANES = 4 };

enum { TURNS = 3 };

/* Messages under a tag: to the rank `step` further on, and from the one before.  Pairs
 * of ranks are connected in turns, and parted in the same: both need the two at once,
 * and those of one turn have no rank in common, so that all get on. */
struct lane {
    int tag, step;
    int out_turn, in_turn;
    struct mds_nccl_line out, in;
};

struct own {
    struct mds_nccl_line all; /* the whole group's, once it is asked for */
    struct lane lane[LANES];
    int lanes;
};

/* ---- collectives ---- */

static ncclDataType_t type_of(int dtype)
{
    if (dtype == MDSK_F32)
        return ncclFloat32;
    return dtype == MDSK_BF16 ? ncclBfloat16 : ncclFloat16;
}

/* Elements of rank p's slice: the last ones may be shorter, or empty. */
static size_t slice(const struct mds_comm_req *r, int p)
{
    int64_t left = r->count - p * r->chunk;

    return (size_t)(left < 0 ? 0 : left < r->chunk ? left : r->chunk);
}

static int is_even(const struct mds_comm *c, const struct mds_comm_req *r)
{
    return r->count == c->size * r->chunk;
}

/* Slices of different lengths go one by one, in one launch. */
static ncclResult_t reduce_slices(struct mds_comm *c, const struct mds_comm_req *r)
{
    const struct mds_nccl_line *l = &((struct own *)c->own)->all;
    ncclDataType_t type = type_of(r->call.dtype);
    ncclResult_t code;

    if (is_even(c, r))
        return nccl->ncclReduceScatter(r->in, r->sum, (size_t)r->chunk, type, ncclSum,
                                       l->comm, l->stream);
    code = nccl->ncclGroupStart();
    for (int p = 0; code == ncclSuccess && p < c->size; p++)
        if (slice(r, p) > 0)
            code = nccl->ncclReduce(r->in + p * r->chunk * r->elem_bytes, r->sum,
                                    slice(r, p), type, ncclSum, p, l->comm, l->stream);
    return code == ncclSuccess ? nccl->ncclGroupEnd() : code;
}

static ncclResult_t gather_slices(struct mds_comm *c, const struct mds_comm_req *r)
{
    const struct mds_nccl_line *l = &((struct own *)c->own)->all;
    size_t e = (size_t)r->elem_bytes;
    int64_t chunk_bytes = r->chunk * r->elem_bytes;
    ncclResult_t code;

    if (is_even(c, r))
        return nccl->ncclAllGather(r->in ? r->in : r->out + c->rank * chunk_bytes,
                                   r->out, (size_t)chunk_bytes, ncclInt8, l->comm,
                                   l->stream);
    code = nccl->ncclGroupStart();
    for (int p = 0; code == ncclSuccess && p < c->size; p++) {
        char *at = r->out + p * chunk_bytes;

        if (slice(r, p) > 0)
            code = nccl->ncclBroadcast(at, at, slice(r, p) * e, ncclInt8, p, l->comm,
                                       l->stream);
    }
    return code == ncclSuccess ? nccl->ncclGroupEnd() : code;
}

/* NCCL before 2.28 has no such call; this is what it would do. */
static ncclResult_t scatter_slices(struct mds_comm *c, const struct mds_comm_req *r)
{
    const struct mds_nccl_line *l = &((struct own *)c->own)->all;
    ncclResult_t code = nccl->ncclGroupStart();

    for (int p = 0; code == ncclSuccess && p < c->size; p++) {
        code = nccl->ncclSend(r->in + p * r->chunk, (size_t)r->chunk, ncclInt8, p,
                              l->comm, l->stream);
        if (code == ncclSuccess)
            code = nccl->ncclRecv(r->out + p * r->chunk, (size_t)r->chunk, ncclInt8, p,
                                  l->comm, l->stream);
    }
    return code == ncclSuccess ? nccl->ncclGroupEnd() : code;
}

static ncclResult_t queue(struct mds_comm *c, const struct mds_comm_req *r)
{
    const struct mds_nccl_line *l = &((struct own *)c->own)->all;

    switch (r->stages) {
    case MDS_COMM_REDUCING | MDS_COMM_GATHERING:
        return nccl->ncclAllReduce(r->in, r->out, (size_t)r->count,
                                   type_of(r->call.dtype), ncclSum, l->comm, l->stream);
    case MDS_COMM_REDUCING:
        return reduce_slices(c, r);
    case MDS_COMM_GATHERING:
        return gather_slices(c, r);
    default:
        return scatter_slices(c, r);
    }
}

/* What comes next on it is behind what is on the device's stream. */
static enum mds_rc all_ready(struct mds_comm *c, const struct mds_comm_call *call)
{
    if (!c->collects)
        return mds_fail(MDS_EBUG, "%s: no collectives of device memory", c->tag);
    return mds_nccl_line_ready(c, &((struct own *)c->own)->all, call);
}

static enum mds_rc nccl_collect(struct mds_comm *c, const struct mds_comm_req *r,
                                int64_t *ticket)
{
    struct mds_nccl_line *l = &((struct own *)c->own)->all;

    MDS_TRY(all_ready(c, &r->call));
    return mds_nccl_line_mark(c, l, &r->call, queue(c, r), ticket);
}

static enum mds_rc nccl_wait(struct mds_comm *c, int64_t ticket)
{
    return mds_nccl_line_wait(c, &((struct own *)c->own)->all, ticket);
}

static enum mds_rc nccl_test(struct mds_comm *c, int64_t ticket, int *done)
{
    *done = mds_nccl_line_test(&((struct own *)c->own)->all, ticket);
    return MDS_OK;
}

static enum mds_rc nccl_broadcast(struct mds_comm *c, void *buf, int64_t bytes,
                                  int root)
{
    struct mds_nccl_line *l = &((struct own *)c->own)->all;
    int64_t ticket;
    ncclResult_t code;

    MDS_TRY(all_ready(c, &c->call));
    code = nccl->ncclBroadcast(buf, buf, (size_t)bytes, ncclInt8, root, l->comm,
                               l->stream);
    MDS_TRY(mds_nccl_line_mark(c, l, &c->call, code, &ticket));
    return mds_nccl_line_wait(c, l, ticket);
}

/* The first rank names the communicator; MPI carries the name, which is no call of the
 * program's. */
static enum mds_rc nccl_add_collectives(struct mds_comm *c)
{
    struct mds_comm_stats before = c->stats;
    ncclUniqueId id;
    enum mds_rc rc;

    memset(&id, 0, sizeof id);
    if (c->rank == 0)
        MDS_TRY(mds_nccl_check(c, "ncclGetUniqueId", NULL, nccl->ncclGetUniqueId(&id)));
    mds_comm_at(__FILE__, __LINE__);
    MDS_TRY(mds_comm_broadcast(c, &id, sizeof id, 0));
    c->stats = before;
    mds_nccl_limit_start(c, &c->call);
    rc = mds_nccl_line_open(c, &((struct own *)c->own)->all, &id, c->size, c->rank, 0);
    mds_nccl_limit_stop();
    return rc;
}

/* ---- messages ---- */

/* The line to or from a peer under a tag, or NULL. */
static struct mds_nccl_line *find_line(const struct mds_comm *c,
                                       const struct mds_comm_call *m)
{
    struct own *own = c->own;
    int sends = m->kind == MDS_COMM_SEND;

    for (int i = 0; i < own->lanes; i++) {
        struct lane *n = &own->lane[i];
        int to = sends ? n->step : -n->step;

        if (n->tag == m->tag && (c->rank + to + c->size) % c->size == m->peer)
            return sends ? &n->out : &n->in;
    }
    return NULL;
}

/* Of the two ranks of a line the sender is 0. */
static enum mds_rc nccl_start_message(struct mds_comm *c, struct mds_comm_p2p *m)
{
    struct mds_nccl_line *l = find_line(c, &m->call);
    size_t bytes = (size_t)m->bytes;
    ncclResult_t code;

    if (!l)
        return mds_fail(MDS_EBUG, "%s: no lane for device memory to rank %d, tag %d",
                        c->tag, m->call.peer, m->call.tag);
    MDS_TRY(mds_nccl_line_ready(c, l, &m->call));
    if (m->call.kind == MDS_COMM_SEND)
        code = nccl->ncclSend(m->buf, bytes, ncclInt8, 1, l->comm, l->stream);
    else
        code = nccl->ncclRecv(m->buf, bytes, ncclInt8, 0, l->comm, l->stream);
    return mds_nccl_line_mark(c, l, &m->call, code, &m->ticket);
}

static enum mds_rc nccl_wait_message(struct mds_comm *c, const struct mds_comm_p2p *m)
{
    return mds_nccl_line_wait(c, find_line(c, &m->call), m->ticket);
}

/* The first message of a pair is where NCCL connects it, and that keeps the host until
 * the peer comes: it is made here, where both are, and not where each may send first.
 * It is a whole number of words, as NCCL reads no less (memcheck says so).
 */
static enum mds_rc exchange_first(const struct mds_comm *c, struct mds_nccl_line *l,
                                  int sends)
{
    const size_t bytes = 16;
    void *words = NULL;
    enum mds_rc rc = mds_nccl_check_cuda(c, "cudaMalloc", cudaMalloc(&words, bytes));

    if (!rc && sends)
        rc = mds_nccl_check(
            c, "a first send", l->comm,
            nccl->ncclSend(words, bytes, ncclInt8, 1, l->comm, l->stream));
    else if (!rc)
        rc = mds_nccl_check(
            c, "a first recv", l->comm,
            nccl->ncclRecv(words, bytes, ncclInt8, 0, l->comm, l->stream));
    if (!rc)
        rc =
            mds_nccl_check_cuda(c, "a first message", cudaStreamSynchronize(l->stream));
    cudaFree(words);
    return rc;
}

/* One line between this rank and a peer; whoever sends makes its name. */
static enum mds_rc connect_pair(struct mds_comm *c, struct mds_nccl_line *l, int peer,
                                int sends)
{
    const struct mds_comm_call call = {.kind = sends ? MDS_COMM_SEND : MDS_COMM_RECV,
                                       .dtype = -1,
                                       .op = -1,
                                       .peer = peer,
                                       .file = "src/comm/nccl.c",
                                       .count = sizeof(ncclUniqueId)};
    ncclUniqueId id;
    enum mds_rc rc;

    memset(&id, 0, sizeof id);
    if (sends) {
        MDS_TRY(mds_nccl_check(c, "ncclGetUniqueId", NULL, nccl->ncclGetUniqueId(&id)));
        MDS_TRY(c->ops->send(c, 0, 0, peer, &id, sizeof id));
    } else {
        MDS_TRY(c->ops->recv(c, 0, 0, peer, &id, sizeof id));
    }
    MDS_TRY(mds_comm_block(c, &call, NULL));
    mds_nccl_limit_start(c, &call);
    rc = mds_nccl_line_open(c, l, &id, 2, sends ? 0 : 1, MDS_NCCL_LANE_CTAS);
    if (!rc)
        rc = exchange_first(c, l, sends);
    mds_nccl_limit_stop();
    return rc;
}

/* Whose turn it is when: the pair of ranks (e, e + 1). */
static int turn_of(const struct mds_comm *c, int e)
{
    return e == c->size - 1 && c->size % 2 ? 2 : e % 2;
}

static enum mds_rc nccl_add_lane(struct mds_comm *c, int tag, int step)
{
    struct own *own = c->own;
    struct lane *n = &own->lane[own->lanes];
    int to = (c->rank + step + c->size) % c->size;
    int from = (c->rank - step + c->size) % c->size;

    if (own->lanes == LANES || (step != 1 && step != -1))
        return mds_fail(MDS_EBUG, "%s: lane %d, tag %d, step %d", c->tag, own->lanes,
                        tag, step);
    *n = (struct lane){.tag = tag,
                       .step = step,
                       .out_turn = turn_of(c, step > 0 ? c->rank : to),
                       .in_turn = turn_of(c, step > 0 ? from : c->rank)};
    own->lanes++; /* whatever comes: close finds what was made */
    for (int turn = 0; turn < TURNS; turn++) {
        if (turn == n->out_turn)
            MDS_TRY(connect_pair(c, &n->out, to, 1));
        if (turn == n->in_turn)
            MDS_TRY(connect_pair(c, &n->in, from, 0));
    }
    return MDS_OK;
}

/* ---- looking after the device ---- */

static struct mds_nccl_line *line_of(struct own *own, int i)
{
    struct lane *n = &own->lane[(i - 1) / 2];

    if (i == 0)
        return &own->all;
    return (i - 1) % 2 ? &n->in : &n->out;
}

static int lines_of(const struct own *own)
{
    return 1 + 2 * own->lanes;
}

/* Everything that might keep the device waiting is ended. */
static void abort_all(void)
{
    mds_watchdog_start(MDS_WATCHDOG_LINE("ncclCommAbort"), 0);
    for (struct mds_comm *c = mds_comm_live(); c; c = c->next) {
        struct own *own = c->own;

        for (int i = 0; c->direct && i < lines_of(own); i++) {
            struct mds_nccl_line *l = line_of(own, i);

            if (l->comm)
                nccl->ncclCommAbort(l->comm);
            l->comm = NULL;
        }
        if (c->direct && !c->broken)
            c->broken = MDS_ECOMM;
    }
    mds_watchdog_stop();
}

/* What NCCL found out by itself. */
static enum mds_rc check_line(const struct mds_comm *c, const struct mds_nccl_line *l)
{
    ncclResult_t state = ncclSuccess;

    if (!l->comm)
        return MDS_OK;
    MDS_TRY(mds_nccl_check(c, "ncclCommGetAsyncError", l->comm,
                           nccl->ncclCommGetAsyncError(l->comm, &state)));
    return state == ncclInProgress
               ? MDS_OK
               : mds_nccl_check(c, "a call under way", l->comm, state);
}

/* One look at all lines: how many calls are over in all; and the first that is not. */
static enum mds_rc look_at_all(int64_t *over, struct mds_comm **group,
                               const struct mds_comm_call **call)
{
    *over = 0;
    for (struct mds_comm *c = mds_comm_live(); c; c = c->next)
        for (int i = 0; c->direct && i < lines_of(c->own); i++) {
            struct mds_nccl_line *l = line_of(c->own, i);

            MDS_TRY(check_line(c, l));
            mds_nccl_line_look(l);
            *over += l->over_up_to;
            if (!*group && l->over_up_to < l->queued) {
                *group = c;
                *call = &l->call[(l->over_up_to + 1) % MDS_NCCL_EVENTS];
            }
        }
    return MDS_OK;
}

/* Whether to wait on for a call of the group's. */
static enum mds_rc go_on(struct mds_comm *c, const struct mds_comm_call *call,
                         double silent_s)
{
    int peer = call->peer >= 0 ? call->peer : (c->rank + 1) % c->size;
    enum mds_rc rc;

    mds_watch_begin(c->tag, call);
    rc = mds_silence_go_on(c->tag, c->world_ranks[peer], silent_s);
    mds_watch_end();
    return rc;
}

/* While nobody waits nothing is looked at: that silence does not count. */
static enum mds_rc watch(void)
{
    static int64_t last_over = -1;
    static double since, last_look;
    const double pause_s = 1;
    const struct mds_comm_call *call = NULL;
    struct mds_comm *c = NULL;
    double now = mds_clock_s();
    int64_t over = 0;
    enum mds_rc rc;

    mds_silence_listen();
    rc = look_at_all(&over, &c, &call);
    if (over != last_over || !c || now - last_look > pause_s)
        since = now;
    last_over = over;
    last_look = now;
    if (!rc && c)
        rc = go_on(c, call, now - since);
    if (rc)
        abort_all();
    return rc;
}

/* ---- life ---- */

static void nccl_close(struct mds_comm *c)
{
    struct own *own = c->own;
    int broken = c->broken != MDS_OK;

    mds_watchdog_start(MDS_WATCHDOG_LINE("closing a group of NCCL's"), c->rank > 0);
    for (int i = 0; i < own->lanes; i++)
        for (int turn = 0; turn < TURNS; turn++) {
            if (turn == own->lane[i].out_turn)
                mds_nccl_line_close(&own->lane[i].out, broken);
            if (turn == own->lane[i].in_turn)
                mds_nccl_line_close(&own->lane[i].in, broken);
        }
    mds_nccl_line_close(&own->all, broken);
    mds_watchdog_stop();
    free(own);
}

static const struct mds_comm_direct direct = {
    .collect = nccl_collect,
    .broadcast = nccl_broadcast,
    .wait = nccl_wait,
    .test = nccl_test,
    .start_message = nccl_start_message,
    .wait_message = nccl_wait_message,
    .add_collectives = nccl_add_collectives,
    .add_lane = nccl_add_lane,
    .close = nccl_close,
};

enum mds_rc mds_comm_create_nccl(const int *ranks, int n, const char *tag,
                                 struct mds_dev *dev, struct mds_comm **out)
{
    struct mds_comm *c = NULL;

    /* NVLink's multicast needs more of a node than many sites allow. */
    setenv("NCCL_NVLS_ENABLE", "0", 0);
    if (n > 1)
        MDS_TRY(mds_nccl_open());
    MDS_TRY(mds_comm_create_mpi(ranks, n, tag, &c));
    c->dev = dev;
    if (n > 1) {
        c->own = mds_zalloc(1, sizeof(struct own));
        if (!c->own) {
            mds_comm_destroy(c);
            return MDS_EMEM;
        }
        c->direct = &direct;
        mds_dev_set_watch(dev, watch);
    }
    *out = c;
    return MDS_OK;
}

#else

enum mds_rc mds_comm_create_nccl(const int *ranks, int n, const char *tag,
                                 struct mds_dev *dev, struct mds_comm **out)
{
    if (n > 1)
        return mds_fail(MDS_ENOSUP,
                        "%s: this build has no NCCL (configure --with-nccl): "
                        "use one GPU, or --device cpu",
                        tag);
    MDS_TRY(mds_comm_create_mpi(ranks, n, tag, out));
    (*out)->dev = dev;
    return MDS_OK;
}

#endif
