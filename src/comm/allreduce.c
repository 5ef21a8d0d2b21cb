/* All-reduce in the background: each request walks through its buffer by segments, and
 * through the phases of a segment whenever its messages have arrived. */
#include "comm/internal.h"

#include <stddef.h>

enum {
    QUEUED,  /* no slot yet */
    SCATTER, /* every rank collects its slice from all */
    GATHER,  /* every rank hands its sum to all */
};

/* Rank r's slice of a segment of n floats begins here and ends where r + 1's begins. */
static int64_t slice(const struct mds_comm *c, int64_t n, int r)
{
    return n * r / c->size;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Room for the longest slice of each of the others. */
int64_t mds_comm_all_reduce_work(const struct mds_comm *c, int64_t count)
{
    int64_t n = least(count, mds_comm_segment());

    return (c->size - 1) * ((n + c->size - 1) / c->size);
}

/* The peer this rank turns to i-th: each rank begins with another one. */
static int peer(const struct mds_comm *c, int i)
{
    return (c->rank + i) % c->size;
}

static int64_t stride(const struct mds_comm *c, int64_t n)
{
    return (n + c->size - 1) / c->size;
}

static enum mds_rc post(struct mds_comm_req *r, int p, const float *out,
                        int64_t out_len, float *in, int64_t in_len)
{
    struct mds_comm *c = r->comm;
    const int64_t f = sizeof *in;

    if (in_len > 0)
        MDS_TRY(c->ops->recv(c, r->slot, r->tag, p, in, in_len * f));
    if (out_len > 0)
        MDS_TRY(c->ops->send(c, r->slot, r->tag, p, out, out_len * f));
    return MDS_OK;
}

static enum mds_rc begin_scatter(struct mds_comm_req *r)
{
    const struct mds_comm *c = r->comm;
    int64_t n = least(r->count - r->at, mds_comm_segment());
    int64_t mine = slice(c, n, c->rank + 1) - slice(c, n, c->rank);
    float *buf = r->buf + r->at;

    r->phase = SCATTER;
    for (int i = 1; i < c->size; i++) {
        int p = peer(c, i);
        int64_t lo = slice(c, n, p), len = slice(c, n, p + 1) - lo;
        float *in = r->work + (p < c->rank ? p : p - 1) * stride(c, n);

        MDS_TRY(post(r, p, buf + lo, len, in, mine));
    }
    return MDS_OK;
}

static enum mds_rc begin_gather(struct mds_comm_req *r)
{
    const struct mds_comm *c = r->comm;
    int64_t n = least(r->count - r->at, mds_comm_segment());
    int64_t lo = slice(c, n, c->rank), mine = slice(c, n, c->rank + 1) - lo;
    float *buf = r->buf + r->at;

    mds_comm_reduce(buf + lo, buf + lo, r->work, stride(c, n), mine, c->rank, c->size,
                    r->op);
    r->phase = GATHER;
    for (int i = 1; i < c->size; i++) {
        int p = peer(c, i);
        int64_t from = slice(c, n, p), len = slice(c, n, p + 1) - from;

        MDS_TRY(post(r, p, buf + lo, mine, buf + from, len));
    }
    return MDS_OK;
}

static enum mds_rc take_slot(struct mds_comm_req *r)
{
    struct mds_comm *c = r->comm;

    for (int s = 1; s < MDS_COMM_SLOTS; s++)
        if (!(c->busy & 1u << s)) {
            c->busy |= 1u << s;
            r->slot = s;
            return begin_scatter(r);
        }
    return MDS_OK;
}

/* Into the next phase, if the messages of this one have all arrived. */
static enum mds_rc step(struct mds_comm_req *r, int *moved)
{
    struct mds_comm *c = r->comm;
    int finished, left;

    if (r->phase == QUEUED)
        return take_slot(r);
    MDS_TRY(c->ops->test(c, r->slot, &finished, &left));
    *moved += finished;
    if (left > 0)
        return MDS_OK;
    if (r->phase == SCATTER)
        return begin_gather(r);
    r->at += least(r->count - r->at, mds_comm_segment());
    if (r->at < r->count)
        return begin_scatter(r);
    c->busy &= ~(1u << r->slot);
    r->comm = NULL;
    return MDS_OK;
}

/* In order of start: so the oldest request, which all ranks have in common, is never
 * without a slot, and the group cannot lock up. */
enum mds_rc mds_comm_advance(struct mds_comm *c, int *moved)
{
    struct mds_comm_req **p = &c->first;

    while (*p) {
        struct mds_comm_req *r = *p;

        MDS_TRY(step(r, moved));
        if (r->comm)
            p = &r->next;
        else
            *p = r->next;
    }
    return MDS_OK;
}

static void append(struct mds_comm *c, struct mds_comm_req *r)
{
    struct mds_comm_req **p = &c->first;

    while (*p)
        p = &(*p)->next;
    *p = r;
    r->next = NULL;
    r->comm = c;
    r->phase = QUEUED;
    c->next_tag = c->next_tag % (MDS_COMM_TAGS - 1) + 1; /* 0 is the blocking calls' */
    r->tag = c->next_tag;
}

enum mds_rc mds_comm_all_reduce_start(struct mds_comm *c, float *buf, int64_t count,
                                      enum mds_comm_op op, float *work,
                                      struct mds_comm_req *req)
{
    int ok = !req->comm && count >= 0 && (count == 0 || buf);
    int moved = 0;

    ok = ok && (work || mds_comm_all_reduce_work(c, count) == 0);
    MDS_TRY(mds_comm_enter(c, "all_reduce", ok,
                           2 * (c->size - 1) * count * (int64_t)sizeof *buf / c->size));
    if (!c->ops || count == 0)
        return MDS_OK;
    *req = (struct mds_comm_req){.buf = buf, .work = work, .count = count, .op = op};
    append(c, req);
    return mds_comm_progress(&moved);
}

enum mds_rc mds_comm_poll(struct mds_comm_req *req)
{
    int moved = 0;

    return req->comm ? mds_comm_progress(&moved) : MDS_OK;
}

int mds_comm_done(const struct mds_comm_req *req)
{
    return !req->comm;
}

enum mds_rc mds_comm_wait(struct mds_comm_req *req)
{
    return req->comm ? mds_comm_block(req->comm, req) : MDS_OK;
}

enum mds_rc mds_comm_all_reduce(struct mds_comm *c, float *buf, int64_t count,
                                enum mds_comm_op op, float *work)
{
    struct mds_comm_req req = {0};

    MDS_TRY(mds_comm_all_reduce_start(c, buf, count, op, work, &req));
    return mds_comm_wait(&req);
}
