/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocking collectives, whose messages use slot 0. */
#include "base/minmax.h"
#include "comm/internal.h"

#include <stddef.h>
#include <string.h>

enum { SLOT = 0, TAG = 0 };

/* Begin a collective that is complete before its function returns. */
static enum mds_rc begin_blocking(struct mds_comm *c, int ok,
                                  const struct mds_comm_call *call)
{
    c->call = *call;
    return mds_comm_begin_call(c, ok, &c->call);
}

static enum mds_rc wait_blocking(struct mds_comm *c)
{
    return mds_comm_block(c, &c->call, NULL);
}

static enum mds_rc end_blocking(struct mds_comm *c)
{
    struct mds_comm_flight f;

    if (c->rates) {
        mds_comm_clock_start(c, &c->call, &f);
        mds_comm_clock_wait(c, &f);
    }
    if (c->mpi)
        mds_watch_done(c->peers.tag, &c->call);
    return MDS_OK;
}

/* All-gather n doubles of each rank: row i of c->f64 [size, n] becomes those of rank
 * (rank + i) % size.  The caller has filled row 0.  Each step doubles the rows held.
 * Source: Bruck, Ho, Kipnis, Upfal, Weathersby 1997, doi:10.1109/71.642949. */
static enum mds_rc all_gather_f64(struct mds_comm *c, int n)
{
    for (int held = 1; held < c->peers.size; held *= 2) {
        int rows = held < c->peers.size - held ? held : c->peers.size - held;
        int64_t bytes = (int64_t)rows * n * (int64_t)sizeof *c->f64;
        int from = (c->peers.rank + held) % c->peers.size;
        int to = (c->peers.rank + c->peers.size - held) % c->peers.size;

        MDS_TRY(
            mds_mpi_recv(c->mpi, SLOT, TAG, from, c->f64 + (size_t)held * n, bytes));
        MDS_TRY(mds_mpi_send(c->mpi, SLOT, TAG, to, c->f64, bytes));
        MDS_TRY(wait_blocking(c));
    }
    return MDS_OK;
}

/* The sum of a and b, or their maximum, which is NaN if either is. */
static double combine_f64(double a, double b, enum mds_comm_op op)
{
    if (op == MDS_COMM_SUM)
        return a + b;
    return b > a || b != b ? b : a;
}

static enum mds_rc reduce_f64(struct mds_comm *c, double *buf, int n,
                              enum mds_comm_op op)
{
    memcpy(c->f64, buf, (size_t)n * sizeof *buf);
    MDS_TRY(all_gather_f64(c, n));
    for (int r = 0; r < c->peers.size; r++) {
        const double *x =
            c->f64 + (size_t)((r + c->peers.size - c->peers.rank) % c->peers.size) * n;

        for (int i = 0; i < n; i++)
            buf[i] = r == 0 ? x[i] : combine_f64(buf[i], x[i], op);
    }
    return MDS_OK;
}

enum mds_rc mds_comm_all_reduce_f64(struct mds_comm *c, double *buf, int n,
                                    enum mds_comm_op op)
{
    const struct mds_comm_call call = {
        .kind = MDS_COMM_F64, .dtype = MDSK_F64, .op = op, .peer = -1, .count = n};

    MDS_TRY(begin_blocking(c, n >= 0 && (n == 0 || buf), &call));
    for (int i = 0; c->mpi && i < n; i += MDS_COMM_BATCH)
        MDS_TRY(reduce_f64(c, buf + i, (int)mds_min(n - i, MDS_COMM_BATCH), op));
    return end_blocking(c);
}

/* Rank r's bytes from c->f64, where all_gather_f64 has put them. */
static void copy_gathered(const struct mds_comm *c, int n, int64_t part, int64_t bytes,
                          char *out)
{
    for (int i = 0; i < c->peers.size; i++) {
        int rank = (c->peers.rank + i) % c->peers.size;

        memcpy(out + rank * bytes, c->f64 + (size_t)i * n, (size_t)part);
    }
}

enum mds_rc mds_comm_gather_records(struct mds_comm *c, const void *in, int64_t bytes,
                                    void *out)
{
    const struct mds_comm_call call = {.kind = MDS_COMM_ALL_GATHER,
                                       .dtype = -1,
                                       .op = -1,
                                       .peer = -1,
                                       .count = c->peers.size * bytes};
    const int64_t most = MDS_COMM_BATCH * (int64_t)sizeof *c->f64;

    MDS_TRY(begin_blocking(c, bytes >= 0 && (bytes == 0 || (in && out)), &call));
    for (int64_t at = 0; at < bytes; at += most) {
        int64_t part = mds_min(bytes - at, most);
        int n = (int)mds_ceil_div(part, sizeof *c->f64);

        memcpy(c->f64, (const char *)in + at, (size_t)part);
        if (c->mpi)
            MDS_TRY(all_gather_f64(c, n));
        if (!c->dry)
            copy_gathered(c, n, part, bytes, (char *)out + at);
    }
    return end_blocking(c);
}

