/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives over shards, as requests: which buffers, which shards, which stages. */
#include "base/minmax.h"
#include "comm/internal.h"
#include "device/device.h"

#include <stddef.h>
#include <string.h>

enum { ALIGN = 64 }; /* elements */

static int64_t shard_length(int64_t count, int size)
{
    return mds_round_up(mds_ceil_div(count, size), ALIGN);
}

void mds_comm_shard(int64_t count, int size, int rank, int64_t *first, int64_t *n)
{
    int64_t shard = shard_length(count, size);

    *first = mds_min(rank * shard, count);
    *n = mds_min(shard, count - *first);
}

/* Elements of each shard to send per step.  A step of a sum sends one segment in all,
 * which bounds its work memory (shards: their number); copies need no work memory, and
 * send a segment of each shard (shards: 1). */
static int64_t step_length(int64_t elem_bytes, int shards)
{
    int64_t n = mds_comm_segment() * (int64_t)sizeof(float) / elem_bytes / shards;

    return n > 0 ? n : 1;
}

/* Elements of work memory: a row for each peer. */
static int64_t work_elements(const struct mds_comm *c, int64_t longest,
                             int64_t elem_bytes)
{
    return (c->peers.size - 1) *
           mds_min(longest, step_length(elem_bytes, c->peers.size));
}

/* The longest shard of a flat buffer. */
static int64_t longest_shard(const struct mds_comm *c, int64_t count)
{
    return mds_min(shard_length(count, c->peers.size), count);
}

int64_t mds_comm_all_reduce_work(const struct mds_comm *c, int64_t count,
                                 enum mdsk_dtype dtype)
{
    int64_t e = (int64_t)mdsk_dtype_size(dtype);

    return work_elements(c, longest_shard(c, count), e) * e;
}

int64_t mds_comm_reduce_scatter_work(const struct mds_comm *c, int64_t per_rank,
                                     enum mdsk_dtype dtype)
{
    int64_t e = (int64_t)mdsk_dtype_size(dtype);

    return work_elements(c, per_rank, e) * e;
}

/* Whether the request is idle and its buffers are given. */
static int buffers_are_valid(const struct mds_comm_req *req, int64_t count,
                             const void *in, const void *out)
{
    return !req->comm && count >= 0 && (count == 0 || (in && out));
}

static int dtype_can_be_summed(enum mdsk_dtype dtype)
{
    return dtype == MDSK_F32 || dtype == MDSK_BF16 || dtype == MDSK_F16;
}

static enum mds_rc start_request(struct mds_comm *c, const struct mds_comm_req *made,
                                 struct mds_comm_req *req)
{
    const struct mds_collective s = {.call = &made->call,
                                     .in = made->in,
                                     .out = made->out,
                                     .sum = made->sum,
                                     .count = made->count,
                                     .shard = made->shard,
                                     .elem_bytes = made->elem_bytes,
                                     .stages = made->stages};
    int64_t ticket = 0;

    if (c->rates) {
        req->comm = c;
        mds_comm_clock_start(c, &made->call, &req->flight);
    }
    if (!c->mpi || made->count == 0)
        return MDS_OK;
    if (mds_comm_is_direct(c, made->in ? made->in : made->out))
        MDS_TRY(c->direct->ops->collect(c->direct, &s, &ticket));
    *req = *made;
    req->comm = c;
    req->ticket = ticket;
    if (ticket)
        return MDS_OK;
    mds_comm_add_request(c, req);
    return mds_comm_progress();
}

/* Copy this rank's own block; NCCL does so itself. */
static void copy_own(const struct mds_comm *c, void *to, const void *from,
                     int64_t bytes)
{
    if (c->dry || bytes == 0 || to == from || mds_comm_is_direct(c, from))
        return;
    if (c->dev && mds_dev_owns(c->dev, from))
        mds_dev_copy(c->dev, to, from, bytes);
    else
        memcpy(to, from, (size_t)bytes);
}

/* A request that sums `in` in shards of `shard` elements; the caller sets its output.
 */
static struct mds_comm_req make_sum(const struct mds_comm *c, int stages,
                                    const void *in, int64_t count, int64_t shard,
                                    enum mdsk_dtype dtype, void *work)
{
    int64_t e = (int64_t)mdsk_dtype_size(dtype);

    return (struct mds_comm_req){
        .call = {.kind = stages & MDS_COMM_GATHERING ? MDS_COMM_ALL_REDUCE
                                                     : MDS_COMM_REDUCE_SCATTER,
                 .dtype = dtype,
                 .op = MDS_COMM_SUM,
                 .peer = -1,
                 .count = count},
        .in = in,
        .work = work,
        .count = count,
        .shard = shard,
        .step = step_length(e, c->peers.size),
        .elem_bytes = (int)e,
        .stages = stages,
    };
}

/* An all-reduce, or its first half alone. */
static enum mds_rc reduce_start(struct mds_comm *c, void *buf, int64_t count,
                                enum mdsk_dtype dtype, void *work, int stages,
                                struct mds_comm_req *req)
{
    int64_t shard = shard_length(count, c->peers.size), first, n;
    struct mds_comm_req made = make_sum(c, stages, buf, count, shard, dtype, work);
    int ok = buffers_are_valid(req, count, buf, buf) && dtype_can_be_summed(dtype);

