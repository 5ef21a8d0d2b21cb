/* SPDX-License-Identifier: BSD-3-Clause */
/* The MLP, y = act(x Wup^T) Wdown^T, for all rows at once or tile by tile (--mlp-tile).
 * u is the input of the activation, g its output.  If they are not saved, they exist
 * for one tile at a time, and backward recomputes them.  If the second linear
 * layer and its weight's gradient are in FP8, the casts of its input read u, and there
 * is no g but the place for its gradient. */
#include "model/modules.h"

#include "base/minmax.h"
#include "tensor/op.h"

#include <math.h>

/* ---- parameters ---- */

static const char *const first[] = {"mlp.gate", "mlp.up"}, *const last[] = {"mlp.down"};

static struct linears up_linears(const struct mds_model_config *m, int64_t wide[2])
{
    int gated = mdsk_activation_of(m->activation)->gated;

    wide[0] = wide[1] = m->ffn_hidden;
    return (struct linears){gated ? first : first + 1,
                            gated ? 2 : 1,
                            m->hidden,
                            wide,
                            MDS_SHARD_ROWS,
                            m->init_std,
                            m->linear_bias};
}

/* Initialised like attention's output layer (attention.c). */
static struct linears down_linear(const struct mds_model_config *m)
{
    return (struct linears){last,           1,
                            m->ffn_hidden,  &m->hidden,
                            MDS_SHARD_COLS, m->init_std / sqrt(2.0 * (double)m->layers),
                            m->linear_bias};
}

void mds_gpt_add_mlp_weights(struct registrar *reg, const char *layer,
                             struct mlp_ids *id)
{
    int64_t wide[2];
    struct linears up = up_linears(&reg->g->cfg, wide),
                   down = down_linear(&reg->g->cfg);

    id->up = mds_gpt_add_weights(reg, layer, &up);
    id->down = mds_gpt_add_weights(reg, layer, &down);
    id->router.sum_at = -1;
}

void mds_gpt_add_mlp_biases(struct registrar *reg, const char *layer,
                            struct mlp_ids *id)
{
    int64_t wide[2];
    struct linears up = up_linears(&reg->g->cfg, wide),
                   down = down_linear(&reg->g->cfg);

    id->up.bias = mds_gpt_add_biases(reg, layer, &up);
    id->down.bias = mds_gpt_add_biases(reg, layer, &down);
}

/* ---- tiles ---- */

struct mlp_tile {
    int64_t at, rows;
    void *u, *g;
    void *own_u, *own_g;     /* scratch memory; NULL if saved */
    void *x_codes, *g_codes; /* saved; then this tile has all rows */
};

static int64_t inner_size(const struct context *c)
{
    return c->g->cfg.ffn_hidden / mds_groups_size(c->g->groups, MDS_AXIS_TENSOR);
}

/* Rows of the tile at row `at`, 0 after the last.  A tile ends at the latest with its
 * tensor-parallel chunk. */
static int64_t tile_rows(const struct context *c, int64_t at)
{
    int64_t left = mds_tp_reduce_rows(&c->par, at), tile = c->run->train->act.mlp_tile;

    return tile > 0 && tile < left ? tile : left;
}

/* Scratch memory for u and g of the longest tile, unless they are saved. */
static enum mds_rc alloc_tile(const struct context *c, const struct mlp_ids *id,
                              const struct saved *s, int backward, struct mlp_tile *t)
{
    int64_t most = 0;

    *t = (struct mlp_tile){0};
    for (int64_t at = 0, n; (n = tile_rows(c, at)) > 0; at += n)
        most = mds_max(n, most);
    if (!s->at[SAVED_U])
        MDS_TRY(mds_gpt_scratch(c, most * id->up.out, &t->own_u));
    if (!s->at[SAVED_G] && (backward || !id->down.fp8_wgrad))
        MDS_TRY(mds_gpt_scratch(c, most * inner_size(c), &t->own_g));
    return MDS_OK;
}

