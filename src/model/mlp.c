/* The MLP, whole or in tiles along the sequence: m = act(n2 Wup^T) Wdown^T.  Where the
 * layer has no room for g, or for u and g, they exist for one tile at a time, and
 * backward makes them again. */
#include "model/parts.h"
#include "base/minmax.h"
#include "parallel/tensor_parallel.h"
#include "tensor/op.h"

/* A stretch of rows and where its u and g are. */
struct mlp_tile {
    int64_t at, rows;
    void *u, *g;
    void *own_u, *own_g; /* NULL: they are the layer's */
};

static int64_t inner(const struct mds_gpt *g)
{
    return g->cfg.ffn_hidden / mds_comm_size(g->groups->tp);
}

/* Of the tile at row `at`, which ends where a chunk of rows does that travel; 0 behind
 * the last. */
static int64_t tile_rows(const struct mds_gpt *g, int64_t at)
{
    int64_t left = mds_tp_leave_rows(&g->par, at), tile = g->run.train->mlp_tile;

    return tile > 0 && tile < left ? tile : left;
}

/* Working memory for what the layer does not keep of u and g, for the longest tile. */
static enum mds_rc take_tile(const struct mds_gpt *g, const struct layer_ids *id,
                             const struct layer_saved *s, struct mlp_tile *t)
{
    int64_t most = 0;

    *t = (struct mlp_tile){0};
    for (int64_t at = 0, n; (n = tile_rows(g, at)) > 0; at += n)
        most = mds_max(n, most);
    if (!s->u)
        MDS_TRY(mds_gpt_take(g, MDS_MEM_WORK, most * id->up.out, &t->own_u));
    if (!s->g)
        MDS_TRY(mds_gpt_take(g, MDS_MEM_WORK, most * inner(g), &t->own_g));
    return MDS_OK;
}

/* Move on to the tile at row `at`; 0 behind the last. */
static int next_tile(const struct mds_gpt *g, const struct layer_ids *id,
                     const struct layer_saved *s, struct mlp_tile *t, int64_t at)
{
    t->at = at;
    t->rows = tile_rows(g, at);
    t->u = t->own_u ? t->own_u : mds_par_at(&g->par, s->u, at * id->up.out);
    t->g = t->own_g ? t->own_g : mds_par_at(&g->par, s->g, at * inner(g));
    return t->rows > 0;
}

/* g from u. */
static enum mds_rc activate(const struct mds_gpt *g, const struct mlp_tile *t)
{
    struct mdsk_activation_fwd act = {.kind = g->cfg.swiglu ? MDSK_SWIGLU : MDSK_GELU,
                                      .R = t->rows,
                                      .F = inner(g),
                                      .dtype = g->par.dtype,
                                      .x = t->u,
                                      .y = t->g};

    return mds_op_activation_fwd(g->par.dev, &act);
}

enum mds_rc mds_gpt_mlp_activate(const struct mds_gpt *g, const struct layer_saved *s)
{
    const struct mlp_tile all = {.rows = mds_par_rows(&g->par), .u = s->u, .g = s->g};

    return s->u && s->g ? activate(g, &all) : MDS_OK;
}

/* u and g from the norm's output, once it is there.  A product can take GELU of what it
 * has just made. */
static enum mds_rc fill(const struct mds_gpt *g, const struct layer_ids *id,
                        struct mds_tp_flow *in, const struct mlp_tile *t)
{
    const void *x = mds_par_at(&g->par, in->rows, t->at * g->cfg.hidden);

    MDS_TRY(mds_tp_enter_wait(&g->par, in, t->at + t->rows));
    if (!g->cfg.swiglu)
        return mds_gpt_linear_gelu_fwd(g, &id->up, t->rows, x, t->u, t->g);
    MDS_TRY(mds_gpt_linear_fwd(g, &id->up, t->rows, 0, x, t->u));
    return activate(g, t);
}

enum mds_rc mds_gpt_mlp_recompute(const struct mds_gpt *g, const struct layer_ids *id,
                                  const struct layer_saved *s)
{
    struct mds_arena_mark mark = mds_arena_mark(g->par.arena);
    struct mds_tp_flow in;
    struct mlp_tile t = {0};

    if (!s->u)
        return MDS_OK;
    MDS_TRY(mds_tp_enter_start(&g->par, s->n2, g->cfg.hidden, &in));
    for (int64_t at = 0; next_tile(g, id, s, &t, at); at += t.rows)
        MDS_TRY(fill(g, id, &in, &t));
    mds_arena_release(g->par.arena, mark);
    return MDS_OK;
}

