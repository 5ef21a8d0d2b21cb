/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention within a window, of sequences split over a ring.
 *
 * Of the 2P chunks that the sequence is cut in (shard.h) the queries of chunk q see the
 * chunk itself and the window - 1 tokens before it.  Only these tokens are sent: they
 * pass from chunk to chunk, q - 1 to q, in steps of one chunk.  In step h chunk q gets
 * its tokens of chunk q - h, which chunk q - 1 got in step h - 1.  Then one call has
 * all keys of a chunk's queries, and nothing is merged.  Backward, the gradients of
 * these tokens go the same way back, and are summed on it in f32.
 *
 * A rank's two chunks are q = rank, whose neighbours are at the ranks before and after,
 * and q = 2P - 1 - rank, whose neighbours are at those after and before.  The two
 * chunks in the middle are at the same rank. */
#include "base/minmax.h"
#include "parallel/attention_shape.h"
#include "parallel/sums.h"
#include "tensor/op.h"

enum { UP, DOWN }; /* to the next chunk, and to the one before */

/* This rank's chunk 0 or 1: keys and values of the tokens before it and its own. */
struct window_chunk {
    int64_t q;      /* which of the 2P */
    int64_t before; /* tokens before it that its queries see */
    void *kv;       /* [before + chunk, B, kv_row] */
    float *dkv;     /* likewise; backward */
    float *arrived; /* [chunk, B, kv_row] of the next chunk's dkv; backward */
};

struct window_ring {
    const struct mds_par *p;
    const struct mds_attention *a;
    struct attention_inside in;
    int P, me;
    int64_t chunk, kv_row;
    int64_t steps;
    const void *inside; /* [n, B, row] */
    struct window_chunk of[2];
};

/* Tokens first .. first + n - 1 of the sequence: what a chunk gets in one step. */
struct token_range {
    int64_t first, n;
};

static int64_t tokens_before(const struct window_ring *r, int64_t q)
{
    return mds_min(q * r->chunk, r->a->window - 1);
}

static struct window_ring window_ring_of(const struct mds_par *p,
                                         const struct mds_attention *a,
                                         const void *inside)
{
    struct window_ring r = {
        .p = p, .a = a, .in = attention_inside(p, a), .inside = inside};

    r.P = mds_groups_size(p->groups, MDS_AXIS_RING);
    r.me = mds_groups_rank(p->groups, MDS_AXIS_RING);
    r.chunk = r.in.n / 2;
    r.kv_row = 2 * r.in.G * r.in.D;
    r.steps = mds_ceil_div(tokens_before(&r, 2 * r.P - 1), r.chunk);
    for (int c = 0; c < 2; c++) {
        r.of[c].q = c == 0 ? r.me : 2 * r.P - 1 - r.me;
        r.of[c].before = tokens_before(&r, r.of[c].q);
    }
    return r;
}

static struct token_range range_at_step(const struct window_ring *r, int64_t q,
                                        int64_t step)
{
    int64_t end = (q - step + 1) * r->chunk;
    int64_t n = tokens_before(r, q) - (step - 1) * r->chunk;

    return q >= 2 * r->P || n <= 0
               ? (struct token_range){0}
               : (struct token_range){end - mds_min(n, r->chunk), mds_min(n, r->chunk)};
}

/* Elements of a buffer of a chunk before a token of the sequence. */
static int64_t elements_before(const struct window_ring *r,
                               const struct window_chunk *c, int64_t token)
{
    return (token - (c->q * r->chunk - c->before)) * r->p->B * r->kv_row;
}

static int64_t range_elements(const struct window_ring *r, const struct token_range *t)
{
    return t->n * r->p->B * r->kv_row;
}

/* ---- messages ---- */

/* The messages of a step: of either chunk one to or from its neighbours. */
struct step {
    struct mds_comm_p2p message[4];
    int n;
};

static int owner_of(const struct window_ring *r, int64_t q)
{
    return (int)(q < r->P ? q : 2 * r->P - 1 - q);
}

/* Messages to the next rank have lane 0, to the rank before MDS_WINDOW_LANE. */
static enum mds_rc start_message(const struct window_ring *r, struct step *s, int sends,
                                 int c, int direction, int64_t peer, void *buf,
                                 int64_t bytes)
{
    struct mds_comm *ring = mds_group(r->p->groups, MDS_AXIS_RING);
    struct mds_comm_p2p *m = &s->message[s->n++];
    int lane = (c == 0) == (direction == UP) ? 0 : MDS_WINDOW_LANE;

    return sends ? mds_comm_send_start(ring, buf, bytes, owner_of(r, peer), lane, m)
                 : mds_comm_recv_start(ring, buf, bytes, owner_of(r, peer), lane, m);
}

static enum mds_rc wait_for_messages(struct step *s)
{
    for (int i = 0; i < s->n; i++)
        MDS_TRY(mds_comm_p2p_wait(&s->message[i]));
    return MDS_OK;
}

