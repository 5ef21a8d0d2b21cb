/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/unfused/attention.h"

#include <errno.h>

/* Rows of operands are padded to multiples of 16 bytes, for tensor cores. */
enum { WIDTH_MULTIPLE = 8, KEY_MULTIPLE = 64, MIN_ROWS = 16, KEY_STEPS = 8 };

/* Sizes: queries per block; keys, padded; and the step in which the number of keys
 * grows along the causal mask.  The step is coarse because each number of keys is a
 * GEMM shape that needs a plan. */
struct extent {
    int64_t rows, keys, step, width;
    int64_t reach; /* keys that the queries of a block see within a window */
};

struct scratch {
    void *q, *k, *v, *o, *d_o; /* [rows, width], k and v [keys, width] */
    float *scores, *d_p;       /* [rows, keys] */
    void *p, *ds;
    float *sum;     /* [rows, width] */
    float *dk, *dv; /* [keys, width] */
};

struct pass {
    const struct mdsk_unfused_steps *steps;
    void *stream;
    const struct mdsk_attention_shape *s;
    enum mdsk_dtype operand;
    struct extent e;
    struct scratch scratch;
};

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t round_up(int64_t n, int64_t of)
{
    return mdsk_ceil_div(n, of) * of;
}

static struct extent extent_of(const struct mdsk_attention_shape *s, int64_t operand,
                               int backward)
{
    const int64_t number = (int64_t)sizeof(float) + operand;
    struct extent e = {.keys = round_up(s->Sk, KEY_MULTIPLE),
                       .width = round_up(s->D, WIDTH_MULTIPLE)};

    e.step = round_up(mdsk_ceil_div(s->Sk, KEY_STEPS), KEY_MULTIPLE);
    e.rows = MDSK_UNFUSED_SCORES / (e.keys * (backward ? 2 : 1) * number);
    e.rows = min_i64(e.rows < MIN_ROWS ? MIN_ROWS : e.rows, s->Sq);
    e.rows = mdsk_ceil_div(s->Sq, mdsk_ceil_div(s->Sq, e.rows)); /* in equal parts */
    e.reach = round_up(min_i64(s->window, s->Sk) + e.rows, KEY_MULTIPLE) + KEY_MULTIPLE;
    return e;
}

static void *carve(char *base, int64_t *at, int64_t bytes)
{
    void *p = base ? base + *at : NULL;

    *at += round_up(bytes, 256);
    return p;
}

/* Divide the scratch memory at base; *bytes = its size. */
static struct scratch carve_scratch(const struct extent *e, int64_t operand,
                                    int backward, char *base, int64_t *bytes)
{
    const int64_t f32 = sizeof(float), queries = e->rows * e->width;
    const int64_t keys = e->keys * e->width, scores = e->rows * e->keys;
    struct scratch r = {0};

    *bytes = 0;
    r.q = carve(base, bytes, queries * operand);
    r.k = carve(base, bytes, keys * operand);
    r.v = carve(base, bytes, keys * operand);
    r.scores = carve(base, bytes, scores * f32);
    r.p = carve(base, bytes, scores * operand);
    r.sum = carve(base, bytes, queries * f32);
    if (!backward)
        return r;
    r.o = carve(base, bytes, queries * operand);
    r.d_o = carve(base, bytes, queries * operand);
    r.d_p = carve(base, bytes, scores * f32);
    r.ds = carve(base, bytes, scores * operand);
    r.dk = carve(base, bytes, keys * f32);
    r.dv = carve(base, bytes, keys * f32);
    return r;
}

int64_t mdsk_unfused_attention_bytes(const struct mdsk_attention_shape *s,
                                     enum mdsk_dtype operand, int backward)
{
    const int64_t size = (int64_t)mdsk_dtype_size(operand);
    struct extent e = extent_of(s, size, backward);
    int64_t bytes;

    carve_scratch(&e, size, backward, NULL, &bytes);
    return bytes;
}

static int begin_pass(struct pass *w, int backward)
{
    int64_t size, bytes;
    char *base;

    w->operand = w->steps->wide ? MDSK_F32 : w->s->dtype;
    size = (int64_t)mdsk_dtype_size(w->operand);
    w->e = extent_of(w->s, size, backward);
    carve_scratch(&w->e, size, backward, NULL, &bytes);
    base = w->steps->scratch(w->stream, bytes);
    if (!base)
        return -ENOMEM;
    w->scratch = carve_scratch(&w->e, size, backward, base, &bytes);
    return 0;
}

/* ---- heads in and out ---- */

static struct mdsk_unfused_tokens query_tokens(const struct pass *w,
                                               const struct mdsk_unfused_block *x,
                                               const struct mdsk_heads *heads)
{
    return (struct mdsk_unfused_tokens){.heads = *heads,
                                        .dtype = w->s->dtype,
                                        .b = x->b,
                                        .h = x->h,
                                        .first = x->first,
                                        .n = x->m,
                                        .D = w->s->D,
                                        .rows = x->m,
                                        .width = w->e.width};
}

