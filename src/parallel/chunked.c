/* SPDX-License-Identifier: BSD-3-Clause */
#include "parallel/chunked.h"
#include "base/minmax.h"
#include "parallel/attention_shape.h"
#include "parallel/sums.h"
#include "tensor/op.h"

/* The sequence in chunks; the last may be shorter. */
struct chunks {
    const struct mds_par *p;
    const struct mds_attention *a;
    const struct mds_chunked *f;
    struct attention_inside in;
    int64_t q_row, kv_row; /* elements of a row */
    int64_t n;             /* chunks */
};

static struct chunks chunks_of(const struct mds_par *p, const struct mds_attention *a,
                               const struct mds_chunked *f)
{
    struct chunks c = {.p = p, .a = a, .f = f, .in = attention_inside(p, a)};

    c.q_row = c.in.A * c.in.D;
    c.kv_row = 2 * c.in.G * c.in.D;
    c.n = (c.in.n + f->chunk - 1) / f->chunk;
    return c;
}

static int64_t chunk_tokens(const struct chunks *c, int64_t i)
{
    int64_t left = c->in.n - i * c->f->chunk;

    return mds_min(left, c->f->chunk);
}

/* Elements of chunk i, in rows of `row`; no chunk is longer than the first. */
static int64_t chunk_elements(const struct chunks *c, int64_t i, int64_t row)
{
    return chunk_tokens(c, i) * c->p->B * row;
}

static enum mds_rc open_buffer(const struct chunks *c, void *host, int64_t row,
                               int64_t e, int slots, struct mds_multibuffer *w)
{
    int64_t bytes = c->p->B * row * e;

    return mds_multibuffer_open(c->p, host, c->in.n * bytes, c->f->chunk * bytes, slots,
                                w);
}

/* The first chunk of keys that queries i see any of, and the last chunk of queries that
 * see any of keys j. */
static int64_t first_chunk(const struct chunks *c, int64_t i)
{
    int64_t first = i * c->f->chunk + 1 - c->a->window;

    return c->a->window > 0 && first > 0 ? first / c->f->chunk : 0;
}

static int64_t last_chunk(const struct chunks *c, int64_t j)
{
    int64_t last = j * c->f->chunk + chunk_tokens(c, j) - 1 + c->a->window - 1;

    return c->a->window > 0 ? mds_min(last / c->f->chunk, c->n - 1) : c->n - 1;
}

/* Queries i against keys j <= i. */
static struct mdsk_attention_shape pair_shape(const struct chunks *c, int64_t i,
                                              int64_t j)
{
    struct mdsk_attention_shape s =
        attention_shape(c->p, c->a, chunk_tokens(c, i), chunk_tokens(c, j));

    s.q_offset = (i - j) * c->f->chunk;
    s.first_query = i * c->f->chunk;
    s.first_key = j * c->f->chunk;
    return s;
}

/* ---- forward ---- */

struct forward {
    struct chunks c;
    struct mds_multibuffer q, kv, o;
    float *acc;        /* [chunk, B, A D] */
    void *o2;          /* [chunk, B, A D] */
    float *lse, *lse2; /* [B, A, n], [B, A, chunk] */
};

static enum mds_rc alloc_fwd(struct forward *w)
{
    const struct chunks *c = &w->c;
    int64_t e = (int64_t)mdsk_dtype_size(c->p->dtype);

    MDS_TRY(open_buffer(c, c->f->q, c->q_row, e, 2, &w->q));
    MDS_TRY(open_buffer(c, c->f->kv, c->kv_row, e, 2, &w->kv));
    MDS_TRY(open_buffer(c, c->f->o, c->q_row, e, 2, &w->o));
    MDS_TRY(
        mds_par_alloc_f32(c->p, MDS_MEM_WORK, chunk_elements(c, 0, c->q_row), &w->acc));
    MDS_TRY(mds_par_alloc(c->p, MDS_MEM_WORK, chunk_elements(c, 0, c->q_row), &w->o2));
    return mds_par_alloc_f32(c->p, MDS_MEM_WORK, chunk_elements(c, 0, c->in.A),
                             &w->lse2);
}