static void *kv_at(const struct window_ring *r, int c, const struct token_range *t)
{
    return mds_par_at(r->p, r->of[c].kv, elements_before(r, &r->of[c], t->first));
}

static float *dkv_at(const struct window_ring *r, int c, const struct token_range *t)
{
    return r->of[c].dkv + elements_before(r, &r->of[c], t->first);
}

/* Tokens go up one chunk. */
static enum mds_rc send_keys_up(const struct window_ring *r, int64_t step)
{
    int64_t e = (int64_t)mdsk_dtype_size(r->p->dtype);
    struct step s = {.n = 0};

    for (int c = 0; c < 2; c++) {
        int64_t q = r->of[c].q;
        struct token_range in = range_at_step(r, q, step),
                           out = range_at_step(r, q + 1, step);
        int64_t n = range_elements(r, &in);

        if (in.n > 0 && q == r->P)
            MDS_TRY(mds_par_copy_rows(r->p, 1, n, kv_at(r, 0, &in), n, kv_at(r, 1, &in),
                                      n));
        else if (in.n > 0)
            MDS_TRY(start_message(r, &s, 0, c, UP, q - 1, kv_at(r, c, &in), n * e));
        if (out.n > 0 && q + 1 != r->P)
            MDS_TRY(start_message(r, &s, 1, c, UP, q + 1, kv_at(r, c, &out),
                                  range_elements(r, &out) * e));
    }
    return wait_for_messages(&s);
}

static enum mds_rc add_f32(const struct window_ring *r, const struct token_range *t,
                           const float *x, float *y)
{
    struct mdsk_add a = {.n = range_elements(r, t), .x = x, .y = y};

    return mds_op_add(r->p->dev, &a);
}

/* Gradients go down one chunk, and are added to those there. */
static enum mds_rc send_gradients_down(const struct window_ring *r, int64_t step)
{
    int64_t e = (int64_t)sizeof(float);
    struct step s = {.n = 0};

    for (int c = 0; c < 2; c++) {
        int64_t q = r->of[c].q;
        struct token_range out = range_at_step(r, q, step),
                           in = range_at_step(r, q + 1, step);

        if (out.n > 0 && q != r->P)
            MDS_TRY(start_message(r, &s, 1, c, DOWN, q - 1, dkv_at(r, c, &out),
                                  range_elements(r, &out) * e));
        if (in.n > 0 && q + 1 != r->P)
            MDS_TRY(start_message(r, &s, 0, c, DOWN, q + 1, r->of[c].arrived,
                                  range_elements(r, &in) * e));
    }
    MDS_TRY(wait_for_messages(&s));
    for (int c = 0; c < 2; c++) {
        struct token_range in = range_at_step(r, r->of[c].q + 1, step);
        int is_middle = r->of[c].q + 1 == r->P;

        if (in.n > 0)
            MDS_TRY(add_f32(r, &in, is_middle ? dkv_at(r, 1, &in) : r->of[c].arrived,
                            dkv_at(r, c, &in)));
    }
    return MDS_OK;
}

/* ---- keys and values of both chunks ---- */

static enum mds_rc collect_keys(struct window_ring *r)
{
    const struct mds_par *p = r->p;
    int64_t rows = r->chunk * p->B;

    for (int c = 0; c < 2; c++) {
        struct window_chunk *w = &r->of[c];
        struct token_range own = {w->q * r->chunk, r->chunk};
        int64_t from = c * rows * r->in.row + r->in.A * r->in.D;

        MDS_TRY(mds_par_alloc(p, MDS_MEM_COMM,
                              (w->before + r->chunk) * p->B * r->kv_row, &w->kv));
        MDS_TRY(mds_par_copy_rows(p, rows, r->kv_row, mds_par_at(p, r->inside, from),
                                  r->in.row, kv_at(r, c, &own), r->kv_row));
    }
    for (int64_t step = 1; step <= r->steps; step++)
        MDS_TRY(send_keys_up(r, step));
    return MDS_OK;
}

static struct mdsk_attention_shape chunk_shape(const struct window_ring *r, int c)
{
    const struct window_chunk *w = &r->of[c];
    struct mdsk_attention_shape s =
        attention_shape(r->p, r->a, r->chunk, w->before + r->chunk);

    s.q_offset = w->before;
    s.first_query = w->q * r->chunk;
    s.first_key = s.first_query - w->before;
    return s;
}

/* ---- forward ---- */

static enum mds_rc chunk_fwd(const struct window_ring *r, int c, void *o, float *lse)
{
    const struct mds_par *p = r->p;
    int64_t D = r->in.D, token = c * r->chunk;
    struct mdsk_attention_fwd f = {
        .shape = chunk_shape(r, c),
        .q = attention_heads(p, r->inside, r->in.row, token, 0, D),
        .k = attention_heads(p, r->of[c].kv, r->kv_row, 0, 0, D),
        .v = attention_heads(p, r->of[c].kv, r->kv_row, 0, r->in.G, D),
        .o = attention_result(p, &r->in, o, token),
        .lse = lse + token,
        .lse_stride = r->in.n};

