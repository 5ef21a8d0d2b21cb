/* SPDX-License-Identifier: BSD-3-Clause */
/* The attention module: linear layers tile by tile, attention over whole sequences. */
#include "model/modules.h"

#include <math.h>

/* ---- parameters ---- */

static const char *const inputs[] = {"attention.q", "attention.k", "attention.v"};
static const char *const result[] = {"attention.out"};

/* A branch's last linear starts smaller, by 1/sqrt(2L), so that the stream's variance
 * does not grow with depth: Radford et al. 2019, section 2.3. */
static struct linears qkv_linears(const struct mds_model_config *m, int64_t heads[3])
{
    heads[0] = m->heads * m->head_dim;
    heads[1] = heads[2] = m->kv_heads * m->head_dim;
    return (struct linears){inputs,
                            3,
                            m->hidden,
                            heads,
                            MDS_SHARD_ROWS,
                            m->init_std,
                            m->linear_bias || m->qkv_bias};
}

static struct linears out_linear(const struct mds_model_config *m)
{
    return (struct linears){result,
                            1,
                            m->heads * m->head_dim,
                            &m->hidden,
                            MDS_SHARD_COLS,
                            m->init_std / sqrt(2.0 * (double)m->layers),
                            m->linear_bias};
}

void mds_gpt_add_attention_weights(struct registrar *reg, const char *layer,
                                   struct attention_ids *id)
{
    int64_t heads[3];
    struct linears qkv = qkv_linears(&reg->g->cfg, heads),
                   out = out_linear(&reg->g->cfg);

    id->qkv = mds_gpt_add_weights(reg, layer, &qkv);
    id->out = mds_gpt_add_weights(reg, layer, &out);
}

void mds_gpt_add_attention_vectors(struct registrar *reg, const char *layer,
                                   struct attention_ids *id)
{
    int64_t heads[3];
    struct linears qkv = qkv_linears(&reg->g->cfg, heads),
                   out = out_linear(&reg->g->cfg);

    id->qkv.bias = mds_gpt_add_biases(reg, layer, &qkv);
    id->out.bias = mds_gpt_add_biases(reg, layer, &out);
    mds_gpt_add_head_norms(reg, layer, id);
}

/* ---- attention of whole sequences ---- */

struct mds_attention mds_gpt_attention_spec(const struct context *c,
                                            const struct block_ids *id)
{
    const struct mds_model_config *m = &c->g->cfg;
    struct mds_comm *tp = mds_group(c->g->groups, MDS_AXIS_TENSOR);
    struct mds_attention a = {.A = mds_gpt_heads(c, m->heads),
                              .G = mds_gpt_heads(c, m->kv_heads),
                              .D = m->head_dim,
                              .window = mds_model_window(m, id->number),
                              .rope = c->g->rope,
                              .unfused = !c->run->train->flash_attn};

    a.before = c->head_group * a.A;
    a.behind = (c->head_groups - c->head_group - 1) * a.A;
    a.first_head = mds_comm_rank(tp) * c->head_groups * a.A + a.before;
    a.dropout =
        mds_gpt_dropout_key(c, id->number, SITE_ATTENTION, m->attention_dropout);
    return a;
}

struct attention_buffers mds_gpt_attention_buffers(const struct context *c,
                                                   const struct work *w,
                                                   const struct saved *s)
{
    struct attention_buffers b = {
        .qkv = s->at[SAVED_QKV], .o = s->at[SAVED_O], .lse = s->at[SAVED_LSE]};

    if (mds_gpt_is_chunked(c))
        b.o = s->away[SAVED_O];
    b.qkv = b.qkv ? b.qkv : w->qkv;
    b.o = b.o ? b.o : w->o;
    b.lse = b.lse ? b.lse : w->lse;
    return b;
}

int64_t mds_gpt_group_lse_elements(const struct context *c)
{
    return mds_saved_elements(c, SAVED_LSE) / c->head_groups;
}

