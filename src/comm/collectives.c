/* The blocking collectives, each made of messages in slot 0. */
#include "comm/internal.h"

#include <stddef.h>
#include <string.h>

enum { TAG = 0 };

static enum mds_rc send_to(struct mds_comm *c, int peer, const void *buf, int64_t bytes)
{
    return c->ops->send(c, 0, TAG, peer, buf, bytes);
}

static enum mds_rc recv_from(struct mds_comm *c, int peer, void *buf, int64_t bytes)
{
    return c->ops->recv(c, 0, TAG, peer, buf, bytes);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Every rank's n doubles to every rank: c->f64[i, n] becomes rank (me + i) % size's,
 * with what this rank had in row 0.  The rows held double with each step. Source:
 * Bruck, Ho, Kipnis, Upfal, Weathersby 1997, doi:10.1109/71.642949. */
static enum mds_rc spread_f64(struct mds_comm *c, int n)
{
    for (int held = 1; held < c->size; held *= 2) {
        int rows = held < c->size - held ? held : c->size - held;
        int64_t bytes = (int64_t)rows * n * (int64_t)sizeof *c->f64;
        int from = (c->rank + held) % c->size;
        int to = (c->rank + c->size - held) % c->size;

        MDS_TRY(recv_from(c, from, c->f64 + (size_t)held * n, bytes));
        MDS_TRY(send_to(c, to, c->f64, bytes));
        MDS_TRY(mds_comm_block(c, NULL));
    }
    return MDS_OK;
}

static enum mds_rc reduce_f64(struct mds_comm *c, double *buf, int n,
                              enum mds_comm_op op)
{
    memcpy(c->f64, buf, (size_t)n * sizeof *buf);
    MDS_TRY(spread_f64(c, n));
    for (int r = 0; r < c->size; r++) {
        const double *x = c->f64 + (size_t)((r + c->size - c->rank) % c->size) * n;

        for (int i = 0; i < n; i++)
            buf[i] = r == 0 ? x[i] : mds_comm_fold(buf[i], x[i], op);
    }
    return MDS_OK;
}

enum mds_rc mds_comm_all_reduce_f64(struct mds_comm *c, double *buf, int n,
                                    enum mds_comm_op op)
{
    int ok = n >= 0 && (n == 0 || buf);

    MDS_TRY(mds_comm_enter(c, "all_reduce_f64", ok,
                           (int64_t)(c->size - 1) * n * (int64_t)sizeof *buf));
    if (!c->ops)
        return MDS_OK;
    for (int i = 0; i < n; i += MDS_COMM_BATCH)
        MDS_TRY(reduce_f64(c, buf + i, (int)least(n - i, MDS_COMM_BATCH), op));
    return MDS_OK;
}

enum mds_rc mds_comm_barrier(struct mds_comm *c)
{
    MDS_TRY(mds_comm_enter(c, "barrier", 1, (c->size - 1) * (int64_t)sizeof *c->f64));
    return c->ops ? spread_f64(c, 1) : MDS_OK;
}

/* Down a binomial tree, counted from the root: whoever has the data at step `reach`
 * hands them to the rank `reach` further on. */
static enum mds_rc pass_down(struct mds_comm *c, void *buf, int64_t bytes, int root)
{
    int me = (c->rank + c->size - root) % c->size, reach = 1;

    while (reach < c->size && !(me & reach))
        reach *= 2;
    if (me != 0) {
        MDS_TRY(recv_from(c, (me - reach + root) % c->size, buf, bytes));
        MDS_TRY(mds_comm_block(c, NULL));
    }
    for (reach /= 2; reach > 0; reach /= 2)
        if (me + reach < c->size)
            MDS_TRY(send_to(c, (me + reach + root) % c->size, buf, bytes));
    return mds_comm_block(c, NULL);
}

enum mds_rc mds_comm_broadcast(struct mds_comm *c, void *buf, int64_t bytes, int root)
{
    int ok = bytes >= 0 && (bytes == 0 || buf) && root >= 0 && root < c->size;
    int64_t part = mds_comm_segment() * (int64_t)sizeof(float);