    ok = ok && (work || mds_comm_all_reduce_work(c, count, dtype) == 0);
    MDS_TRY(mds_comm_begin_call(c, ok, &made.call));
    mds_comm_shard(count, c->peers.size, c->peers.rank, &first, &n);
    made.out = buf;
    made.sum = made.out + first * made.elem_bytes;
    return start_request(c, &made, req);
}

enum mds_rc mds_comm_all_reduce_start(struct mds_comm *c, void *buf, int64_t count,
                                      enum mdsk_dtype dtype, void *work,
                                      struct mds_comm_req *req)
{
    return reduce_start(c, buf, count, dtype, work,
                        MDS_COMM_REDUCING | MDS_COMM_GATHERING, req);
}

enum mds_rc mds_comm_reduce_shards_start(struct mds_comm *c, float *buf, int64_t count,
                                         float *work, struct mds_comm_req *req)
{
    return reduce_start(c, buf, count, MDSK_F32, work, MDS_COMM_REDUCING, req);
}

enum mds_rc mds_comm_reduce_scatter_start(struct mds_comm *c, const void *in, void *out,
                                          int64_t per_rank, enum mdsk_dtype dtype,
                                          void *work, struct mds_comm_req *req)
{
    struct mds_comm_req made = make_sum(
        c, MDS_COMM_REDUCING, in, c->peers.size * per_rank, per_rank, dtype, work);
    int ok = buffers_are_valid(req, per_rank, in, out) && dtype_can_be_summed(dtype);

    ok = ok && (work || mds_comm_reduce_scatter_work(c, per_rank, dtype) == 0);
    MDS_TRY(mds_comm_begin_call(c, ok, &made.call));
    made.sum = out;
    if (c->peers.size == 1)
        copy_own(c, out, in, made.count * made.elem_bytes);
    return start_request(c, &made, req);
}

enum mds_rc mds_comm_gather_shards_start(struct mds_comm *c, void *buf, int64_t count,
                                         int elem_bytes, struct mds_comm_req *req)
{
    int ok = buffers_are_valid(req, count, buf, buf) && elem_bytes > 0;
    struct mds_comm_req made = {
        .call = {.kind = MDS_COMM_ALL_GATHER,
                 .dtype = -1,
                 .op = -1,
                 .peer = -1,
                 .count = count * elem_bytes},
        .out = buf,
        .count = count,
        .shard = shard_length(count, c->peers.size),
        .elem_bytes = elem_bytes,
        .stages = MDS_COMM_GATHERING,
    };

    MDS_TRY(mds_comm_begin_call(c, ok, &made.call));
    made.step = step_length(elem_bytes, 1);
    return start_request(c, &made, req);
}

/* A request that sends a block of `bytes` bytes of each rank. */
static struct mds_comm_req make_blocks(const struct mds_comm *c,
                                       enum mds_comm_kind kind, const void *in,
                                       void *out, int64_t bytes)
{
    int64_t all = c->peers.size * bytes;

    return (struct mds_comm_req){
        .call = {.kind = kind, .dtype = -1, .op = -1, .peer = -1, .count = all},
        .in = in,
        .out = out,
        .count = all,
        .shard = bytes,
        .step = step_length(1, 1),
        .elem_bytes = 1,
        .stages =
            kind == MDS_COMM_ALL_GATHER ? MDS_COMM_GATHERING : MDS_COMM_SCATTERING,
    };
}

enum mds_rc mds_comm_all_gather_start(struct mds_comm *c, const void *in, void *out,
                                      int64_t bytes, struct mds_comm_req *req)
{
    struct mds_comm_req made = make_blocks(c, MDS_COMM_ALL_GATHER, in, out, bytes);

    MDS_TRY(mds_comm_begin_call(c, buffers_are_valid(req, bytes, in, out), &made.call));
    copy_own(c, (char *)out + c->peers.rank * bytes, in, bytes);
    return start_request(c, &made, req);
}

enum mds_rc mds_comm_all_to_all_start(struct mds_comm *c, const void *in, void *out,
                                      int64_t bytes, struct mds_comm_req *req)
{
    struct mds_comm_req made = make_blocks(c, MDS_COMM_ALL_TO_ALL, in, out, bytes);
    int64_t own = c->peers.rank * bytes;
    int ok = buffers_are_valid(req, bytes, in, out) && (bytes == 0 || in != out);

    MDS_TRY(mds_comm_begin_call(c, ok, &made.call));
    copy_own(c, (char *)out + own, (const char *)in + own, bytes);
    return start_request(c, &made, req);
}

enum mds_rc mds_comm_all_reduce(struct mds_comm *c, void *buf, int64_t count,
                                enum mdsk_dtype dtype, void *work)
{
    struct mds_comm_req req = {0};

    MDS_TRY(mds_comm_all_reduce_start(c, buf, count, dtype, work, &req));
    return mds_comm_wait(&req);
}

enum mds_rc mds_comm_all_gather(struct mds_comm *c, const void *in, void *out,
                                int64_t bytes)
{
    struct mds_comm_req req = {0};

    MDS_TRY(mds_comm_all_gather_start(c, in, out, bytes, &req));
    return mds_comm_wait(&req);
}

enum mds_rc mds_comm_all_to_all(struct mds_comm *c, const void *in, void *out,
                                int64_t bytes)
{
    struct mds_comm_req req = {0};

    MDS_TRY(mds_comm_all_to_all_start(c, in, out, bytes, &req));
    return mds_comm_wait(&req);
}