enum mds_rc mds_comm_barrier(struct mds_comm *c)
{
    const struct mds_comm_call call = {
        .kind = MDS_COMM_BARRIER, .dtype = -1, .op = -1, .peer = -1};

    MDS_TRY(begin_blocking(c, 1, &call));
    if (c->mpi)
        MDS_TRY(all_gather_f64(c, 1));
    return end_blocking(c);
}

/* Down a binomial tree, ranks counted from the root: at step `reach`, each rank that
 * has the data sends it to the rank `reach` further on. */
static enum mds_rc broadcast_down_tree(struct mds_comm *c, void *buf, int64_t bytes,
                                       int root)
{
    int me = (c->peers.rank + c->peers.size - root) % c->peers.size, reach = 1;

    while (reach < c->peers.size && !(me & reach))
        reach *= 2;
    if (me != 0) {
        MDS_TRY(mds_mpi_recv(c->mpi, SLOT, TAG, (me - reach + root) % c->peers.size,
                             buf, bytes));
        MDS_TRY(wait_blocking(c));
    }
    for (reach /= 2; reach > 0; reach /= 2)
        if (me + reach < c->peers.size)
            MDS_TRY(mds_mpi_send(c->mpi, SLOT, TAG, (me + reach + root) % c->peers.size,
                                 buf, bytes));
    return wait_blocking(c);
}

enum mds_rc mds_comm_broadcast(struct mds_comm *c, void *buf, int64_t bytes, int root)
{
    const struct mds_comm_call call = {.kind = MDS_COMM_BROADCAST,
                                       .dtype = -1,
                                       .op = -1,
                                       .peer = root,
                                       .count = bytes};
    int ok = bytes >= 0 && (bytes == 0 || buf) && root >= 0 && root < c->peers.size;
    int64_t part = mds_comm_segment() * (int64_t)sizeof(float), ticket;

    MDS_TRY(begin_blocking(c, ok, &call));
    if (bytes > 0 && mds_comm_is_direct(c, buf)) {
        MDS_TRY(c->direct->ops->broadcast(c->direct, &c->call, buf, &ticket));
        return c->direct->ops->wait(c->direct, ticket);
    }
    for (int64_t at = 0; c->mpi && at < bytes; at += part)
        MDS_TRY(
            broadcast_down_tree(c, (char *)buf + at, mds_min(part, bytes - at), root));
    return end_blocking(c);
}

/* Post what is sent and received from byte `at` of each block on; returns whether more
 * is left.  The step of one rank waits for the same step of its peers alone. */
static enum mds_rc post_blocks(struct mds_comm *c, int64_t at, int64_t most,
                               const char *in, const struct mds_comm_block *send,
                               char *out, const struct mds_comm_block *recv, int *more)
{
    *more = 0;
    for (int i = 1; i < c->peers.size; i++) {
        int p = (c->peers.rank + i) % c->peers.size;
        int64_t to = send[p].bytes - at, from = recv[p].bytes - at;

        if (from > 0)
            MDS_TRY(mds_mpi_recv(c->mpi, SLOT, TAG, p, out + recv[p].at + at,
                                 mds_min(from, most)));
        if (to > 0)
            MDS_TRY(mds_mpi_send(c->mpi, SLOT, TAG, p, in + send[p].at + at,
                                 mds_min(to, most)));
        *more |= to > most || from > most;
    }
    return MDS_OK;
}

/* One block from each rank to each. */
static enum mds_rc exchange_blocks(struct mds_comm *c, const void *in,
                                   const struct mds_comm_block *send, void *out,
                                   const struct mds_comm_block *recv)
{
    int64_t most = mds_comm_segment() * (int64_t)sizeof(float);
    int more = 1;

    for (int64_t at = 0; more; at += most) {
        MDS_TRY(post_blocks(c, at, most, in, send, out, recv, &more));
        MDS_TRY(wait_blocking(c));
    }
    return MDS_OK;
}

enum mds_rc mds_comm_exchange(struct mds_comm *c, int n, const void *in,
                              const struct mds_comm_block *send, void *out,
                              const struct mds_comm_block *recv)
{
    struct mds_comm_call call = {
        .kind = MDS_COMM_EXCHANGE, .dtype = -1, .op = -1, .peer = -1};
    int ranks = c->peers.size, ok = in && out && n >= 0;
    int64_t ticket;

    for (int i = 0; i < n * ranks; i++) {
        call.count += i % ranks == c->peers.rank ? 0 : send[i].bytes;
        ok = ok && send[i].bytes >= 0 && recv[i].bytes >= 0;
    }
    MDS_TRY(begin_blocking(c, ok, &call));
    if (mds_comm_is_direct(c, in)) {
        MDS_TRY(c->direct->ops->exchange(c->direct, &c->call, n, in, send, out, recv,
                                         &ticket));
        return c->direct->ops->wait(c->direct, ticket);
    }
    for (int i = 0; i < n && c->mpi; i++)
        MDS_TRY(exchange_blocks(c, in, send + i * ranks, out, recv + i * ranks));
    return end_blocking(c);
}
