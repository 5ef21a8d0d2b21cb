/* SPDX-License-Identifier: BSD-3-Clause */
/* Ring attention: queries stay, blocks of keys and values pass by.
 *
 * A rank's tokens are two chunks of the 2P that the sequence is cut in (shard.h).  Of
 * its chunk against a passing one, all keys are visible if the passing chunk is
 * earlier, none if it is later, and the usual triangle if it is the same.  In every
 * round each rank has as much to do as the others. */
#include "parallel/attention_shape.h"
#include "parallel/sums.h"
#include "tensor/op.h"

/* A pass of blocks around the ring. */
struct ring {
    const struct mds_par *p;
    const struct mds_attention *a;
    struct attention_inside in;
    int P, me;
    int64_t chunk;      /* tokens */
    int64_t kv_row;     /* elements of a row of a block: k heads, then v heads */
    const void *inside; /* [n, B, row] */
};

/* A block of keys and values, or of their gradients, on its way around the ring. */
struct ring_block {
    void *here, *next; /* [bytes] each: the block to use, and where the next arrives */
    int64_t bytes;
    int tag;
    int in_flight; /* from pass_on to arrived */
    struct mds_comm_p2p send, recv;
};

static struct ring ring_of(const struct mds_par *p, const struct mds_attention *a,
                           const void *inside)
{
    struct ring r = {.p = p, .a = a, .in = attention_inside(p, a), .inside = inside};

    r.P = mds_groups_size(p->groups, MDS_AXIS_RING);
    r.me = mds_groups_rank(p->groups, MDS_AXIS_RING);
    r.chunk = r.in.n / 2;
    r.kv_row = 2 * r.in.G * r.in.D;
    return r;
}

/* Which of the 2P chunks is chunk c (0 or 1) of a rank? */
static int ring_chunk(const struct ring *r, int rank, int c)
{
    return c == 0 ? rank : 2 * r->P - 1 - rank;
}

/* Whose block is here in a round? */
static int block_owner(const struct ring *r, int round)
{
    return (r->me - round + r->P) % r->P;
}

/* Hand the block here to the next rank while it is in use, and get another. */
static enum mds_rc send_to_next(const struct ring *r, struct ring_block *k)
{
    struct mds_comm *c = mds_group(r->p->groups, MDS_AXIS_RING);
    int next = (r->me + 1) % r->P, before = (r->me + r->P - 1) % r->P;

    k->in_flight = 1;
    MDS_TRY(mds_comm_recv_start(c, k->next, k->bytes, before, k->tag, &k->recv));
    return mds_comm_send_start(c, k->here, k->bytes, next, k->tag, &k->send);
}

/* If one is on its way it is the block here from now on. */
static enum mds_rc wait_for_block(struct ring_block *k)
{
    void *used = k->here;

    if (!k->in_flight)
        return MDS_OK;
    MDS_TRY(mds_comm_p2p_wait(&k->recv));
    MDS_TRY(mds_comm_p2p_wait(&k->send));
    k->here = k->next;
    k->next = used;
    k->in_flight = 0;
    return MDS_OK;
}

/* The ring_block of keys and values, holding this rank's own. */
static enum mds_rc alloc_kv(const struct ring *r, struct ring_block *k)
{
    int64_t n = r->in.n * r->p->B * r->kv_row;
    const void *own = mds_par_at(r->p, r->inside, r->in.A * r->in.D);

    k->bytes = n * (int64_t)mdsk_dtype_size(r->p->dtype);
    MDS_TRY(mds_par_alloc(r->p, MDS_MEM_COMM, n, &k->here));
    MDS_TRY(mds_par_alloc(r->p, MDS_MEM_COMM, n, &k->next));
    return mds_par_copy_rows(r->p, r->in.n * r->p->B, r->kv_row, own, r->in.row,
                             k->here, r->kv_row);
}

/* The shape of chunk qc here against chunk kc of a passing block; 0 if it sees nothing.
 */
