/* A piece whose blocks run in tiles: its layers forward and backward, and the head. */
#include "model/parts.h"
#include "base/minmax.h"
#include "parallel/vocab.h"
#include "tensor/op.h"

/* ---- room ---- */

struct room_mark {
    struct mds_arena_mark device, host;
};

static struct room_mark mark_room(const struct mds_gpt *g)
{
    struct room_mark m = {.device = mds_arena_mark(g->par.arena)};

    if (g->run.host)
        m.host = mds_arena_mark(g->run.host);
    return m;
}

static void release_room(const struct mds_gpt *g, struct room_mark m)
{
    mds_arena_release(g->par.arena, m.device);
    if (g->run.host)
        mds_arena_release(g->run.host, m.host);
}

/* Elements of attention's result, and of q k v. */
static int64_t o_size(const struct mds_gpt *g)
{
    return mds_par_rows(&g->par) * g->piece[0].layer[0].out.in;
}

static int64_t qkv_size(const struct mds_gpt *g)
{
    return mds_par_rows(&g->par) * g->piece[0].layer[0].qkv.out;
}

/* For a layer's input, or a gradient of attention's result. */
static enum mds_rc take_input(const struct mds_gpt *g, void **out)
{
    int64_t n = mds_gpt_stream_size(g), o = o_size(g);

    return mds_gpt_take(g, MDS_MEM_WORK, mds_max(n, o), out);
}

/* In host memory: q, k, v and attention's result, and for backward gradients. */
static enum mds_rc take_on_host(const struct mds_gpt *g, struct tiled_room *w,
                                int backward)
{
    int64_t e = (int64_t)mdsk_dtype_size(g->par.dtype), o = o_size(g);
    struct mds_chunked *f = &w->chunked;
    void *dq = NULL;

    f->chunk = g->run.train->attention_chunk;
    MDS_TRY(mds_arena_take(g->run.host, MDS_MEM_WORK, o * e, &f->q));
    MDS_TRY(mds_arena_take(g->run.host, MDS_MEM_WORK, (qkv_size(g) - o) * e, &f->kv));
    MDS_TRY(mds_arena_take(g->run.host, MDS_MEM_WORK, o * e, &w->o));
    if (!backward)
        return MDS_OK;
    MDS_TRY(mds_arena_take(g->run.host, MDS_MEM_WORK, o * e, &f->d_o));
    MDS_TRY(mds_arena_take(g->run.host, MDS_MEM_WORK, o * (int64_t)sizeof *f->dq, &dq));
    f->dq = dq;
    return MDS_OK;
}

static enum mds_rc take_attention(const struct mds_gpt *g, struct tiled_room *w,
                                  int backward)
{
    MDS_TRY(mds_par_take_f32(&g->par, MDS_MEM_WORK, mds_gpt_lse_size(g), &w->lse));
    if (g->run.train->attention_chunk > 0)
        return take_on_host(g, w, backward);
    MDS_TRY(mds_gpt_take(g, MDS_MEM_WORK, qkv_size(g), &w->qkv));
    if (backward) {
        MDS_TRY(take_input(g, &w->d_o));
        MDS_TRY(mds_gpt_take(g, MDS_MEM_WORK, qkv_size(g), &w->dqkv));
    }
    return mds_gpt_take(g, MDS_MEM_WORK, o_size(g), &w->o);
}

enum mds_rc mds_gpt_tiled_take(const struct mds_gpt *g, struct tiled_room *w)
{
    int64_t others = g->run.train->recompute_layers - 1;
    int moves = mds_gpt_moves_kept(g), chunked = g->run.train->attention_chunk > 0;

    if (moves)
        MDS_TRY(take_input(g, &w->x));
    if (moves && chunked)
        MDS_TRY(take_input(g, &w->d_o));
    MDS_TRY(take_attention(g, w, 1));
    return mds_gpt_take(g, MDS_MEM_ACT, others * mds_gpt_stream_size(g), &w->inputs);
}

/* ---- forward ---- */

/* Where a layer's input is: where it stays, or the place that all use in turn. */
static void *input_of(const struct mds_gpt *g, const struct kept *k,
                      const struct tiled_room *w)
{
    return g->run.training && k->x && !mds_gpt_is_moved(g, k) ? k->x : w->x;
}

enum mds_rc mds_gpt_tiled_begin(const struct mds_gpt *g, const struct piece_set *set,
                                struct tiled_room *w, void **x)
{
    MDS_TRY(take_input(g, &w->x));
    *x = input_of(g, &set->kept[0], w);
    return MDS_OK;
}

enum mds_rc mds_gpt_tiled_layers_fwd(const struct mds_gpt *g, const struct piece *p,
                                     const struct piece_set *set, struct tiled_room *w,
                                     void *y)
{
    struct room_mark mark = mark_room(g);

    MDS_TRY(take_attention(g, w, 0));
    for (int l = 0; l < p->is.layers; l++) {
        const struct kept *k = &set->kept[l];
        void *to = l + 1 < p->is.layers ? input_of(g, k + 1, w) : y;

        MDS_TRY(mds_gpt_tiled_fwd(g, &p->layer[l], w, g->run.training ? k : NULL,
                                  input_of(g, k, w), to));
    }
    mds_dev_meet(g->par.dev, w->o_copy);
    release_room(g, mark);
    return MDS_OK;
}

