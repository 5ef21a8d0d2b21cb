/* A transformer block that works on tiles of rows: outside attention each row goes its
 * way alone, so norms, products, dropout and MLP exist for a tile at a time.  Of whole
 * sequences there are, forward: the stream, q k v and attention's result; backward also
 * the stream's gradient and those of q k v and of attention's result.  What a tile
 * needs of forward is computed again from the layer's input. */
#include "model/rows.h"
#include "base/minmax.h"
#include "parallel/attention.h"
#include "parallel/tensor_parallel.h"
#include "tensor/op.h"

int mds_gpt_tile_at(const struct mds_gpt *g, int64_t at, struct tile *t)
{
    int shared = g->sequence_parallel ? mds_comm_size(g->groups->tp) : 1;
    int64_t B = g->par.B, n = g->run.train->sequence_tile / (B * shared);
    int64_t left = g->par.slice.n - at;

    if (left <= 0)
        return 0;
    n = n < 1 ? 1 : n;
    n = mds_min(n, left);
    t->g = *g;
    mds_par_set_tile(&t->g.par, &g->par, at, n);
    t->row = t->place = at * B;
    t->rows = n * B;
    t->stride = t->slice_rows = mds_par_slice_rows(&g->par);
    t->parts = shared;
    return 1;
}

/* The token behind a tile. */
static int64_t behind(const struct tile *t)
{
    return t->row / t->g.par.B + t->g.par.slice.n;
}

/* ---- products between tiles and whole buffers, part by part ---- */

/* Rows of a part: in a buffer of the tile's, and in a whole one. */
static void *in_tile(const struct tile *t, const void *x, int64_t width, int part)
{
    return mds_par_at(&t->g.par, x, part * t->rows * width);
}

static void *in_whole(const struct tile *t, const void *x, int64_t width, int part)
{
    return mds_par_at(&t->g.par, x, (part * t->stride + t->place) * width);
}

/* qkv = x W^T + b;  x the tile's. */
static enum mds_rc qkv_fwd(const struct tile *t, const struct linear_ids *id,
                           const void *x, void *qkv)
{
    for (int i = 0; i < t->parts; i++)
        MDS_TRY(mds_gpt_linear_fwd(&t->g, id, t->rows, 0, in_tile(t, x, id->in, i),
                                   in_whole(t, qkv, id->out, i)));
    return MDS_OK;
}

static enum mds_rc qkv_bwd_input(const struct tile *t, const struct linear_ids *id,
                                 const void *dqkv, void *dx)
{
    for (int i = 0; i < t->parts; i++)
        MDS_TRY(mds_gpt_linear_bwd_input(&t->g, id, t->rows,
                                         in_whole(t, dqkv, id->out, i),
                                         in_tile(t, dx, id->in, i)));
    return MDS_OK;
}

static enum mds_rc qkv_bwd_weight(const struct tile *t, const struct linear_ids *id,
                                  const void *x, const void *dqkv)
{
    for (int i = 0; i < t->parts; i++)
        MDS_TRY(mds_gpt_linear_bwd_weight(&t->g, id, t->rows, in_tile(t, x, id->in, i),
                                          in_whole(t, dqkv, id->out, i)));
    return MDS_OK;
}

/* y = o W^T + b;  y the tile's. */
static enum mds_rc out_fwd(const struct tile *t, const struct linear_ids *id,
                           const void *o, void *y)
{
    for (int i = 0; i < t->parts; i++)
        MDS_TRY(mds_gpt_linear_fwd(&t->g, id, t->rows, 1, in_whole(t, o, id->in, i),
                                   in_tile(t, y, id->out, i)));
    return MDS_OK;
}

static enum mds_rc out_bwd(const struct tile *t, const struct linear_ids *id,
                           const void *o, const void *dy, void *d_o)
{
    for (int i = 0; i < t->parts; i++) {
        const void *dy_part = in_tile(t, dy, id->out, i);

        MDS_TRY(mds_gpt_linear_bwd_weight(&t->g, id, t->rows, in_whole(t, o, id->in, i),
                                          dy_part));
        MDS_TRY(mds_gpt_linear_bwd_input(&t->g, id, t->rows, dy_part,
                                         in_whole(t, d_o, id->in, i)));
    }
    return MDS_OK;
}