float *mds_gpt_group_lse(const struct context *c, float *lse)
{
    return lse + mds_gpt_group_lse_elements(c) * c->head_group;
}

enum mds_rc mds_gpt_attend(const struct context *c, const struct block_ids *id,
                           const struct work *w, const struct attention_buffers *b)
{
    struct mds_attention a = mds_gpt_attention_spec(c, id);
    struct mds_chunked chunked = w->chunked;

    chunked.o = b->o;
    return mds_gpt_is_chunked(c) ? mds_chunked_fwd(&c->par, &a, &chunked, b->lse)
                                 : mds_attention_fwd(&c->par, &a, b->qkv, b->o,
                                                     mds_gpt_group_lse(c, b->lse));
}

enum mds_rc mds_gpt_attend_bwd(const struct context *c, const struct block_ids *id,
                               const struct work *w, const struct attention_buffers *b)
{
    struct mds_attention a = mds_gpt_attention_spec(c, id);
    struct mds_chunked chunked = w->chunked;

    chunked.o = b->o;
    return mds_gpt_is_chunked(c)
               ? mds_chunked_bwd(&c->par, &a, &chunked, b->lse)
               : mds_attention_bwd(&c->par, &a, b->qkv, b->o,
                                   mds_gpt_group_lse(c, b->lse), w->d_o, w->dqkv);
}

/* ---- rows of tiles in buffers of whole sequences ---- */

static int has_ulysses(const struct context *c)
{
    return mds_groups_size(c->g->groups, MDS_AXIS_ULYSSES) > 1;
}

int mds_gpt_attention_stages_rows(const struct context *c)
{
    return mds_gpt_is_chunked(c) || has_ulysses(c);
}

static int64_t parts_per_tile(const struct context *t)
{
    return mds_par_rows(&t->par) / t->part;
}

/* The tokens of a part of a tile, among those of this rank's linear layers. */
static struct mds_token_range part_tokens(const struct context *t, int64_t part)
{
    int64_t B = t->par.B, slice = mds_par_slice_rows(t->all);

    return (struct mds_token_range){(part * slice + t->row) / B, t->part / B};
}

enum mds_rc mds_gpt_qkv_open(const struct context *c, const struct block_ids *id,
                             const struct work *w, void *whole, int gradient,
                             struct qkv_rows *v)
{
    int64_t width = id->attention.qkv.out;
    struct context t;

    *v = (struct qkv_rows){.a = mds_gpt_attention_spec(c, id),
                           .whole = whole,
                           .rows = whole,
                           .gradient = gradient};
    if (!mds_gpt_attention_stages_rows(c))
        return gradient ? mds_attention_rotate(&c->par, &v->a, whole, 1) : MDS_OK;
    mds_gpt_tile(c, 0, 1, &t);
    MDS_TRY(
        mds_par_alloc(&c->par, MDS_MEM_WORK, mds_par_rows(&t.par) * width, &v->rows));
    if (!mds_gpt_is_chunked(c))
        return MDS_OK;
    return mds_chunked_open(&c->par, &v->a, &w->chunked, t.part, &v->chunked);
}

/* Exchange a tile's rows between Ulysses ranks, part by part. */
static enum mds_rc exchange_tile_qkv(const struct context *t, struct qkv_rows *v)
{
    int64_t width = (v->a.A + 2 * v->a.G) * v->a.D;

    for (int64_t i = 0; has_ulysses(t) && i < parts_per_tile(t); i++) {
        void *rows = mds_par_at(&t->par, v->rows, i * t->part * width);

        MDS_TRY(v->gradient ? mds_attention_get_qkv(t->all, &v->a, part_tokens(t, i),
                                                    v->whole, rows)
                            : mds_attention_put_qkv(t->all, &v->a, part_tokens(t, i),
                                                    rows, v->whole));
    }
    return MDS_OK;
}

