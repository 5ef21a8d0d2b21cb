/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between tensor ranks: rows that all gather, and partial sums.  They travel
 * in chunks of rows if their step says so. */
#include "model/lists.h"

#include "base/minmax.h"
#include "parallel/tensor_parallel.h"

static struct mds_comm *tensor_ranks(const struct block_pass *b)
{
    return mds_group(b->c->g->groups, MDS_AXIS_TENSOR);
}

/* ---- chunks ---- */

/* The rows of a step, with the chunks in which they travel. */
static struct mds_par rows_of(const struct block_pass *b, const struct mds_step *s)
{
    struct mds_par p;

    if (s->in_chunks || s->awaits >= 0)
        return mds_gpt_in_chunks(b->c).par;
    p = b->c->par;
    p.chunks = 1;
    return p;
}

/* Elements of chunk i in a tensor [rows, H]: where it begins, and how many. */
static int64_t chunk(const struct block_pass *b, const struct mds_par *p, int i,
                     int64_t *at)
{
    int64_t H = b->c->g->cfg.hidden;

    *at = mds_par_chunk(p, i) * H;
    return mds_par_chunk(p, i + 1) * H - *at;
}

int64_t mds_gpt_chunk_left(const struct block_pass *b, const struct mds_step *s,
                           int64_t at)
{
    const struct mds_par p = rows_of(b, s);

    return mds_par_chunk_left(&p, at);
}

/* The first n; after the last the next message begins. */
static enum mds_rc wait_for_chunks(struct list_message *m, int n)
{
    while (m->waited < mds_min(n, m->started))
        MDS_TRY(mds_comm_wait(&m->req[m->waited++]));
    if (m->waited == m->started)
        m->started = m->waited = 0;
    return MDS_OK;
}

enum mds_rc mds_gpt_wait_rows(struct block_pass *b, const struct mds_step *s,
                              int64_t rows)
{
    struct mds_par p;
    int n = 0;

    if (s->awaits < 0)
        return MDS_OK;
    p = rows_of(b, s);
    while (n < p.chunks && mds_par_chunk(&p, n) < rows)
        n++;
    return wait_for_chunks(&b->message[s->awaits], n);
}

enum mds_rc mds_gpt_wait(void *ctx, int message)
{
    struct block_pass *b = ctx;
    if (message == MDS_MESSAGE_O)
        mds_dev_wait_copy(b->c->par.dev, b->o->copy);
    else if (message == b->put_message)
        mds_dev_wait_copy(b->c->par.dev, b->put);
    else
        return wait_for_chunks(&b->message[message], MDS_SHARD_CHUNKS);
    return MDS_OK;
}

/* ---- gather ---- */

enum mds_rc mds_gpt_gather(void *ctx, const struct mds_block_call *call)
{
    struct block_pass *b = ctx;
    const struct mds_par p = rows_of(b, call->step);
    struct list_message *m = &b->message[call->step->message];
    int64_t ranks = mds_comm_size(tensor_ranks(b)), at;

    for (; m->started < p.chunks; m->started++) {
        int64_t n = chunk(b, &p, m->started, &at);

        MDS_TRY(mds_comm_all_gather_start(
            tensor_ranks(b), mds_par_at(&p, call->in[0], at / ranks),
            mds_par_at(&p, call->out[0], at),
            n / ranks * (int64_t)mdsk_dtype_size(p.dtype), &m->req[m->started]));
    }
    return MDS_OK;
}

/* ---- sums ---- */

/* Elements of the sum of n that this rank gets. */
static int64_t shard(const struct block_pass *b, int64_t n)
{
    return b->c->g->sequence_parallel ? n / mds_comm_size(tensor_ranks(b)) : n;
}

/* Working memory for the sums of the first n chunks, which are made at one time. */
static int64_t work_bytes(const struct block_pass *b, const struct mds_par *p, int n)
{
    struct mds_comm *tp = tensor_ranks(b);
    int64_t bytes = 0, at;

    for (int i = 0; i < n; i++) {
        int64_t elements = shard(b, chunk(b, p, i, &at));

        bytes += mds_round_up(b->c->g->sequence_parallel
                                  ? mds_comm_reduce_scatter_work(tp, elements, p->dtype)
                                  : mds_comm_all_reduce_work(tp, elements, p->dtype),
                              MDS_BLOCK_ALIGN);
    }
    return bytes;
}

int64_t mds_gpt_sum_work(const struct context *c)
{
    const struct block_pass b = {.c = c};
    const struct mds_par in_chunks = mds_gpt_in_chunks(c).par;
    struct mds_par whole = c->par;

    whole.chunks = 1;
    return mds_max(work_bytes(&b, &in_chunks, in_chunks.chunks),
                   work_bytes(&b, &whole, 1));
}

static enum mds_rc start_sum(const struct block_pass *b, const struct mds_par *p, int i,
                             const struct partial_sums *s, struct mds_comm_req *req)
{
    int64_t at, n = shard(b, chunk(b, p, i, &at));
    void *part = mds_par_at(p, s->partial, at);
    void *work = (char *)s->work + work_bytes(b, p, i);

    return b->c->g->sequence_parallel
               ? mds_comm_reduce_scatter_start(tensor_ranks(b), part,
                                               mds_par_at(p, s->sum, shard(b, at)), n,
                                               p->dtype, work, req)
               : mds_comm_all_reduce_start(tensor_ranks(b), part, n, p->dtype, work,
                                           req);
}

enum mds_rc mds_gpt_sum_rows(struct block_pass *b, const struct mds_step *step,
                             const struct partial_sums *s, int64_t rows)
{
    const struct mds_par p = rows_of(b, step);
    struct list_message *m = &b->message[step->message];

    for (; m->started < p.chunks && mds_par_chunk(&p, m->started + 1) <= rows;
         m->started++)
        MDS_TRY(start_sum(b, &p, m->started, s, &m->req[m->started]));
    return MDS_OK;
}

enum mds_rc mds_gpt_reduce(void *ctx, const struct mds_block_call *call)
{
    struct block_pass *b = ctx;
    const struct partial_sums s = {call->in[0], call->out[0], call->out[1]};

    return mds_gpt_sum_rows(b, call->step, &s, mds_par_rows(&b->c->par));
}