/* ---- backward ---- */

/* Layers first .. end - 1 from the input x of the first, the only one that was kept. */
static enum mds_rc group_bwd(const struct mds_gpt *g, const struct piece *p,
                             struct tiled_room *w, const struct kept *k,
                             const struct kept *next, int first, int end, void *x,
                             void *d)
{
    int64_t n = mds_gpt_stream_size(g);

    for (int l = first; l < end - 1; l++)
        MDS_TRY(mds_gpt_tiled_fwd(
            g, &p->layer[l], w, NULL,
            l == first ? x : mds_par_at(&g->par, w->inputs, (l - first - 1) * n),
            mds_par_at(&g->par, w->inputs, (l - first) * n)));
    for (int l = end - 1; l > first; l--)
        MDS_TRY(mds_gpt_tiled_bwd(g, &p->layer[l], w, k + l - first, NULL,
                                  mds_par_at(&g->par, w->inputs, (l - first - 1) * n),
                                  d));
    return mds_gpt_tiled_bwd(g, &p->layer[first], w, k, next, x, d);
}

enum mds_rc mds_gpt_tiled_layers_bwd(const struct mds_gpt *g, const struct piece *p,
                                     const struct piece_set *set, void *d)
{
    struct room_mark mark = mark_room(g);
    int every = (int)g->run.train->recompute_layers, end = p->is.layers;
    const struct kept *k = &set->kept[(end - 1) / every * every];
    struct tiled_room w = {0};

    MDS_TRY(mds_gpt_tiled_take(g, &w));
    mds_gpt_tiled_bring(g, &w, k);
    while (end > 0) {
        int first = (end - 1) / every * every, moved = mds_gpt_is_moved(g, k);

        if (moved)
            MDS_TRY(mds_gpt_fetch(g, k, w.x_copy, w.x));
        MDS_TRY(group_bwd(g, p, &w, k, first > 0 ? k - every : NULL, first, end,
                          moved ? w.x : k->x, d));
        k -= every;
        end = first;
    }
    release_room(g, mark);
    return MDS_OK;
}

/* ---- head ---- */

/* Targets of the tile's rows, in the order in which tensor ranks' parts are gathered.
 */
static enum mds_rc targets_of(const struct tile *t, const int32_t *target,
                              const int32_t **out)
{
    const struct mds_par *p = &t->g.par;
    int64_t bytes = t->rows * (int64_t)sizeof **out;
    void *gathered = NULL;

    *out = target + t->row;
    if (t->parts == 1)
        return MDS_OK;
    MDS_TRY(mds_arena_take(p->arena, MDS_MEM_WORK, t->parts * bytes, &gathered));
    for (int i = 0; i < t->parts; i++)
        mds_dev_copy(p->dev, (char *)gathered + i * bytes,
                     target + i * t->stride + t->row, bytes);
    *out = gathered;
    return MDS_OK;
}

static enum mds_rc head_tile(const struct tile *t, struct mds_head *h, const void *x,
                             const int32_t *target, struct mds_gpt_loss *loss, void *d)
{
    const struct mds_gpt *g = &t->g;
    const struct mds_par *p = &g->par;
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    int64_t n = mds_gpt_stream_size(g), at = t->row * g->cfg.hidden;
    void *y = NULL, *dy = NULL;
    float *mean = NULL, *rstd = NULL;

    MDS_TRY(mds_gpt_take(g, MDS_MEM_WORK, n, &y));
    MDS_TRY(mds_par_take_f32(p, MDS_MEM_WORK, t->rows, &mean));
    MDS_TRY(mds_par_take_f32(p, MDS_MEM_WORK, t->rows, &rstd));
    if (d)
        MDS_TRY(mds_gpt_take(g, MDS_MEM_WORK, n, &dy));
    MDS_TRY(targets_of(t, target, &target));
    x = mds_par_at(p, x, at);
    MDS_TRY(mds_gpt_norm_fwd(g, &g->final_norm, x, NULL, NULL, y, mean, rstd));
    MDS_TRY(mds_head_loss(p, h, y, target, &loss->sum, &loss->count, dy));
    if (d) {
        d = mds_par_at(p, d, at);
        mds_dev_zero(p->dev, d, n * (int64_t)mdsk_dtype_size(p->dtype));
        MDS_TRY(mds_gpt_norm_bwd(g, &g->final_norm, x, mean, rstd, dy, d));
    }
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

enum mds_rc mds_gpt_tiled_head(const struct mds_gpt *g, struct mds_head *h,
                               const void *x, const int32_t *target,
                               struct mds_gpt_loss *loss, void *d)
{
    struct tile t;

    mds_gpt_norm_grads_begin(g);
    for (int64_t at = 0; mds_gpt_tile_at(g, at, &t); at += t.g.par.slice.n)
        MDS_TRY(head_tile(&t, h, x, target, loss, d));
    return d ? mds_gpt_norm_grads_end(g, &g->final_norm, NULL) : MDS_OK;
}