enum mds_rc mds_gpt_qkv_put(const struct context *t, struct qkv_rows *v)
{
    if (mds_gpt_is_chunked(t))
        return mds_chunked_put(&t->par, &v->a, &v->chunked, t->row, v->rows);
    return exchange_tile_qkv(t, v);
}

enum mds_rc mds_gpt_qkv_get(const struct context *t, struct qkv_rows *v)
{
    if (mds_gpt_is_chunked(t))
        return mds_chunked_get(&t->par, &v->a, &v->chunked, t->row, v->rows);
    return exchange_tile_qkv(t, v);
}

enum mds_rc mds_gpt_qkv_close(const struct context *c, struct qkv_rows *v)
{
    if (mds_gpt_is_chunked(c))
        mds_chunked_close(&v->chunked);
    else if (v->rows == v->whole && !v->gradient)
        return mds_attention_rotate(&c->par, &v->a, v->whole, 0);
    return MDS_OK;
}

enum mds_rc mds_gpt_o_open(const struct context *c, const struct block_ids *id,
                           void *whole, struct o_rows *v)
{
    int64_t width = id->attention.out.in;
    struct context t;

    *v = (struct o_rows){.a = mds_gpt_attention_spec(c, id),
                         .whole = whole,
                         .row_bytes = width * (int64_t)mdsk_dtype_size(c->par.dtype)};
    mds_gpt_tile(c, 0, 1, &t);
    if (mds_gpt_is_chunked(c))
        return mds_multibuffer_open(&c->par, whole,
                                    mds_par_rows(&c->par) * v->row_bytes,
                                    t.part * v->row_bytes, 2, &v->window);
    if (!has_ulysses(c))
        return MDS_OK;
    return mds_par_alloc(&c->par, MDS_MEM_WORK, mds_par_rows(&t.par) * width, &v->tile);
}

static int64_t window_rows(const struct context *t, const struct o_rows *v)
{
    return t->row * v->row_bytes / v->window.chunk_bytes;
}

static void *o_part_address(const struct context *t, const struct o_rows *v,
                            int64_t part)
{
    return (char *)v->tile + part * t->part * v->row_bytes;
}

enum mds_rc mds_gpt_o_get(const struct context *t, struct o_rows *v, const void **rows)
{
    *rows = v->whole;
    if (mds_gpt_is_chunked(t)) {
        *rows = mds_multibuffer_get(&v->window, window_rows(t, v));
        mds_multibuffer_prefetch(&v->window, window_rows(t, v) + 1);
    }
    if (!v->tile)
        return MDS_OK;
    *rows = v->tile;
    for (int64_t i = 0; i < parts_per_tile(t); i++)
        MDS_TRY(mds_attention_get_o(t->all, &v->a, part_tokens(t, i), v->whole,
                                    o_part_address(t, v, i)));
    return MDS_OK;
}

void *mds_gpt_o_fill(const struct context *t, struct o_rows *v)
{
    if (v->tile)
        return v->tile;
    return mds_gpt_is_chunked(t) ? mds_multibuffer_fill(&v->window, window_rows(t, v))
                                 : v->whole;
}

enum mds_rc mds_gpt_o_put(const struct context *t, struct o_rows *v)
{
    if (mds_gpt_is_chunked(t))
        mds_multibuffer_offload(&v->window);
    for (int64_t i = 0; v->tile && i < parts_per_tile(t); i++)
        MDS_TRY(mds_attention_put_o(t->all, &v->a, part_tokens(t, i),
                                    o_part_address(t, v, i), v->whole));
    return MDS_OK;
}

void mds_gpt_o_close(const struct context *c, struct o_rows *v)
{
    if (mds_gpt_is_chunked(c))
        mds_multibuffer_close(&v->window);
}

/* ---- linear layers: a span's results are sent while the next span is computed ---- */