/* ---- working memory of a tile ---- */

static enum mds_rc take_rows(const struct tile *t, void **out)
{
    return mds_gpt_take(&t->g, MDS_MEM_WORK, t->rows * t->g.cfg.hidden, out);
}

/* A norm's result and statistics. */
struct normed {
    void *y;
    float *mean, *rstd;
};

static enum mds_rc take_normed(const struct tile *t, struct normed *n)
{
    const struct mds_par *p = &t->g.par;

    MDS_TRY(take_rows(t, &n->y));
    MDS_TRY(mds_par_take_f32(p, MDS_MEM_WORK, t->rows, &n->mean));
    return mds_par_take_f32(p, MDS_MEM_WORK, t->rows, &n->rstd);
}

/* For the MLP, where rows may be in any order: in chunks. */
static struct mds_gpt mlp_of(const struct tile *t)
{
    struct mds_gpt g = t->g;

    mds_par_set_chunks(&g.par, mds_gpt_tensor_chunks(&g));
    return g;
}

/* The tile's rows of the stream, or of its gradient. */
static void *stream_of(const struct tile *t, const void *x)
{
    return mds_par_at(&t->g.par, x, t->row * t->g.cfg.hidden);
}

/* ---- x -> q k v ---- */

static enum mds_rc enter_tile(const struct tile *t, const struct layer_ids *id,
                              const void *x, void *qkv)
{
    const struct mds_par *p = &t->g.par;
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    struct mds_tp_flow in;
    struct normed n;

    MDS_TRY(take_normed(t, &n));
    MDS_TRY(mds_gpt_norm_fwd(&t->g, &id->norm1, stream_of(t, x), NULL, NULL, n.y,
                             n.mean, n.rstd));
    MDS_TRY(mds_tp_enter(p, n.y, t->g.cfg.hidden, &in));
    MDS_TRY(qkv_fwd(t, &id->qkv, in.rows, qkv));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

/* All tiles, each of which passes on what it made. */
static enum mds_rc enter_passing(const struct mds_gpt *g, const struct layer_ids *id,
                                 const struct tiled_room *w, const void *x)
{
    struct mds_arena_mark mark = mds_arena_mark(g->par.arena);
    struct passage v;
    struct tile t;

    MDS_TRY(mds_gpt_passage_open(g, id, w, &v));
    for (int64_t at = 0; mds_gpt_next_tile(g, w, at, &t); at = behind(&t)) {
        MDS_TRY(enter_tile(&t, id, x, v.rows));
        MDS_TRY(mds_gpt_passage_put(g, w, &v, &t, id->qkv.out));
    }
    mds_gpt_passage_close(w, &v);
    mds_arena_release(g->par.arena, mark);
    return MDS_OK;
}

static enum mds_rc enter(const struct mds_gpt *g, const struct layer_ids *id,
                         const struct tiled_room *w, const void *x)
{
    struct mds_attention a = mds_gpt_attention(g, id);
    struct tile t;

    if (w->chunked.chunk > 0 || mds_gpt_travels(g))
        return enter_passing(g, id, w, x);
    for (int64_t at = 0; mds_gpt_next_tile(g, w, at, &t); at = behind(&t))
        MDS_TRY(enter_tile(&t, id, x, w->qkv));
    return mds_attention_enter(&g->par, &a, w->qkv, w->qkv);
}

/* ---- o -> the stream behind the block ---- */

/* sum = x + dropout(o W^T + b), n = norm2(sum);  x and sum the tile's rows. */
static enum mds_rc middle_tile(const struct tile *t, const struct layer_ids *id,
                               const void *o, const void *x, void *sum,
                               struct normed *n)
{
    const struct mds_par *p = &t->g.par;
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    struct mds_tp_flow out;
    void *branch = NULL;

    MDS_TRY(take_rows(t, &branch));
    MDS_TRY(mds_tp_leave_open(p, branch, t->g.cfg.hidden, &out));
    MDS_TRY(out_fwd(t, &id->out, o, out.rows));
    MDS_TRY(mds_tp_leave(p, &out));
    MDS_TRY(mds_gpt_dropout(&t->g, id->number, SITE_OUT, branch, branch, &branch));
    MDS_TRY(
        mds_gpt_norm_fwd(&t->g, &id->norm2, x, branch, sum, n->y, n->mean, n->rstd));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

static enum mds_rc leave_tile(const struct tile *t, const struct layer_ids *id,
                              const void *o, const void *x, void *y)
{
    const struct mds_par *p = &t->g.par;
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    struct mdsk_add add = {.n = t->rows * t->g.cfg.hidden, .dtype = p->dtype};
    struct mds_gpt mlp = mlp_of(t);
    struct layer_saved s = {0};
    struct normed n;
    void *m = NULL;

    MDS_TRY(take_normed(t, &n));
    MDS_TRY(take_rows(t, &m));
    MDS_TRY(middle_tile(t, id, o, stream_of(t, x), stream_of(t, y), &n));
    s.n2 = n.y;
    MDS_TRY(mds_gpt_mlp_fwd(&mlp, id, &s, m));
    MDS_TRY(mds_gpt_dropout(&t->g, id->number, SITE_MLP, m, m, &m));
    add.x = m;
    add.y = stream_of(t, y);
    MDS_TRY(mds_op_add(p->dev, &add));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

/* All tiles. */
static enum mds_rc leave(const struct mds_gpt *g, const struct layer_ids *id,
                         const struct tiled_room *w, void *o, const void *x, void *y)
{
    struct mds_arena_mark mark = mds_arena_mark(g->par.arena);
    const void *rows = NULL;
    struct view v;
    struct tile t;

    MDS_TRY(mds_gpt_view_open(g, id, o, w->chunked.o, &v));
    for (int64_t at = 0; mds_gpt_next_tile(g, w, at, &t); at = behind(&t)) {
        MDS_TRY(mds_gpt_view_get(&v, &t, &rows));
        MDS_TRY(leave_tile(&t, id, rows, x, y));
    }
    mds_gpt_view_close(&v);
    mds_arena_release(g->par.arena, mark);
    return MDS_OK;
}

/* ---- attention ---- */

/* Where attention's result and log-sum-exp go: to where they are kept, or to working
 * memory.  In chunks o goes to host memory, w->chunked.o, and *o is NULL. */
static void place_attention(struct tiled_room *w, const struct kept *k, void **o,
                            float **lse)
{
    int kept = k && k->o, here = kept && !k->o_on_host;

    *lse = here ? k->lse : w->lse;
    *o = here ? k->o : w->o;
    if (w->chunked.chunk == 0)
        return;
    w->chunked.o = kept ? k->o : w->o;
    *o = NULL;
}

static enum mds_rc attend(const struct mds_gpt *g, const struct layer_ids *id,
                          const struct tiled_room *w, void *o, float *lse)
{
    struct mds_attention a = mds_gpt_attention(g, id);

    if (w->chunked.chunk > 0)
        return mds_chunked_fwd(&g->par, &a, &w->chunked, lse);
    return mds_attention_fwd_inside(&g->par, &a, w->qkv, o, lse);
}

static enum mds_rc attend_bwd(const struct mds_gpt *g, const struct layer_ids *id,
                              const struct tiled_room *w, const void *o,
                              const float *lse)
{
    struct mds_attention a = mds_gpt_attention(g, id);

    if (w->chunked.chunk > 0)
        return mds_chunked_bwd(&g->par, &a, &w->chunked, lse);
    if (mds_gpt_travels(g))
        return mds_attention_bwd_inside(&g->par, &a, w->qkv, o, lse, w->d_o, w->dqkv);
    return mds_attention_bwd_core(&g->par, &a, w->qkv, o, lse, w->d_o, w->dqkv);
}

/* Attention's result to the host, beside what follows. */
static void save_attention(const struct mds_gpt *g, struct tiled_room *w,
                           const struct kept *k)
{
    const struct mds_par *p = &g->par;
    int64_t lse = mds_gpt_lse_size(g);
    int64_t e = (int64_t)mdsk_dtype_size(p->dtype);

    if (!k || !k->o || !k->o_on_host)
        return;
    w->o_copy =
        mds_dev_save_start(p->dev, k->lse, w->lse, lse * (int64_t)sizeof *w->lse);
    if (w->chunked.chunk == 0)
        w->o_copy = mds_dev_save_start(p->dev, k->o, w->o, lse * g->cfg.head_dim * e);
}

/* ---- forward ---- */

enum mds_rc mds_gpt_tiled_fwd(const struct mds_gpt *g, const struct layer_ids *id,
                              struct tiled_room *w, const struct kept *k, const void *x,
                              void *y)
{
    struct mds_dev_copying saving = {0};
    float *lse;
    void *o;

    place_attention(w, k, &o, &lse);
    MDS_TRY(mds_params_acquire(g->ps, id->unit));
    if (k && k->x && k->x != x)
        MDS_TRY(mds_gpt_keep(g, x, k, &saving));
    MDS_TRY(enter(g, id, w, x));
    mds_dev_meet(g->par.dev, w->o_copy);
    MDS_TRY(attend(g, id, w, o, lse));
    save_attention(g, w, k);
    mds_dev_meet(g->par.dev, saving); /* y may be x */
    MDS_TRY(leave(g, id, w, o, x, y));
    return mds_params_release(g->ps, id->unit);
}

/* ---- backward ---- */

/* Through the MLP and attention's last product: d becomes the gradient in the middle
 * of the block, d_o that of attention's result. */
static enum mds_rc leave_tile_bwd(const struct tile *t, const struct layer_ids *id,
                                  const void *o, const void *x, void *d, void *d_o)
{
    const struct mds_par *p = &t->g.par;
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    struct mds_gpt mlp = mlp_of(t);
    struct layer_saved s = {0};
    struct mds_tp_flow in;
    struct normed n;
    void *sum = NULL, *dn = NULL, *dm = NULL, *da = NULL;

    d = stream_of(t, d);
    MDS_TRY(take_normed(t, &n));
    MDS_TRY(take_rows(t, &sum));
    MDS_TRY(take_rows(t, &dn));
    MDS_TRY(middle_tile(t, id, o, stream_of(t, x), sum, &n));
    s.n2 = n.y;
    MDS_TRY(mds_gpt_dropout(&t->g, id->number, SITE_MLP, d, dn, &dm));
    MDS_TRY(mds_gpt_mlp_bwd(&mlp, id, &s, dm, dn));
    MDS_TRY(mds_gpt_norm_bwd(&t->g, &id->norm2, sum, n.mean, n.rstd, dn, d));
    MDS_TRY(mds_gpt_dropout(&t->g, id->number, SITE_OUT, d, dn, &da));
    MDS_TRY(mds_tp_enter(p, da, t->g.cfg.hidden, &in));
    MDS_TRY(out_bwd(t, &id->out, o, in.rows, d_o));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

static enum mds_rc leave_bwd(const struct mds_gpt *g, const struct layer_ids *id,
                             const struct tiled_room *w, void *o, const void *x,
                             void *d)
{
    struct mds_arena_mark mark = mds_arena_mark(g->par.arena);
    const void *rows = NULL;
    struct view v, dv;
    struct tile t;

    MDS_TRY(mds_gpt_view_open(g, id, o, w->chunked.o, &v));
    MDS_TRY(mds_gpt_view_open(g, id, o ? w->d_o : NULL, w->chunked.d_o, &dv));
    for (int64_t at = 0; mds_gpt_next_tile(g, w, at, &t); at = behind(&t)) {
        MDS_TRY(mds_gpt_view_get(&v, &t, &rows));
        MDS_TRY(leave_tile_bwd(&t, id, rows, x, d, mds_gpt_view_fill(&dv, &t)));
        MDS_TRY(mds_gpt_view_put(&dv, &t));
    }
    mds_gpt_view_close(&v);
    mds_gpt_view_close(&dv);
    mds_arena_release(g->par.arena, mark);
    return MDS_OK;
}

static enum mds_rc enter_tile_bwd(const struct tile *t, const struct layer_ids *id,
                                  const void *x, const void *dqkv, void *d)
{
    const struct mds_par *p = &t->g.par;
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    int64_t H = t->g.cfg.hidden;
    struct mds_tp_flow in, out;
    struct normed n;
    void *dn = NULL;

    x = stream_of(t, x);
    MDS_TRY(take_normed(t, &n));
    MDS_TRY(take_rows(t, &dn));
    MDS_TRY(mds_gpt_norm_fwd(&t->g, &id->norm1, x, NULL, NULL, n.y, n.mean, n.rstd));
    MDS_TRY(mds_tp_enter_start(p, n.y, H, &in));
    MDS_TRY(mds_tp_leave_open(p, dn, H, &out));
    MDS_TRY(qkv_bwd_input(t, &id->qkv, dqkv, out.rows));
    MDS_TRY(mds_tp_leave_start(p, &out, mds_par_rows(p)));
    MDS_TRY(mds_tp_enter_wait(p, &in, mds_par_rows(p)));
    MDS_TRY(qkv_bwd_weight(t, &id->qkv, in.rows, dqkv));
    MDS_TRY(mds_tp_leave_wait(&out));
    MDS_TRY(
        mds_gpt_norm_bwd(&t->g, &id->norm1, x, n.mean, n.rstd, dn, stream_of(t, d)));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

static enum mds_rc enter_bwd(const struct mds_gpt *g, const struct layer_ids *id,
                             const struct tiled_room *w, const void *x, void *d)
{
    struct mds_arena_mark mark = mds_arena_mark(g->par.arena);
    int passing = w->chunked.chunk > 0 || mds_gpt_travels(g);
    struct passage v = {.rows = w->dqkv};
    struct tile t;

    if (passing)
        MDS_TRY(mds_gpt_passage_open(g, id, w, &v));
    for (int64_t at = 0; mds_gpt_next_tile(g, w, at, &t); at = behind(&t)) {
        if (passing)
            MDS_TRY(mds_gpt_passage_get(g, w, &v, &t, id->qkv.out));
        MDS_TRY(enter_tile_bwd(&t, id, x, v.rows, d));
    }
    mds_gpt_passage_close(w, &v);
    mds_arena_release(g->par.arena, mark);
    return MDS_OK;
}

void mds_gpt_tiled_bring(const struct mds_gpt *g, struct tiled_room *w,
                         const struct kept *k)
{
    const struct mds_par *p = &g->par;
    int64_t lse = mds_gpt_lse_size(g);
    int64_t e = (int64_t)mdsk_dtype_size(p->dtype);
    void *x = w->d_o;

    if (mds_gpt_is_moved(g, k)) {
        w->d_o = w->x;
        w->x = x;
        w->x_copy = mds_gpt_fetch_start(g, k, x);
    }
    if (!k->o || !k->o_on_host)
        return;
    w->o_copy =
        mds_dev_restore_start(p->dev, w->lse, k->lse, lse * (int64_t)sizeof *w->lse);
    if (w->chunked.chunk == 0)
        w->o_copy =
            mds_dev_restore_start(p->dev, w->o, k->o, lse * g->cfg.head_dim * e);
}

enum mds_rc mds_gpt_tiled_bwd(const struct mds_gpt *g, const struct layer_ids *id,
                              struct tiled_room *w, const struct kept *k,
                              const struct kept *next, const void *x, void *d)
{
    float *lse;
    void *o;

    place_attention(w, k, &o, &lse);
    MDS_TRY(mds_params_acquire(g->ps, id->unit));
    MDS_TRY(mds_params_grad_begin(g->ps, id->unit));
    mds_gpt_norm_grads_begin(g);
    MDS_TRY(enter(g, id, w, x));
    mds_dev_meet(g->par.dev, w->o_copy);
    if (!k->o)
        MDS_TRY(attend(g, id, w, o, lse));
    MDS_TRY(leave_bwd(g, id, w, o, x, d));
    MDS_TRY(attend_bwd(g, id, w, o, lse));
    if (next)
        mds_gpt_tiled_bring(g, w, next);
    MDS_TRY(enter_bwd(g, id, w, x, d));
    MDS_TRY(mds_gpt_norm_grads_end(g, &id->norm1, &id->norm2));
    MDS_TRY(mds_params_grad_ready(g->ps, id->unit));
    return mds_params_release(g->ps, id->unit);
}