enum mds_rc mds_gpt_mlp_fwd(const struct mds_gpt *g, const struct layer_ids *id,
                            const struct layer_saved *s, void *m)
{
    const struct mds_par *p = &g->par;
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    int64_t H = g->cfg.hidden;
    struct mds_tp_flow in, out;
    struct mlp_tile t;

    MDS_TRY(mds_tp_enter_start(p, s->n2, H, &in));
    MDS_TRY(mds_tp_leave_open(p, m, H, &out));
    MDS_TRY(take_tile(g, id, s, &t));
    for (int64_t at = 0; next_tile(g, id, s, &t, at); at += t.rows) {
        MDS_TRY(fill(g, id, &in, &t));
        MDS_TRY(mds_gpt_linear_fwd(g, &id->down, t.rows, 1, t.g,
                                   mds_par_at(p, out.rows, at * H)));
        MDS_TRY(mds_tp_leave_start(p, &out, at + t.rows));
    }
    MDS_TRY(mds_tp_leave_wait(&out));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

/* dm -> the gradient of u, in *du.  g, which nobody needs any more, gives its place to
 * its own gradient, and in SwiGLU u to its own, for which g's is too narrow. */
static enum mds_rc inner_bwd(const struct mds_gpt *g, const struct layer_ids *id,
                             const struct mlp_tile *t, const void *dm, void **du)
{
    struct mdsk_activation_bwd act = {.kind = MDSK_SWIGLU,
                                      .R = t->rows,
                                      .F = inner(g),
                                      .dtype = g->par.dtype,
                                      .x = t->u,
                                      .dy = t->g,
                                      .dx = t->u};

    *du = g->cfg.swiglu ? t->u : t->g;
    if (!g->cfg.swiglu)
        return mds_gpt_linear_gelu_bwd_input(g, &id->down, t->rows, dm, t->u, t->g);
    MDS_TRY(mds_gpt_linear_bwd_input(g, &id->down, t->rows, dm, t->g));
    return mds_op_activation_bwd(g->par.dev, &act);
}

/* One tile: dm and x are there when they are read, dx sets out before the weight's
 * gradient is made. */
static enum mds_rc tile_bwd(const struct mds_gpt *g, const struct layer_ids *id,
                            const struct mlp_tile *t, struct mds_tp_flow *in,
                            struct mds_tp_flow *x, struct mds_tp_flow *dx)
{
    const struct mds_par *p = &g->par;
    int64_t at = t->at * g->cfg.hidden, end = t->at + t->rows;
    const void *dm = mds_par_at(p, in->rows, at);
    void *du = NULL;

    MDS_TRY(mds_tp_enter_wait(p, in, end));
    MDS_TRY(mds_gpt_linear_bwd_weight(g, &id->down, t->rows, t->g, dm));
    MDS_TRY(inner_bwd(g, id, t, dm, &du));
    MDS_TRY(
        mds_gpt_linear_bwd_input(g, &id->up, t->rows, du, mds_par_at(p, dx->rows, at)));
    MDS_TRY(mds_tp_leave_start(p, dx, end));
    MDS_TRY(mds_tp_enter_wait(p, x, end));
    return mds_gpt_linear_bwd_weight(g, &id->up, t->rows, mds_par_at(p, x->rows, at),
                                     du);
}

enum mds_rc mds_gpt_mlp_bwd(const struct mds_gpt *g, const struct layer_ids *id,
                            const struct layer_saved *s, const void *dm, void *dn)
{
    const struct mds_par *p = &g->par;
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    int64_t H = g->cfg.hidden;
    struct mds_tp_flow in, x, out;
    struct mlp_tile t;

    MDS_TRY(mds_tp_enter_start(p, dm, H, &in));
    MDS_TRY(mds_tp_enter_start(p, s->n2, H, &x));
    /* Where dm is dn and nothing is gathered, rows of the result must not yet replace
     * those of dm: tiles go row by row, so they do not. */
    MDS_TRY(mds_tp_leave_open(p, dn, H, &out));
    MDS_TRY(take_tile(g, id, s, &t));
    for (int64_t at = 0; next_tile(g, id, s, &t, at); at += t.rows) {
        if (!s->u)
            MDS_TRY(fill(g, id, &x, &t));
        else if (!s->g)
            MDS_TRY(activate(g, &t));
        MDS_TRY(tile_bwd(g, id, &t, &in, &x, &out));
    }
    MDS_TRY(mds_tp_leave_wait(&out));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}