static int block_shape(const struct ring *r, int from, int qc, int kc,
                       struct mdsk_attention_shape *s)
{
    int q = ring_chunk(r, r->me, qc), k = ring_chunk(r, from, kc);

    *s = attention_shape(r->p, r->a, r->chunk, r->chunk);
    s->q_offset = k < q ? r->chunk : 0;
    s->first_query = q * r->chunk;
    s->first_key = k * r->chunk;
    return k <= q;
}

/* ---- forward ---- */

struct ring_fwd {
    struct ring r;
    float *acc;  /* [n, B, A D] */
    float *lse;  /* [B, A, n] */
    void *o2;    /* [chunk, B, A D] */
    float *lse2; /* [B, A, chunk] */
};

static struct mdsk_heads acc_heads(const struct ring_fwd *f, int qc)
{
    int64_t row = f->r.in.A * f->r.in.D, B = f->r.p->B;

    return (struct mdsk_heads){.data = f->acc + qc * f->r.chunk * B * row,
                               .batch_stride = row,
                               .token_stride = B * row,
                               .head_stride = f->r.in.D};
}

/* A chunk's first block sets its sums, the others are merged in. */
static enum mds_rc merge_block(const struct ring_fwd *f, int qc, int first)
{
    const struct ring *r = &f->r;
    int64_t row = r->in.A * r->in.D;
    struct mdsk_attention_merge m = {
        .B = r->p->B,
        .A = r->in.A,
        .Sq = r->chunk,
        .D = r->in.D,
        .dtype = r->p->dtype,
        .acc = acc_heads(f, qc),
        .o2 = attention_heads(r->p, f->o2, row, 0, 0, r->in.D),
        .lse = f->lse + qc * r->chunk,
        .lse2 = f->lse2,
        .lse_stride = r->in.n,
        .lse2_stride = r->chunk};

    if (first)
        return mds_accumulate(r->p, 1, r->chunk * r->p->B * row, f->o2, m.acc.data);
    return mds_op_attention_merge(r->p->dev, &m);
}

static enum mds_rc block_fwd(const struct ring_fwd *f, const void *kv, int from, int qc,
                             int kc, int first)
{
    const struct ring *r = &f->r;
    int64_t D = r->in.D;
    struct mdsk_attention_fwd a = {
        .q = attention_heads(r->p, r->inside, r->in.row, qc * r->chunk, 0, D),
        .k = attention_heads(r->p, kv, r->kv_row, kc * r->chunk, 0, D),
        .v = attention_heads(r->p, kv, r->kv_row, kc * r->chunk, r->in.G, D),
        .o = attention_heads(r->p, f->o2, r->in.A * D, 0, 0, D),
        .lse = first ? f->lse + qc * r->chunk : f->lse2,
        .lse_stride = first ? r->in.n : r->chunk};

    if (!block_shape(r, from, qc, kc, &a.shape))
        return MDS_OK;
    MDS_TRY(mds_op_attention_fwd(r->p->dev, &a));
    return merge_block(f, qc, first);
}

/* The rank's own block comes first, and there each chunk against itself. */
static enum mds_rc round_fwd(const struct ring_fwd *f, const void *kv, int round)
{
    int from = block_owner(&f->r, round);

    for (int c = 0; c < 2; c++)
        MDS_TRY(block_fwd(f, kv, from, c, c, round == 0));
    MDS_TRY(block_fwd(f, kv, from, 0, 1, 0));
    return block_fwd(f, kv, from, 1, 0, 0);
}

/* Whether rows of the result have these heads alone. */
static int is_whole_result(const struct ring *r)
{
    return r->in.o_row == r->in.A * r->in.D;
}

/* Sums in f32 become these heads of the result. */
static enum mds_rc store_fwd(const struct ring_fwd *f, void *o)
{
    const struct ring *r = &f->r;
    const struct mds_par *p = r->p;
    int64_t row = r->in.A * r->in.D, rows = r->in.n * p->B;
    void *narrow = is_whole_result(r) ? o : NULL;