/* Move on to the tile at row `at`; returns 0 after the last. */
static int next_mlp_tile(const struct context *c, const struct mlp_ids *id,
                         const struct saved *s, struct mlp_tile *t, int64_t at)
{
    const struct mds_par *p = &c->par;

    t->at = at;
    t->rows = tile_rows(c, at);
    t->x_codes = s->at[SAVED_N2_CODES];
    t->g_codes = s->at[SAVED_G_CODES];
    t->u = t->own_u ? t->own_u : mds_par_at(p, s->at[SAVED_U], at * id->up.out);
    t->g = t->own_g;
    if (s->at[SAVED_G])
        t->g = mds_par_at(p, s->at[SAVED_G], at * inner_size(c));
    return t->rows > 0;
}

static struct linear_input down_input(const struct mlp_ids *id,
                                      const struct mlp_tile *t)
{
    return id->down.fp8_wgrad
               ? (struct linear_input){.x = t->u, .codes = t->g_codes, .activated = 1}
               : (struct linear_input){.x = t->g};
}

/* Whether the GEMM applies the activation itself (gelu in kernels/linear.h). */
static int is_fused_activation(const struct context *c, const struct mlp_ids *id)
{
    return c->g->cfg.activation == MDSK_GELU && !id->down.fp8;
}

/* g from u. */
static enum mds_rc activate_tile(const struct context *c, const struct mlp_tile *t)
{
    struct mdsk_activation_fwd act = {.kind = c->g->cfg.activation,
                                      .R = t->rows,
                                      .F = inner_size(c),
                                      .dtype = c->par.dtype,
                                      .x = t->u,
                                      .y = t->g};

    return mds_op_activation_fwd(c->par.dev, &act);
}

enum mds_rc mds_gpt_mlp_activate(const struct context *c, const struct mlp_ids *id,
                                 const struct saved *s)
{
    const struct mlp_tile all = {
        .rows = mds_par_rows(&c->par), .u = s->at[SAVED_U], .g = s->at[SAVED_G]};

    return all.u && all.g && !id->down.fp8_wgrad ? activate_tile(c, &all) : MDS_OK;
}

/* u, and g unless only FP8 casts would read it, from the input, after waiting for it;
 * amax of its rows in this tile, or NULL. */
static enum mds_rc up_linear_fwd(const struct context *c, const struct mlp_ids *id,
                                 struct mds_tp_handle *in, uint32_t *amax,
                                 const struct mlp_tile *t)
{
    struct linear_input x = {.x = mds_par_at(&c->par, in->rows, t->at * id->up.in),
                             .codes = t->x_codes,
                             .amax = amax};

    MDS_TRY(mds_tp_gather_wait(&c->par, in, t->at + t->rows));
    if (is_fused_activation(c, id))
        return mds_gpt_linear_gelu_fwd(c, &id->up, t->rows, x, t->u, t->g);
    MDS_TRY(mds_gpt_linear_fwd(c, &id->up, t->rows, 0, x, t->u));
    return id->down.fp8_wgrad ? MDS_OK : activate_tile(c, t);
}

