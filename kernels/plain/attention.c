/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/plain/attention.h"

#include <errno.h>

/* Rows of operands are whole numbers of 16-byte pieces, as tensor cores want them. */
enum { WIDTHS = 8, KEYS = 64, FEWEST = 16, STRETCHES = 8 };

/* Sizes of a walk: queries at a time, of all keys; keys in whole KEYS, and the step in
 * which their number grows along a causal mask: every number of keys is a shape of
 * products that has to be planned. */
struct extent {
    int64_t rows, keys, step, width;
};

struct room {
    void *q, *k, *v, *o, *d_o; /* [rows, width], k and v [keys, width] */
    float *scores, *d_p;       /* [rows, keys] */
    void *p, *ds;
    float *sum;     /* [rows, width] */
    float *dk, *dv; /* [keys, width] */
};

struct walk {
    const struct mdsk_plain_steps *steps;
    void *stream;
    const struct mdsk_attention_shape *s;
    enum mdsk_dtype operand;
    struct extent e;
    struct room room;
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t parts(int64_t n, int64_t of)
{
    return (n + of - 1) / of;
}

static int64_t whole(int64_t n, int64_t of)
{
    return parts(n, of) * of;
}

static struct extent extent_of(const struct mdsk_attention_shape *s, int64_t operand,
                               int backward)
{
    const int64_t number = (int64_t)sizeof(float) + operand;
    struct extent e = {.keys = whole(s->Sk, KEYS), .width = whole(s->D, WIDTHS)};

    e.step = whole(parts(s->Sk, STRETCHES), KEYS);
    e.rows = MDSK_PLAIN_SCORES / (e.keys * (backward ? 2 : 1) * number);
    e.rows = smaller(e.rows < FEWEST ? FEWEST : e.rows, s->Sq);
    e.rows = parts(s->Sq, parts(s->Sq, e.rows)); /* in equal parts */
    return e;
}

static void *take(char *base, int64_t *at, int64_t bytes)
{
    void *p = base ? base + *at : NULL;

    *at += whole(bytes, 256);
    return p;
}

/* What a walk needs, from base on; *bytes in all. */
static struct room lay_out(const struct extent *e, int64_t operand, int backward,
                           char *base, int64_t *bytes)
{
    const int64_t f32 = sizeof(float), queries = e->rows * e->width;
    const int64_t keys = e->keys * e->width, scores = e->rows * e->keys;
    struct room r = {0};

    *bytes = 0;
    r.q = take(base, bytes, queries * operand);
    r.k = take(base, bytes, keys * operand);
    r.v = take(base, bytes, keys * operand);
    r.scores = take(base, bytes, scores * f32);
    r.p = take(base, bytes, scores * operand);
    r.sum = take(base, bytes, queries * f32);
    if (!backward)
        return r;
    r.o = take(base, bytes, queries * operand);
    r.d_o = take(base, bytes, queries * operand);
    r.d_p = take(base, bytes, scores * f32);
    r.ds = take(base, bytes, scores * operand);
    r.dk = take(base, bytes, keys * f32);
    r.dv = take(base, bytes, keys * f32);
    return r;
}

int64_t mdsk_plain_attention_bytes(const struct mdsk_attention_shape *s,
                                   enum mdsk_dtype operand, int backward)
{
    const int64_t size = (int64_t)mdsk_dtype_size(operand);
    struct extent e = extent_of(s, size, backward);
    int64_t bytes;