static struct mdsk_unfused_tokens key_tokens(const struct pass *w, int64_t b, int64_t g,
                                             const struct mdsk_heads *heads)
{
    return (struct mdsk_unfused_tokens){.heads = *heads,
                                        .dtype = w->s->dtype,
                                        .b = b,
                                        .h = g,
                                        .n = w->s->Sk,
                                        .D = w->s->D,
                                        .rows = w->e.keys,
                                        .width = w->e.width};
}

static int pack_heads(const struct pass *w, struct mdsk_unfused_tokens t, void *to)
{
    return w->steps->pack(w->stream, &t, to);
}

static int unpack_heads(const struct pass *w, struct mdsk_unfused_tokens t,
                        const float *from)
{
    return w->steps->unpack(w->stream, &t, from);
}

static int load_keys(const struct pass *w, int64_t b, int64_t g,
                     const struct mdsk_heads *k, const struct mdsk_heads *v)
{
    int err = pack_heads(w, key_tokens(w, b, g, k), w->scratch.k);

    return err ? err : pack_heads(w, key_tokens(w, b, g, v), w->scratch.v);
}

/* ---- blocks of queries ---- */

/* The block that begins at query `first`, with the keys that any of its queries sees.
 * Within a window these are as many for each block; those before the document of its
 * first query are left out where it can be known. */
static struct mdsk_unfused_block query_block(const struct pass *w, int64_t b, int64_t h,
                                             int64_t first)
{
    int64_t m = min_i64(w->e.rows, w->s->Sq - first), windowed = w->s->window > 0;
    int64_t key = mdsk_attention_window_key(w->s, first) / KEY_MULTIPLE * KEY_MULTIPLE;
    int64_t end =
        windowed ? key + w->e.reach : round_up(first + m + w->s->q_offset, w->e.step);

    end = min_i64(w->e.keys, end);
    if (w->steps->here)
        key = mdsk_attention_first_key(w->s, b, first) / KEY_MULTIPLE * KEY_MULTIPLE;
    key = min_i64(key, end - KEY_MULTIPLE);
    return (struct mdsk_unfused_block){.shape = *w->s,
                                       .b = b,
                                       .h = h,
                                       .first = first,
                                       .m = m,
                                       .key = key,
                                       .n = end - key};
}

/* The block's rows of an array that has one for each key. */
static void *from_key(const struct pass *w, const struct mdsk_unfused_block *x,
                      void *rows, enum mdsk_dtype type)
{
    return (char *)rows + x->key * w->e.width * (int64_t)mdsk_dtype_size(type);
}

static int run_gemm(const struct pass *w, struct mdsk_unfused_gemm p)
{
    p.dtype = w->operand;
    return w->steps->gemm(w->stream, &p);
}

/* c [m,n] = x [m,width] y^T, for y [n,width] */
static int scores_of(const struct pass *w, const struct mdsk_unfused_block *x,
                     const void *rows, void *keys, float *c)
{
    return run_gemm(w, (struct mdsk_unfused_gemm){.m = x->m,
                                                  .n = x->n,
                                                  .k = w->e.width,
                                                  .a = rows,
                                                  .b = from_key(w, x, keys, w->operand),
                                                  .c = c,
                                                  .flip_b = 1});
}

/* sum [m,width] = scores [m,n] keys [n,width] */
static int sum_over_keys(const struct pass *w, const struct mdsk_unfused_block *x,
                         const void *scores, void *keys)
{
    return run_gemm(w, (struct mdsk_unfused_gemm){.m = x->m,
                                                  .n = w->e.width,
                                                  .k = x->n,
                                                  .a = scores,
                                                  .b = from_key(w, x, keys, w->operand),
                                                  .c = w->scratch.sum});
}

/* c [n,width] += scores^T rows, for scores [m,n], rows [m,width] */
static int sum_over_queries(const struct pass *w, const struct mdsk_unfused_block *x,
                            const void *scores, const void *rows, float *c)
{
    return run_gemm(w, (struct mdsk_unfused_gemm){.m = x->n,
                                                  .n = w->e.width,
                                                  .k = x->m,
                                                  .a = scores,
                                                  .b = rows,
                                                  .c = from_key(w, x, c, MDSK_F32),
                                                  .flip_a = 1,
                                                  .add = 1});
}

/* Offset of the block in an array [B,A,Sq] whose rows are stride apart; 0: packed. */
static int64_t row_offset(const struct mdsk_unfused_block *x, int64_t stride)
{
    const struct mdsk_attention_shape *s = &x->shape;

    return (x->b * s->A + x->h) * (stride ? stride : s->Sq) + x->first;
}