static enum mds_rc merge_chunk(const struct forward *w, int64_t i)
{
    const struct chunks *c = &w->c;
    const struct mds_par *p = c->p;
    struct mdsk_attention_merge m = {
        .B = p->B,
        .A = c->in.A,
        .Sq = chunk_tokens(c, i),
        .D = c->in.D,
        .dtype = p->dtype,
        .acc = {w->acc, c->q_row, p->B * c->q_row, c->in.D},
        .o2 = attention_heads(p, w->o2, c->q_row, 0, 0, c->in.D),
        .lse = w->lse + i * c->f->chunk,
        .lse2 = w->lse2,
        .lse_stride = c->in.n,
        .lse2_stride = chunk_tokens(c, i)};

    return mds_op_attention_merge(p->dev, &m);
}

static enum mds_rc pair_fwd(struct forward *w, int64_t i, int64_t j)
{
    const struct chunks *c = &w->c;
    const struct mds_par *p = c->p;
    const void *q = mds_multibuffer_get(&w->q, i), *kv = mds_multibuffer_get(&w->kv, j);
    int64_t D = c->in.D;
    int first = j == first_chunk(c, i);
    struct mdsk_attention_fwd a = {.shape = pair_shape(c, i, j),
                                   .q = attention_heads(p, q, c->q_row, 0, 0, D),
                                   .k = attention_heads(p, kv, c->kv_row, 0, 0, D),
                                   .v =
                                       attention_heads(p, kv, c->kv_row, 0, c->in.G, D),
                                   .o = attention_heads(p, w->o2, c->q_row, 0, 0, D),
                                   .lse = first ? w->lse + i * c->f->chunk : w->lse2,
                                   .lse_stride = first ? c->in.n : chunk_tokens(c, i)};

    mds_multibuffer_prefetch(&w->kv, j < i ? j + 1 : first_chunk(c, i + 1));
    mds_multibuffer_prefetch(&w->q, i + 1);
    MDS_TRY(mds_op_attention_fwd(p->dev, &a));
    return first ? mds_accumulate(p, 1, chunk_elements(c, i, c->q_row), w->o2, w->acc)
                 : merge_chunk(w, i);
}