    lay_out(&e, size, backward, NULL, &bytes);
    return bytes;
}

static int begin(struct walk *w, int backward)
{
    int64_t size, bytes;
    char *base;

    w->operand = w->steps->wide ? MDSK_F32 : w->s->dtype;
    size = (int64_t)mdsk_dtype_size(w->operand);
    w->e = extent_of(w->s, size, backward);
    lay_out(&w->e, size, backward, NULL, &bytes);
    base = w->steps->room(w->stream, bytes);
    if (!base)
        return -ENOMEM;
    w->room = lay_out(&w->e, size, backward, base, &bytes);
    return 0;
}

/* ---- heads in and out ---- */

static struct mdsk_plain_tokens queries_of(const struct walk *w,
                                           const struct mdsk_plain_block *x,
                                           const struct mdsk_heads *heads)
{
    return (struct mdsk_plain_tokens){.heads = *heads,
                                      .dtype = w->s->dtype,
                                      .b = x->b,
                                      .h = x->h,
                                      .first = x->first,
                                      .n = x->m,
                                      .D = w->s->D,
                                      .rows = x->m,
                                      .width = w->e.width};
}

static struct mdsk_plain_tokens keys_of(const struct walk *w, int64_t b, int64_t g,
                                        const struct mdsk_heads *heads)
{
    return (struct mdsk_plain_tokens){.heads = *heads,
                                      .dtype = w->s->dtype,
                                      .b = b,
                                      .h = g,
                                      .n = w->s->Sk,
                                      .D = w->s->D,
                                      .rows = w->e.keys,
                                      .width = w->e.width};
}

static int pack(const struct walk *w, struct mdsk_plain_tokens t, void *to)
{
    return w->steps->pack(w->stream, &t, to);
}

static int unpack(const struct walk *w, struct mdsk_plain_tokens t, const float *from)
{
    return w->steps->unpack(w->stream, &t, from);
}

static int load_keys(const struct walk *w, int64_t b, int64_t g,
                     const struct mdsk_heads *k, const struct mdsk_heads *v)
{
    int err = pack(w, keys_of(w, b, g, k), w->room.k);

    return err ? err : pack(w, keys_of(w, b, g, v), w->room.v);
}

/* ---- blocks of queries ---- */

/* The block that begins at query `first`, with the keys that any of its queries sees.
 */
static struct mdsk_plain_block block_of(const struct walk *w, int64_t b, int64_t h,
                                        int64_t first)
{
    int64_t m = smaller(w->e.rows, w->s->Sq - first);
    int64_t seen = whole(first + m + w->s->q_offset, w->e.step);

    return (struct mdsk_plain_block){.shape = *w->s,
                                     .b = b,
                                     .h = h,
                                     .first = first,
                                     .m = m,
                                     .n = smaller(w->e.keys, seen)};
}

static int multiply(const struct walk *w, struct mdsk_plain_product p)
{
    p.dtype = w->operand;
    return w->steps->product(w->stream, &p);
}

/* c [m,n] = x [m,width] y^T, for y [n,width] */
static int against_keys(const struct walk *w, const struct mdsk_plain_block *x,
                        const void *rows, const void *keys, float *c)
{
    return multiply(w, (struct mdsk_plain_product){.m = x->m,
                                                   .n = x->n,
                                                   .k = w->e.width,
                                                   .a = rows,
                                                   .b = keys,
                                                   .c = c,
                                                   .flip_b = 1});
}

/* sum [m,width] = scores [m,n] keys [n,width] */
static int over_keys(const struct walk *w, const struct mdsk_plain_block *x,
                     const void *scores, const void *keys)
{
    return multiply(w, (struct mdsk_plain_product){.m = x->m,
                                                   .n = w->e.width,
                                                   .k = x->n,
                                                   .a = scores,
                                                   .b = keys,
                                                   .c = w->room.sum});
}

/* c [n,width] += scores^T rows, for scores [m,n], rows [m,width] */
static int over_queries(const struct walk *w, const struct mdsk_plain_block *x,
                        const void *scores, const void *rows, float *c)
{
    return multiply(w, (struct mdsk_plain_product){.m = x->n,
                                                   .n = w->e.width,
                                                   .k = x->m,
                                                   .a = scores,
                                                   .b = rows,
                                                   .c = c,
                                                   .flip_a = 1,
                                                   .add = 1});
}

/* Where the block's numbers begin in an array [B,A,Sq] whose heads' rows are stride
 * apart; 0: packed. */
static int64_t row_of(const struct mdsk_plain_block *x, int64_t stride)
{
    const struct mdsk_attention_shape *s = &x->shape;

    return (x->b * s->A + x->h) * (stride ? stride : s->Sq) + x->first;
}

static int forward_block(const struct walk *w, const struct mdsk_attention_fwd *a,
                         const struct mdsk_plain_block *x)
{
    const struct room *r = &w->room;
    const struct mdsk_plain_softmax soft = {
        .scores = r->scores, .p = r->p, .lse = a->lse + row_of(x, a->lse_stride)};
    int err = pack(w, queries_of(w, x, &a->q), r->q);

    if (!err)
        err = against_keys(w, x, r->q, r->k, r->scores);
    if (!err)
        err = w->steps->softmax(w->stream, x, &soft);
    if (!err)
        err = over_keys(w, x, r->p, r->v);
    return err ? err : unpack(w, queries_of(w, x, &a->o), r->sum);
}

int mdsk_plain_attention_fwd(const struct mdsk_plain_steps *steps, void *stream,
                             const struct mdsk_attention_fwd *a)
{
    const struct mdsk_attention_shape *s = &a->shape;
    const int64_t group = s->A / s->G;
    struct walk w = {.steps = steps, .stream = stream, .s = s};
    int err = begin(&w, 0);

    for (int64_t t = 0; !err && t < s->B * s->A; t++) {
        int64_t b = t / s->A, h = t % s->A;

        if (h % group == 0)
            err = load_keys(&w, b, h / group, &a->k, &a->v);
        for (int64_t i = 0; !err && i < s->Sq; i += w.e.rows) {
            struct mdsk_plain_block x = block_of(&w, b, h, i);

            err = forward_block(&w, a, &x);
        }
    }
    return err;
}

/* ---- backward ---- */

static int load_queries(const struct walk *w, const struct mdsk_attention_bwd *a,
                        const struct mdsk_plain_block *x)
{
    int err = pack(w, queries_of(w, x, &a->q), w->room.q);

    if (!err)
        err = pack(w, queries_of(w, x, &a->o), w->room.o);
    return err ? err : pack(w, queries_of(w, x, &a->d_o), w->room.d_o);
}

/* p and ds of the block. */
static int slopes(const struct walk *w, const struct mdsk_attention_bwd *a,
                  const struct mdsk_plain_block *x)
{
    const struct room *r = &w->room;
    const struct mdsk_plain_slopes slope = {.scores = r->scores,
                                            .d_p = r->d_p,
                                            .o = r->o,
                                            .d_o = r->d_o,
                                            .width = w->e.width,
                                            .lse = a->lse + row_of(x, a->lse_stride),
                                            .delta = a->delta + row_of(x, 0),
                                            .p = r->p,
                                            .ds = r->ds};
    int err = against_keys(w, x, r->q, r->k, r->scores);

    if (!err)
        err = against_keys(w, x, r->d_o, r->v, r->d_p);
    return err ? err : w->steps->slopes(w->stream, x, &slope);
}

static int backward_block(const struct walk *w, const struct mdsk_attention_bwd *a,
                          const struct mdsk_plain_block *x)
{
    const struct room *r = &w->room;
    int err = load_queries(w, a, x);

    if (!err)
        err = slopes(w, a, x);
    if (!err)
        err = over_queries(w, x, r->p, r->d_o, r->dv);
    if (!err)
        err = over_queries(w, x, r->ds, r->q, r->dk);
    if (!err)
        err = over_keys(w, x, r->ds, r->k);
    return err ? err : unpack(w, queries_of(w, x, &a->dq), r->sum);
}

/* A head of keys: dk and dv are summed over the query heads that share it. */
static int backward_group(const struct walk *w, const struct mdsk_attention_bwd *a,
                          int64_t b, int64_t g)
{
    const struct mdsk_attention_shape *s = w->s;
    const int64_t bytes = w->e.keys * w->e.width * (int64_t)sizeof(float);
    const int64_t group = s->A / s->G;
    int err = load_keys(w, b, g, &a->k, &a->v);

    if (!err)
        err = w->steps->clear(w->stream, w->room.dk, bytes);
    if (!err)
        err = w->steps->clear(w->stream, w->room.dv, bytes);
    for (int64_t h = g * group; h < (g + 1) * group; h++)
        for (int64_t i = 0; !err && i < s->Sq; i += w->e.rows) {
            struct mdsk_plain_block x = block_of(w, b, h, i);

            err = backward_block(w, a, &x);
        }
    if (!err)
        err = unpack(w, keys_of(w, b, g, &a->dk), w->room.dk);
    return err ? err : unpack(w, keys_of(w, b, g, &a->dv), w->room.dv);
}

int mdsk_plain_attention_bwd(const struct mdsk_plain_steps *steps, void *stream,
                             const struct mdsk_attention_bwd *a)
{
    const struct mdsk_attention_shape *s = &a->shape;
    struct walk w = {.steps = steps, .stream = stream, .s = s};
    int err = begin(&w, 1);

    for (int64_t t = 0; !err && t < s->B * s->G; t++)
        err = backward_group(&w, a, t / s->G, t % s->G);
    return err;
}