enum mds_rc mds_gpt_mlp_fwd(const struct context *t, const struct mlp_ids *id,
                            const struct saved *s, const void *x, uint32_t *amax,
                            void *y)
{
    const struct context chunks = mds_gpt_in_chunks(t), *c = &chunks;
    const struct mds_par *p = &c->par;
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    int64_t H = id->up.in;
    struct mds_tp_handle in, out;
    struct mlp_tile tile;

    MDS_TRY(mds_tp_gather_start(p, x, H, &in));
    MDS_TRY(mds_tp_reduce_open(p, y, H, &out));
    MDS_TRY(alloc_tile(c, id, s, 0, &tile));
    for (int64_t at = 0; next_mlp_tile(c, id, s, &tile, at); at += tile.rows) {
        int all = in.rows == x && tile.rows == mds_par_rows(p);

        MDS_TRY(up_linear_fwd(c, id, &in, all ? amax : NULL, &tile));
        MDS_TRY(mds_gpt_linear_fwd(c, &id->down, tile.rows, 1, down_input(id, &tile),
                                   mds_par_at(p, out.rows, at * H)));
        MDS_TRY(mds_tp_reduce_start(p, &out, at + tile.rows));
    }
    MDS_TRY(mds_tp_reduce_wait(&out));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

/* *du = the gradient of u, from dy.  g is no longer needed, and its gradient overwrites
 * it.  *du is stored in g too, or in u if the MLP is gated: then g is too narrow. */
static enum mds_rc down_bwd_input(const struct context *c, const struct mlp_ids *id,
                                  const struct mlp_tile *t,
                                  const struct linear_grad *dy, void **du)
{
    int gated = mdsk_activation_of(c->g->cfg.activation)->gated;
    struct mdsk_activation_bwd act = {.kind = c->g->cfg.activation,
                                      .R = t->rows,
                                      .F = inner_size(c),
                                      .dtype = c->par.dtype,
                                      .x = t->u,
                                      .dy = t->g,
                                      .dx = gated ? t->u : t->g,
                                      .amax = mds_gpt_fp8_grad_amax(c, &id->up)};

    *du = act.dx;
    if (is_fused_activation(c, id))
        return mds_gpt_linear_gelu_bwd_input(c, &id->down, t->rows, dy, t->u, t->g);
    MDS_TRY(mds_gpt_linear_bwd_input(c, &id->down, t->rows, dy, t->g));
    return mds_op_activation_bwd(c->par.dev, &act);
}

/* Backward of one tile: waits for dy and x before reading them, and sends dx before it
 * computes the weight's gradient. */
static enum mds_rc mlp_tile_bwd(const struct context *c, const struct mlp_ids *id,
                                const struct mlp_tile *t, struct mds_tp_handle *dy,
                                struct mds_tp_handle *x, struct mds_tp_handle *dx)
{
    const struct mds_par *p = &c->par;
    int64_t at = t->at * id->up.in, end = t->at + t->rows;
    struct linear_input up = {.x = mds_par_at(p, x->rows, at), .codes = t->x_codes};
    struct linear_grad g;
    void *du = NULL;

    MDS_TRY(mds_tp_gather_wait(p, dy, end));
    MDS_TRY(mds_gpt_linear_grad_open(c, &id->down, t->rows, mds_par_at(p, dy->rows, at),
                                     NULL, 1, 1, &g));
    MDS_TRY(mds_gpt_linear_bwd_weight(c, &id->down, t->rows, down_input(id, t), &g));
    MDS_TRY(down_bwd_input(c, id, t, &g, &du));
    mds_gpt_linear_grad_close(c, &g);
    MDS_TRY(mds_gpt_linear_grad_open(c, &id->up, t->rows, du,
                                     mds_gpt_fp8_grad_amax(c, &id->up), 1, 1, &g));
    MDS_TRY(
        mds_gpt_linear_bwd_input(c, &id->up, t->rows, &g, mds_par_at(p, dx->rows, at)));
    MDS_TRY(mds_tp_reduce_start(p, dx, end));
    MDS_TRY(mds_tp_gather_wait(p, x, end));
    MDS_TRY(mds_gpt_linear_bwd_weight(c, &id->up, t->rows, up, &g));
    mds_gpt_linear_grad_close(c, &g);
    return MDS_OK;
}

enum mds_rc mds_gpt_mlp_bwd(const struct context *t, const struct mlp_ids *id,
                            const struct saved *s, const void *x, const void *dy,
                            void *dx)
{
    const struct context chunks = mds_gpt_in_chunks(t), *c = &chunks;
    const struct mds_par *p = &c->par;
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    int64_t H = id->up.in;
    struct mds_tp_handle in, input, out;
    struct mlp_tile tile;

    MDS_TRY(mds_tp_gather_start(p, dy, H, &in));
    MDS_TRY(mds_tp_gather_start(p, x, H, &input));
    /* dx may be dy: tiles go row by row, so a tile's dx overwrites only dy that has
     * been used. */
    MDS_TRY(mds_tp_reduce_open(p, dx, H, &out));
    MDS_TRY(alloc_tile(c, id, s, 1, &tile));
    for (int64_t at = 0; next_mlp_tile(c, id, s, &tile, at); at += tile.rows) {
        if (!s->at[SAVED_U])
            MDS_TRY(up_linear_fwd(c, id, &input, NULL, &tile));
        else if (!s->at[SAVED_G] && !id->down.fp8_wgrad)
            MDS_TRY(activate_tile(c, &tile));
        MDS_TRY(mlp_tile_bwd(c, id, &tile, &in, &input, &out));
    }
    MDS_TRY(mds_tp_reduce_wait(&out));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}