    if (!narrow)
        MDS_TRY(mds_par_alloc(p, MDS_MEM_WORK, rows * row, &narrow));
    MDS_TRY(mds_accumulate_store(p, rows * row, f->acc, narrow));
    if (narrow == o)
        return MDS_OK;
    return mds_par_copy_rows(p, rows, row, narrow, row,
                             mds_par_at(p, o, r->in.o_head * r->in.D), r->in.o_row);
}

enum mds_rc mds_ring_attention_fwd(const struct mds_par *p,
                                   const struct mds_attention *a, const void *inside,
                                   void *o, float *lse)
{
    struct ring_fwd f = {.r = ring_of(p, a, inside), .lse = lse};
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    int64_t n = f.r.in.n * p->B * f.r.in.A * f.r.in.D;
    struct ring_block kv = {.tag = 0};
    int in_place = p->dtype == MDSK_F32 && is_whole_result(&f.r);

    if (in_place)
        f.acc = o;
    MDS_TRY(alloc_kv(&f.r, &kv));
    MDS_TRY(mds_par_alloc(p, MDS_MEM_WORK, n / 2, &f.o2));
    MDS_TRY(mds_par_alloc_f32(p, MDS_MEM_WORK, p->B * f.r.in.A * f.r.chunk, &f.lse2));
    if (!in_place)
        MDS_TRY(mds_par_alloc_f32(p, MDS_MEM_WORK, n, &f.acc));
    for (int round = 0; round < f.r.P; round++) {
        if (round + 1 < f.r.P)
            MDS_TRY(send_to_next(&f.r, &kv));
        MDS_TRY(round_fwd(&f, kv.here, round));
        MDS_TRY(wait_for_block(&kv));
    }
    if (!in_place)
        MDS_TRY(store_fwd(&f, o));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

/* ---- backward ---- */

struct ring_bwd {
    struct ring r;
    struct ring_block kv, dkv; /* a block, and behind it its gradient, in f32 */
    const void *o, *d_o;       /* attention's result, and its gradient */
    const float *lse;          /* [B, A, n] */
    float *dq;                 /* [n, B, A D], summed up here */
    void *dq2, *dkv2;          /* one block's: [chunk, B, A D], [chunk, B, kv_row] */
    float *delta;              /* [B, A, chunk] */
};

/* The block's gradient of the ranks before arrives while the first part of this one's
 * is computed. */
static enum mds_rc block_bwd(struct ring_bwd *b, int from, int qc, int kc)
{
    const struct ring *r = &b->r;
    const struct mds_par *p = r->p;
    const void *kv = b->kv.here;
    int64_t D = r->in.D, row = r->in.A * D, q = qc * r->chunk, k = kc * r->chunk;
    struct mdsk_attention_bwd a = {
        .q = attention_heads(p, r->inside, r->in.row, q, 0, D),
        .k = attention_heads(p, kv, r->kv_row, k, 0, D),
        .v = attention_heads(p, kv, r->kv_row, k, r->in.G, D),
        .o = attention_result(p, &r->in, b->o, q),
        .d_o = attention_result(p, &r->in, b->d_o, q),
        .dq = attention_heads(p, b->dq2, row, 0, 0, D),
        .dk = attention_heads(p, b->dkv2, r->kv_row, 0, 0, D),
        .dv = attention_heads(p, b->dkv2, r->kv_row, 0, r->in.G, D),
        .lse = b->lse + q,
        .lse_stride = r->in.n,
        .delta = b->delta};

    if (!block_shape(r, from, qc, kc, &a.shape))
        return MDS_OK;
    MDS_TRY(mds_op_attention_bwd(p->dev, &a));
    MDS_TRY(
        mds_accumulate(p, 0, r->chunk * p->B * row, b->dq2, b->dq + q * p->B * row));
    MDS_TRY(wait_for_block(&b->dkv));
    return mds_accumulate(p, 0, r->chunk * p->B * r->kv_row, b->dkv2,
                          (float *)b->dkv.here + k * p->B * r->kv_row);
}

static enum mds_rc alloc_bwd(struct ring_bwd *b)
{
    const struct mds_par *p = b->r.p;
    int64_t nq = b->r.in.n * p->B * b->r.in.A * b->r.in.D;
    int64_t nkv = b->r.in.n * p->B * b->r.kv_row;
    float *here = NULL, *next = NULL;

    MDS_TRY(alloc_kv(&b->r, &b->kv));
    MDS_TRY(mds_par_alloc_f32(p, MDS_MEM_COMM, nkv, &here));
    MDS_TRY(mds_par_alloc_f32(p, MDS_MEM_COMM, nkv, &next));
    b->dkv = (struct ring_block){
        .here = here, .next = next, .bytes = nkv * (int64_t)sizeof *here, .tag = 1};
    MDS_TRY(mds_par_alloc_f32(p, MDS_MEM_WORK, nq, &b->dq));
    MDS_TRY(mds_par_alloc(p, MDS_MEM_WORK, nq / 2, &b->dq2));
    MDS_TRY(mds_par_alloc(p, MDS_MEM_WORK, nkv / 2, &b->dkv2));
    MDS_TRY(
        mds_par_alloc_f32(p, MDS_MEM_WORK, p->B * b->r.in.A * b->r.chunk, &b->delta));
    mds_dev_zero(p->dev, b->dq, nq * (int64_t)sizeof *b->dq);
    mds_dev_zero(p->dev, here, nkv * (int64_t)sizeof *here);
    return MDS_OK;
}

/* Sums in f32 become the gradient inside, [n, B, row]. */
static enum mds_rc store_bwd(const struct ring_bwd *b, void *dinside)
{
    const struct ring *r = &b->r;
    const struct mds_par *p = r->p;
    int64_t q_row = r->in.A * r->in.D, rows = r->in.n * p->B;
    const void *dq = b->dq, *dk = b->dkv.here;
    void *narrow = NULL, *narrow_kv = NULL;

    if (p->dtype != MDSK_F32) {
        MDS_TRY(mds_par_alloc(p, MDS_MEM_WORK, rows * q_row, &narrow));
        MDS_TRY(mds_par_alloc(p, MDS_MEM_WORK, rows * r->kv_row, &narrow_kv));
        MDS_TRY(mds_accumulate_store(p, rows * q_row, b->dq, narrow));
        MDS_TRY(mds_accumulate_store(p, rows * r->kv_row, b->dkv.here, narrow_kv));
        dq = narrow;
        dk = narrow_kv;
    }
    MDS_TRY(mds_par_copy_rows(p, rows, q_row, dq, q_row, dinside, r->in.row));
    return mds_par_copy_rows(p, rows, r->kv_row, dk, r->kv_row,
                             mds_par_at(p, dinside, q_row), r->in.row);
}

/* A block's gradient travels behind the block, and is back after P steps. */
enum mds_rc mds_ring_attention_bwd(const struct mds_par *p,
                                   const struct mds_attention *a, const void *inside,
                                   const void *o, const float *lse, const void *d_o,
                                   void *dinside)
{
    struct ring_bwd b = {.r = ring_of(p, a, inside), .o = o, .d_o = d_o, .lse = lse};
    struct mds_arena_mark mark = mds_arena_mark(p->arena);

    MDS_TRY(alloc_bwd(&b));
    for (int round = 0; round < b.r.P; round++) {
        int from = block_owner(&b.r, round);

        if (round + 1 < b.r.P)
            MDS_TRY(send_to_next(&b.r, &b.kv));
        for (int i = 0; i < 4; i++)
            MDS_TRY(block_bwd(&b, from, i / 2, i % 2));
        MDS_TRY(send_to_next(&b.r, &b.dkv));
        MDS_TRY(wait_for_block(&b.kv));
    }
    MDS_TRY(wait_for_block(&b.dkv));
    MDS_TRY(store_bwd(&b, dinside));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}