enum mds_rc mds_gpt_qkv_fwd(const struct context *t, const struct attention_ids *id,
                            const struct saved *saved, const void *x, uint32_t *amax,
                            void *qkv)
{
    const struct mds_par *p = &t->par;
    const struct linear_ids *l = &id->qkv;
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    struct mds_tp_handle in;
    struct span s;

    MDS_TRY(mds_tp_gather_start(p, x, l->in, &in));
    for (int64_t at = 0; mds_gpt_span(t, at, mds_tp_gather_rows(p, at), &s);
         at += s.n) {
        void *rows = mds_par_at(p, qkv, s.whole * l->out);
        struct linear_input input = {.x = mds_par_at(p, in.rows, at * l->in),
                                     .codes = saved->at[SAVED_N1_CODES]};

        if (in.rows == x && s.n == mds_par_rows(p))
            input.amax = amax;
        MDS_TRY(mds_tp_gather_wait(p, &in, at + s.n));
        MDS_TRY(mds_gpt_linear_fwd(t, l, s.n, 0, input, rows));
        MDS_TRY(mds_gpt_head_norms_fwd(t, id, saved, &s, rows));
    }
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

/* both: the gradient for both GEMMs, where a span has all rows; else NULL. */
static enum mds_rc qkv_bwd_input(const struct context *t, const struct linear_ids *l,
                                 const void *dqkv, const struct linear_grad *both,
                                 struct mds_tp_handle *dx)
{
    const struct mds_par *p = &t->par;
    struct linear_grad g;
    struct span s;

    for (int64_t at = 0; mds_gpt_span(t, at, mds_tp_reduce_rows(p, at), &s);
         at += s.n) {
        if (!both)
            MDS_TRY(mds_gpt_linear_grad_open(
                t, l, s.n, mds_par_at(p, dqkv, s.whole * l->out), NULL, 1, 0, &g));
        MDS_TRY(mds_gpt_linear_bwd_input(t, l, s.n, both ? both : &g,
                                         mds_par_at(p, dx->rows, at * l->in)));
        if (!both)
            mds_gpt_linear_grad_close(t, &g);
        MDS_TRY(mds_tp_reduce_start(p, dx, at + s.n));
    }
    return MDS_OK;
}

static enum mds_rc qkv_bwd_weight(const struct context *t, const struct linear_ids *l,
                                  struct linear_input in, const void *dqkv,
                                  const struct linear_grad *both)
{
    const struct mds_par *p = &t->par;
    int64_t R = mds_par_rows(p);
    struct linear_grad g;
    struct span s;

    for (int64_t at = 0; mds_gpt_span(t, at, R - at, &s); at += s.n) {
        struct linear_input rows = {.x = mds_par_at(p, in.x, at * l->in),
                                    .codes = in.codes};

        if (!both)
            MDS_TRY(mds_gpt_linear_grad_open(
                t, l, s.n, mds_par_at(p, dqkv, s.whole * l->out), NULL, 0, 1, &g));
        MDS_TRY(mds_gpt_linear_bwd_weight(t, l, s.n, rows, both ? both : &g));
        if (!both)
            mds_gpt_linear_grad_close(t, &g);
    }
    return MDS_OK;
}

/* Whether the GEMMs that send dx and those of the weight take all rows at once. */
static int is_one_span(const struct context *t, struct span *s)
{
    int64_t R = mds_par_rows(&t->par);

    return mds_tp_reduce_rows(&t->par, 0) == R && mds_gpt_span(t, 0, R, s) && s->n == R;
}

static enum mds_rc head_norms_bwd(const struct context *t,
                                  const struct attention_ids *id,
                                  const struct saved *saved, struct mds_tp_handle *x,
                                  void *dqkv)
{
    const struct mds_par *p = &t->par;
    const struct linear_ids *l = &id->qkv;
    int64_t R = mds_gpt_has_head_norms(id) ? mds_par_rows(p) : 0;
    struct span s;

    if (R > 0 && !saved->at[SAVED_QK])
        MDS_TRY(mds_tp_gather_wait(p, x, R));
    for (int64_t at = 0; at < R && mds_gpt_span(t, at, R - at, &s); at += s.n)
        MDS_TRY(mds_gpt_head_norms_bwd(t, id, saved, &s,
                                       mds_par_at(p, x->rows, at * l->in),
                                       mds_par_at(p, dqkv, s.whole * l->out)));
    return MDS_OK;
}

/* x is gathered while dx is computed, and dx is reduced while the weight's gradient is
 * computed. */
enum mds_rc mds_gpt_qkv_bwd(const struct context *t, const struct attention_ids *id,
                            const struct saved *s, const void *x, void *dqkv, void *dx)
{
    const struct mds_par *p = &t->par;
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    struct mds_tp_handle in, out;
    struct linear_grad g, *both = NULL;
    struct linear_input norm;
    struct span all;

    MDS_TRY(mds_tp_gather_start(p, x, id->qkv.in, &in));
    MDS_TRY(mds_tp_reduce_open(p, dx, id->qkv.in, &out));
    MDS_TRY(head_norms_bwd(t, id, s, &in, dqkv));
    if (is_one_span(t, &all)) {
        both = &g;
        MDS_TRY(mds_gpt_linear_grad_open(t, &id->qkv, all.n,
                                         mds_par_at(p, dqkv, all.whole * id->qkv.out),
                                         NULL, 1, 1, &g));
    }
    MDS_TRY(qkv_bwd_input(t, &id->qkv, dqkv, both, &out));
    MDS_TRY(mds_tp_gather_wait(p, &in, mds_par_rows(p)));
    norm = (struct linear_input){.x = in.rows, .codes = s->at[SAVED_N1_CODES]};
    MDS_TRY(qkv_bwd_weight(t, &id->qkv, norm, dqkv, both));
    MDS_TRY(mds_tp_reduce_wait(&out));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

enum mds_rc mds_gpt_out_fwd(const struct context *t, const struct attention_ids *id,
                            const void *o, void *y)
{
    const struct mds_par *p = &t->par;
    const struct linear_ids *l = &id->out;
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    struct mds_tp_handle out;
    struct span s;

    MDS_TRY(mds_tp_reduce_open(p, y, l->out, &out));
    for (int64_t at = 0; mds_gpt_span(t, at, mds_tp_reduce_rows(p, at), &s);
         at += s.n) {
        struct linear_input in = {.x = mds_par_at(p, o, s.whole * l->in)};

        MDS_TRY(
            mds_gpt_linear_fwd(t, l, s.n, 1, in, mds_par_at(p, out.rows, at * l->out)));
        MDS_TRY(mds_tp_reduce_start(p, &out, at + s.n));
    }
    MDS_TRY(mds_tp_reduce_wait(&out));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

enum mds_rc mds_gpt_out_bwd(const struct context *t, const struct attention_ids *id,
                            const void *o, const void *dy, void *d_o)
{
    const struct mds_par *p = &t->par;
    const struct linear_ids *l = &id->out;
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    struct mds_tp_handle in;
    struct span s;

    MDS_TRY(mds_tp_gather_start(p, dy, l->out, &in));
    for (int64_t at = 0; mds_gpt_span(t, at, mds_tp_gather_rows(p, at), &s);
         at += s.n) {
        struct linear_input input = {.x = mds_par_at(p, o, s.whole * l->in)};
        struct linear_grad g;

        MDS_TRY(mds_tp_gather_wait(p, &in, at + s.n));
        MDS_TRY(mds_gpt_linear_grad_open(t, l, s.n, mds_par_at(p, in.rows, at * l->out),
                                         NULL, 1, 1, &g));
        MDS_TRY(mds_gpt_linear_bwd_weight(t, l, s.n, input, &g));
        MDS_TRY(mds_gpt_linear_bwd_input(t, l, s.n, &g,
                                         mds_par_at(p, d_o, s.whole * l->in)));
        mds_gpt_linear_grad_close(t, &g);
    }
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}