    MDS_TRY(mds_comm_enter(c, "broadcast", ok, bytes * (c->size - 1) / c->size));
    if (!c->ops)
        return MDS_OK;
    for (int64_t at = 0; at < bytes; at += part)
        MDS_TRY(pass_down(c, (char *)buf + at, least(part, bytes - at), root));
    return MDS_OK;
}

/* Step `at` of a gather: part of every rank's block goes to everyone. */
static enum mds_rc gather_part(struct mds_comm *c, char *out, int64_t block, int64_t at,
                               int64_t bytes)
{
    for (int i = 1; i < c->size; i++) {
        int peer = (c->rank + i) % c->size;

        MDS_TRY(recv_from(c, peer, out + peer * block + at, bytes));
        MDS_TRY(send_to(c, peer, out + c->rank * block + at, bytes));
    }
    return mds_comm_block(c, NULL);
}

enum mds_rc mds_comm_all_gather(struct mds_comm *c, const void *in, void *out,
                                int64_t bytes)
{
    int ok = bytes >= 0 && (bytes == 0 || (in && out));
    int64_t part = mds_comm_segment() * (int64_t)sizeof(float);

    MDS_TRY(mds_comm_enter(c, "all_gather", ok, (c->size - 1) * bytes));
    if (c->dry || bytes == 0)
        return MDS_OK;
    if (in != (char *)out + c->rank * bytes)
        memcpy((char *)out + c->rank * bytes, in, (size_t)bytes);
    for (int64_t at = 0; c->ops && at < bytes; at += part)
        MDS_TRY(gather_part(c, out, bytes, at, least(part, bytes - at)));
    return MDS_OK;
}

/* Floats of each rank's part that move per step, so that a step is one segment in all.
 */
static int64_t step_floats(const struct mds_comm *c)
{
    int64_t n = mds_comm_segment() / c->size;

    return n > 0 ? n : 1;
}

int64_t mds_comm_reduce_scatter_work(const struct mds_comm *c, int64_t per_rank)
{
    return (c->size - 1) * least(per_rank, step_floats(c));
}

/* Step `at` of a scatter: part of every block goes to its owner, who sums. */
static enum mds_rc scatter_part(struct mds_comm *c, const float *in, float *work,
                                int64_t block, int64_t at, int64_t n)
{
    const int64_t bytes = n * (int64_t)sizeof *in;

    for (int i = 1; i < c->size; i++) {
        int peer = (c->rank + i) % c->size;
        float *from_peer = work + (peer < c->rank ? peer : peer - 1) * n;

        MDS_TRY(recv_from(c, peer, from_peer, bytes));
        MDS_TRY(send_to(c, peer, in + peer * block + at, bytes));
    }
    return mds_comm_block(c, NULL);
}

enum mds_rc mds_comm_reduce_scatter(struct mds_comm *c, const float *in, float *out,
                                    int64_t per_rank, enum mds_comm_op op, float *work)
{
    int ok = per_rank >= 0 && (per_rank == 0 || (in && out));
    const float *own = in + c->rank * per_rank;

    ok = ok && (work || mds_comm_reduce_scatter_work(c, per_rank) == 0);
    MDS_TRY(mds_comm_enter(c, "reduce_scatter", ok,
                           (c->size - 1) * per_rank * (int64_t)sizeof *in));
    if (c->dry || per_rank == 0)
        return MDS_OK;
    for (int64_t at = 0; at < per_rank; at += step_floats(c)) {
        int64_t n = least(step_floats(c), per_rank - at);

        if (c->ops)
            MDS_TRY(scatter_part(c, in, work, per_rank, at, n));
        mds_comm_reduce(out + at, own + at, work, n, n, c->rank, c->size, op);
    }
    return MDS_OK;
}