static int forward_block(const struct pass *w, const struct mdsk_attention_fwd *a,
                         const struct mdsk_unfused_block *x)
{
    const struct scratch *r = &w->scratch;
    const struct mdsk_unfused_softmax_fwd soft = {
        .scores = r->scores, .p = r->p, .lse = a->lse + row_offset(x, a->lse_stride)};
    int err = pack_heads(w, query_tokens(w, x, &a->q), r->q);

    if (!err)
        err = scores_of(w, x, r->q, r->k, r->scores);
    if (!err)
        err = w->steps->softmax_fwd(w->stream, x, &soft);
    if (!err)
        err = sum_over_keys(w, x, r->p, r->v);
    return err ? err : unpack_heads(w, query_tokens(w, x, &a->o), r->sum);
}

int mdsk_unfused_attention_fwd(const struct mdsk_unfused_steps *steps, void *stream,
                               const struct mdsk_attention_fwd *a)
{
    const struct mdsk_attention_shape *s = &a->shape;
    const int64_t group = s->A / s->G;
    struct pass w = {.steps = steps, .stream = stream, .s = s};
    int err = begin_pass(&w, 0);

    for (int64_t t = 0; !err && t < s->B * s->A; t++) {
        int64_t b = t / s->A, h = t % s->A;

        if (h % group == 0)
            err = load_keys(&w, b, h / group, &a->k, &a->v);
        for (int64_t i = 0; !err && i < s->Sq; i += w.e.rows) {
            struct mdsk_unfused_block x = query_block(&w, b, h, i);

            err = forward_block(&w, a, &x);
        }
    }
    return err;
}

/* ---- backward ---- */

static int load_queries(const struct pass *w, const struct mdsk_attention_bwd *a,
                        const struct mdsk_unfused_block *x)
{
    int err = pack_heads(w, query_tokens(w, x, &a->q), w->scratch.q);

    if (!err)
        err = pack_heads(w, query_tokens(w, x, &a->o), w->scratch.o);
    return err ? err : pack_heads(w, query_tokens(w, x, &a->d_o), w->scratch.d_o);
}

/* p and ds of the block. */
static int softmax_bwd_block(const struct pass *w, const struct mdsk_attention_bwd *a,
                             const struct mdsk_unfused_block *x)
{
    const struct scratch *r = &w->scratch;
    const struct mdsk_unfused_softmax_bwd slope = {.scores = r->scores,
                                                   .d_p = r->d_p,
                                                   .o = r->o,
                                                   .d_o = r->d_o,
                                                   .width = w->e.width,
                                                   .lse = a->lse +
                                                          row_offset(x, a->lse_stride),
                                                   .delta = a->delta + row_offset(x, 0),
                                                   .p = r->p,
                                                   .ds = r->ds};
    int err = scores_of(w, x, r->q, r->k, r->scores);

    if (!err)
        err = scores_of(w, x, r->d_o, r->v, r->d_p);
    return err ? err : w->steps->softmax_bwd(w->stream, x, &slope);
}

static int backward_block(const struct pass *w, const struct mdsk_attention_bwd *a,
                          const struct mdsk_unfused_block *x)
{
    const struct scratch *r = &w->scratch;
    int err = load_queries(w, a, x);

    if (!err)
        err = softmax_bwd_block(w, a, x);
    if (!err)
        err = sum_over_queries(w, x, r->p, r->d_o, r->dv);
    if (!err)
        err = sum_over_queries(w, x, r->ds, r->q, r->dk);
    if (!err)
        err = sum_over_keys(w, x, r->ds, r->k);
    return err ? err : unpack_heads(w, query_tokens(w, x, &a->dq), r->sum);
}

/* One key/value head: dk and dv are summed over the query heads that share it. */
static int backward_group(const struct pass *w, const struct mdsk_attention_bwd *a,
                          int64_t b, int64_t g)
{
    const struct mdsk_attention_shape *s = w->s;
    const int64_t bytes = w->e.keys * w->e.width * (int64_t)sizeof(float);
    const int64_t group = s->A / s->G;
    int err = load_keys(w, b, g, &a->k, &a->v);

    if (!err)
        err = w->steps->zero(w->stream, w->scratch.dk, bytes);
    if (!err)
        err = w->steps->zero(w->stream, w->scratch.dv, bytes);
    for (int64_t h = g * group; h < (g + 1) * group; h++)
        for (int64_t i = 0; !err && i < s->Sq; i += w->e.rows) {
            struct mdsk_unfused_block x = query_block(w, b, h, i);

            err = backward_block(w, a, &x);
        }
    if (!err)
        err = unpack_heads(w, key_tokens(w, b, g, &a->dk), w->scratch.dk);
    return err ? err : unpack_heads(w, key_tokens(w, b, g, &a->dv), w->scratch.dv);
}

int mdsk_unfused_attention_bwd(const struct mdsk_unfused_steps *steps, void *stream,
                               const struct mdsk_attention_bwd *a)
{
    const struct mdsk_attention_shape *s = &a->shape;
    struct pass w = {.steps = steps, .stream = stream, .s = s};
    int err = begin_pass(&w, 1);

    for (int64_t t = 0; !err && t < s->B * s->G; t++)
        err = backward_group(&w, a, t / s->G, t % s->G);
    return err;
}