    return mds_op_attention_fwd(p->dev, &f);
}

enum mds_rc mds_window_ring_fwd(const struct mds_par *p, const struct mds_attention *a,
                                const void *inside, void *o, float *lse)
{
    struct window_ring r = window_ring_of(p, a, inside);
    struct mds_arena_mark mark = mds_arena_mark(p->arena);

    MDS_TRY(collect_keys(&r));
    for (int c = 0; c < 2; c++)
        MDS_TRY(chunk_fwd(&r, c, o, lse));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

/* ---- backward ---- */

struct window_bwd {
    const void *o, *d_o; /* attention's result, and its gradient */
    const float *lse;    /* [B, A, n] */
    void *dinside;       /* [n, B, row] */
    void *dkv;           /* [before + chunk, B, kv_row], as the kernel writes it */
    float *delta;        /* [B, A, chunk] */
};

static enum mds_rc alloc_bwd(struct window_ring *r, struct window_bwd *b)
{
    const struct mds_par *p = r->p;
    int64_t token = p->B * r->kv_row, most = 0;

    for (int c = 0; c < 2; c++) {
        int64_t n = r->of[c].before + r->chunk;

        MDS_TRY(mds_par_alloc_f32(p, MDS_MEM_COMM, n * token, &r->of[c].dkv));
        MDS_TRY(mds_par_alloc_f32(p, MDS_MEM_COMM,
                                  mds_min(r->chunk, r->a->window - 1) * token,
                                  &r->of[c].arrived));
        most = mds_max(most, n);
    }
    MDS_TRY(mds_par_alloc(p, MDS_MEM_WORK, most * token, &b->dkv));
    return mds_par_alloc_f32(p, MDS_MEM_WORK, p->B * r->in.A * r->chunk, &b->delta);
}

/* The queries' gradient is complete, the keys' goes into the chunk's sum. */
static enum mds_rc chunk_bwd(const struct window_ring *r, int c,
                             const struct window_bwd *b)
{
    const struct mds_par *p = r->p;
    const struct window_chunk *w = &r->of[c];
    int64_t D = r->in.D, token = c * r->chunk;
    struct mdsk_attention_bwd a = {
        .shape = chunk_shape(r, c),
        .q = attention_heads(p, r->inside, r->in.row, token, 0, D),
        .k = attention_heads(p, w->kv, r->kv_row, 0, 0, D),
        .v = attention_heads(p, w->kv, r->kv_row, 0, r->in.G, D),
        .o = attention_result(p, &r->in, b->o, token),
        .d_o = attention_result(p, &r->in, b->d_o, token),
        .dq = attention_heads(p, b->dinside, r->in.row, token, 0, D),
        .dk = attention_heads(p, b->dkv, r->kv_row, 0, 0, D),
        .dv = attention_heads(p, b->dkv, r->kv_row, 0, r->in.G, D),
        .lse = b->lse + token,
        .lse_stride = r->in.n,
        .delta = b->delta};

    MDS_TRY(mds_op_attention_bwd(p->dev, &a));
    return mds_accumulate(p, 1, (w->before + r->chunk) * p->B * r->kv_row, b->dkv,
                          w->dkv);
}

/* The sum of a chunk's own keys becomes their gradient. */
static enum mds_rc store_keys(const struct window_ring *r, int c,
                              const struct window_bwd *b)
{
    const struct mds_par *p = r->p;
    struct token_range own = {r->of[c].q * r->chunk, r->chunk};
    int64_t rows = r->chunk * p->B, to = c * rows * r->in.row + r->in.A * r->in.D;

    MDS_TRY(mds_accumulate_store(p, rows * r->kv_row, dkv_at(r, c, &own), b->dkv));
    return mds_par_copy_rows(p, rows, r->kv_row, b->dkv, r->kv_row,
                             mds_par_at(p, b->dinside, to), r->in.row);
}

enum mds_rc mds_window_ring_bwd(const struct mds_par *p, const struct mds_attention *a,
                                const void *inside, const void *o, const float *lse,
                                const void *d_o, void *dinside)
{
    struct window_ring r = window_ring_of(p, a, inside);
    struct window_bwd b = {.o = o, .d_o = d_o, .lse = lse, .dinside = dinside};
    struct mds_arena_mark mark = mds_arena_mark(p->arena);

    MDS_TRY(collect_keys(&r));
    MDS_TRY(alloc_bwd(&r, &b));
    for (int c = 0; c < 2; c++)
        MDS_TRY(chunk_bwd(&r, c, &b));
    for (int64_t step = r.steps; step >= 1; step--)
        MDS_TRY(send_gradients_down(&r, step));
    for (int c = 0; c < 2; c++)
        MDS_TRY(store_keys(&r, c, &b));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}