enum mds_rc mds_chunked_fwd(const struct mds_par *p, const struct mds_attention *a,
                            const struct mds_chunked *f, float *lse)
{
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    struct forward w = {.c = chunks_of(p, a, f), .lse = lse};

    MDS_TRY(alloc_fwd(&w));
    for (int64_t i = 0; i < w.c.n; i++) {
        for (int64_t j = first_chunk(&w.c, i); j <= i; j++)
            MDS_TRY(pair_fwd(&w, i, j));
        MDS_TRY(mds_accumulate_store(p, chunk_elements(&w.c, i, w.c.q_row), w.acc,
                                     mds_multibuffer_fill(&w.o, i)));
        mds_multibuffer_offload(&w.o);
    }
    mds_multibuffer_close(&w.q);
    mds_multibuffer_close(&w.kv);
    mds_multibuffer_close(&w.o);
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

/* ---- backward ---- */

struct backward {
    struct chunks c;
    struct mds_multibuffer q, kv, o, d_o, dq;
    void *dq2, *dkv2; /* a pair's: [chunk, B, A D], [chunk, B, 2 G D] */
    float *dkv;       /* of the keys under way */
    float *delta;     /* [B, A, chunk] */
    const float *lse;
};

/* What is written has three slots each, so that the last chunk may go while the next
 * one comes. */
static enum mds_rc alloc_bwd(struct backward *w)
{
    const struct chunks *c = &w->c;
    int64_t e = (int64_t)mdsk_dtype_size(c->p->dtype);
    int64_t q = chunk_elements(c, 0, c->q_row), kv = chunk_elements(c, 0, c->kv_row);

    MDS_TRY(open_buffer(c, c->f->q, c->q_row, e, 3, &w->q));
    MDS_TRY(open_buffer(c, c->f->kv, c->kv_row, e, 3, &w->kv));
    MDS_TRY(open_buffer(c, c->f->o, c->q_row, e, 2, &w->o));
    MDS_TRY(open_buffer(c, c->f->d_o, c->q_row, e, 2, &w->d_o));
    MDS_TRY(open_buffer(c, c->f->dq, c->q_row, (int64_t)sizeof *c->f->dq, 3, &w->dq));
    MDS_TRY(mds_par_alloc(c->p, MDS_MEM_WORK, q, &w->dq2));
    MDS_TRY(mds_par_alloc(c->p, MDS_MEM_WORK, kv, &w->dkv2));
    MDS_TRY(mds_par_alloc_f32(c->p, MDS_MEM_WORK, kv, &w->dkv));
    return mds_par_alloc_f32(c->p, MDS_MEM_WORK, chunk_elements(c, 0, c->in.A),
                             &w->delta);
}

/* Begin to bring what the pair after (i, j) needs: queries go on to the last, and then
 * keys by one. */
static void prefetch_next(struct backward *w, int64_t i, int64_t j)
{
    int64_t next = i < last_chunk(&w->c, j) ? i + 1 : j + 1;
    int64_t keys = i < last_chunk(&w->c, j) ? j : j + 1;

    if (next == i)
        return;
    mds_multibuffer_prefetch(&w->q, next);
    mds_multibuffer_prefetch(&w->o, next);
    mds_multibuffer_prefetch(&w->d_o, next);
    if (keys > first_chunk(&w->c, next))
        mds_multibuffer_prefetch(&w->dq, next);
}

/* A pair's gradients are added up; queries that have met all their keys are done. */
static enum mds_rc accumulate_pair(struct backward *w, int64_t i, int64_t j, void *q,
                                   float *dq)
{
    const struct chunks *c = &w->c;
    int64_t n = chunk_elements(c, i, c->q_row);

    MDS_TRY(mds_accumulate(c->p, j == first_chunk(c, i), n, w->dq2, dq));
    MDS_TRY(
        mds_accumulate(c->p, i == j, chunk_elements(c, j, c->kv_row), w->dkv2, w->dkv));
    if (i > j) {
        mds_multibuffer_offload(&w->dq);
        return MDS_OK;
    }
    MDS_TRY(mds_accumulate_store(c->p, n, dq, q));
    mds_multibuffer_offload(&w->q);
    return MDS_OK;
}

static enum mds_rc pair_bwd(struct backward *w, int64_t i, int64_t j, const void *kv)
{
    const struct chunks *c = &w->c;
    const struct mds_par *p = c->p;
    int64_t D = c->in.D;
    void *q = mds_multibuffer_get(&w->q, i), *o = mds_multibuffer_get(&w->o, i);
    void *d_o = mds_multibuffer_get(&w->d_o, i);
    float *dq = j == first_chunk(c, i) ? mds_multibuffer_fill(&w->dq, i)
                                       : mds_multibuffer_get(&w->dq, i);
    struct mdsk_attention_bwd a = {
        .shape = pair_shape(c, i, j),
        .q = attention_heads(p, q, c->q_row, 0, 0, D),
        .k = attention_heads(p, kv, c->kv_row, 0, 0, D),
        .v = attention_heads(p, kv, c->kv_row, 0, c->in.G, D),
        .o = attention_heads(p, o, c->q_row, 0, 0, D),
        .d_o = attention_heads(p, d_o, c->q_row, 0, 0, D),
        .dq = attention_heads(p, w->dq2, c->q_row, 0, 0, D),
        .dk = attention_heads(p, w->dkv2, c->kv_row, 0, 0, D),
        .dv = attention_heads(p, w->dkv2, c->kv_row, 0, c->in.G, D),
        .lse = w->lse + i * c->f->chunk,
        .lse_stride = c->in.n,
        .delta = w->delta};

    prefetch_next(w, i, j);
    MDS_TRY(mds_op_attention_bwd(p->dev, &a));
    return accumulate_pair(w, i, j, q, dq);
}

enum mds_rc mds_chunked_bwd(const struct mds_par *p, const struct mds_attention *a,
                            const struct mds_chunked *f, const float *lse)
{
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    struct backward w = {.c = chunks_of(p, a, f), .lse = lse};
    struct mds_multibuffer *all[] = {&w.q, &w.kv, &w.o, &w.d_o, &w.dq};

    MDS_TRY(alloc_bwd(&w));
    for (int64_t j = 0; j < w.c.n; j++) {
        void *kv = mds_multibuffer_get(&w.kv, j);

        mds_multibuffer_prefetch(&w.kv, j + 1);
        for (int64_t i = j; i <= last_chunk(&w.c, j); i++)
            MDS_TRY(pair_bwd(&w, i, j, kv));
        MDS_TRY(
            mds_accumulate_store(p, chunk_elements(&w.c, j, w.c.kv_row), w.dkv, kv));
        mds_multibuffer_offload(&w.kv);
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        mds_multibuffer_close(all[i]);
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

/* ---- tiles of rows ---- */

enum mds_rc mds_chunked_open(const struct mds_par *p, const struct mds_attention *a,
                             const struct mds_chunked *f, int64_t rows,
                             struct mds_chunked_rows *out)
{
    int64_t e = (int64_t)mdsk_dtype_size(p->dtype);
    int64_t q = a->A * a->D * e, kv = 2 * a->G * a->D * e, all = mds_par_rows(p);

    MDS_TRY(mds_multibuffer_open(p, f->q, all * q, rows * q, 2, &out->q));
    return mds_multibuffer_open(p, f->kv, all * kv, rows * kv, 2, &out->kv);
}

void mds_chunked_close(struct mds_chunked_rows *r)
{
    mds_multibuffer_close(&r->q);
    mds_multibuffer_close(&r->kv);
}

/* Which chunk begins at a row. */
static int64_t chunk_at_row(const struct mds_par *p, const struct mds_attention *a,
                            const struct mds_multibuffer *q, int64_t row)
{
    return row * a->A * a->D * (int64_t)mdsk_dtype_size(p->dtype) / q->chunk_bytes;
}

enum mds_rc mds_chunked_put(const struct mds_par *tile, const struct mds_attention *a,
                            struct mds_chunked_rows *r, int64_t row, void *qkv)
{
    int64_t q = a->A * a->D, kv = 2 * a->G * a->D, R = mds_par_rows(tile);
    int64_t chunk = chunk_at_row(tile, a, &r->q, row);

    MDS_TRY(mds_attention_rotate(tile, a, qkv, 0));
    MDS_TRY(mds_par_copy_rows(tile, R, q, qkv, q + kv,
                              mds_multibuffer_fill(&r->q, chunk), q));
    MDS_TRY(mds_par_copy_rows(tile, R, kv, mds_par_at(tile, qkv, q), q + kv,
                              mds_multibuffer_fill(&r->kv, chunk), kv));
    mds_multibuffer_offload(&r->q);
    mds_multibuffer_offload(&r->kv);
    return MDS_OK;
}

enum mds_rc mds_chunked_get(const struct mds_par *tile, const struct mds_attention *a,
                            struct mds_chunked_rows *r, int64_t row, void *dqkv)
{
    int64_t q = a->A * a->D, kv = 2 * a->G * a->D, R = mds_par_rows(tile);
    int64_t chunk = chunk_at_row(tile, a, &r->q, row);
    const void *dq = mds_multibuffer_get(&r->q, chunk),
               *dkv = mds_multibuffer_get(&r->kv, chunk);

    mds_multibuffer_prefetch(&r->q, chunk + 1);
    mds_multibuffer_prefetch(&r->kv, chunk + 1);
    MDS_TRY(mds_par_copy_rows(tile, R, q, dq, q, dqkv, q + kv));
    MDS_TRY(mds_par_copy_rows(tile, R, kv, dkv, kv, mds_par_at(tile, dqkv, q), q + kv));
    return mds_attention_rotate(tile, a, dqkv, 1);
}
