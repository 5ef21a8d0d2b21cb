/* One transformer block. */
#include "model/parts.h"
#include "parallel/attention.h"
#include "parallel/tensor_parallel.h"

struct mds_attention mds_gpt_attention(const struct mds_gpt *g,
                                       const struct layer_ids *id)
{
    const struct mds_model_config *c = &g->cfg;
    struct mds_comm *tp = g->groups->tp;
    struct mds_attention a = {.A = c->heads / mds_comm_size(tp),
                              .G = c->kv_heads / mds_comm_size(tp),
                              .D = c->head_dim,
                              .plain = !g->run.train->flash_attn};

    a.first_head = mds_comm_rank(tp) * a.A;
    a.dropout =
        mds_gpt_dropout_key(g, id->number, SITE_ATTENTION, c->attention_dropout);
    if (c->position == MDS_POSITION_ROPE) {
        a.rotary_base = c->rotary_base;
        a.rot = (int64_t)((double)c->head_dim * c->rotary_percent) / 2 * 2;
    }
    return a;
}

/* ---- forward ---- */

/* qkv = x W^T + b, of rows as they come. */
static enum mds_rc qkv_fwd(const struct mds_gpt *g, const struct linear_ids *id,
                           struct mds_tp_flow *x, void *qkv)
{
    const struct mds_par *p = &g->par;

    for (int64_t at = 0, n; (n = mds_tp_enter_rows(p, at)) > 0; at += n) {
        MDS_TRY(mds_tp_enter_wait(p, x, at + n));
        MDS_TRY(mds_gpt_linear_fwd(g, id, n, 0, mds_par_at(p, x->rows, at * id->in),
                                   mds_par_at(p, qkv, at * id->out)));
    }
    return MDS_OK;
}

/* qkv = rotate(norm(x + r) W^T + b), inside the attention. */
static enum mds_rc enter(const struct mds_gpt *g, const struct layer_ids *id,
                         const void *x, const void *r, const struct layer_saved *s)
{
    const struct mds_par *p = &g->par;
    struct mds_attention a = mds_gpt_attention(g, id);
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    void *qkv = NULL, *n1 = s->n1;
    struct mds_tp_flow in;

    MDS_TRY(mds_gpt_lend(g, mds_gpt_stream_size(g), &n1));
    MDS_TRY(mds_gpt_norm_fwd(g, &id->norm1, x, r, s->x, n1, s->mean1, s->rstd1));
    MDS_TRY(mds_tp_enter_start(p, n1, g->cfg.hidden, &in));
    MDS_TRY(mds_attention_qkv(p, &a, s->qkv, &qkv));
    MDS_TRY(qkv_fwd(g, &id->qkv, &in, qkv));
    MDS_TRY(mds_attention_enter(p, &a, qkv, s->qkv));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

static enum mds_rc attend(const struct mds_gpt *g, const struct layer_ids *id,
                          const struct layer_saved *s)
{
    struct mds_attention a = mds_gpt_attention(g, id);

    return mds_attention_fwd_core(&g->par, &a, s->qkv, s->o, s->lse);
}

/* y = o W^T + b; what is made sets out while the rest is. */
static enum mds_rc out_fwd(const struct mds_gpt *g, const struct linear_ids *id,
                           const void *o, struct mds_tp_flow *y)
{
    const struct mds_par *p = &g->par;

    for (int64_t at = 0, n; (n = mds_tp_leave_rows(p, at)) > 0; at += n) {
        MDS_TRY(mds_gpt_linear_fwd(g, id, n, 1, mds_par_at(p, o, at * id->in),
                                   mds_par_at(p, y->rows, at * id->out)));
        MDS_TRY(mds_tp_leave_start(p, y, at + n));
    }
    return mds_tp_leave_wait(y);
}

/* n2 = norm(x + dropout(o W^T + b)) */
static enum mds_rc middle(const struct mds_gpt *g, const struct layer_ids *id,
                          const struct layer_saved *s)
{
    const struct mds_par *p = &g->par;
    int64_t H = g->cfg.hidden;
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    struct mds_tp_flow out;
    void *branch = NULL;

    MDS_TRY(mds_gpt_take(g, MDS_MEM_WORK, mds_gpt_stream_size(g), &branch));
    MDS_TRY(mds_tp_leave_open(p, branch, H, &out));
    MDS_TRY(out_fwd(g, &id->out, s->o, &out));
    MDS_TRY(mds_gpt_dropout(g, id->number, SITE_OUT, branch, branch, &branch));
    MDS_TRY(mds_gpt_norm_fwd(g, &id->norm2, s->x, branch, s->x1, s->n2, s->mean2,
                             s->rstd2));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

/* What follows q k v; as block_recompute. */
static enum mds_rc behind_qkv(const struct mds_gpt *g, const struct layer_ids *id,
                              const struct layer_saved *s, int kept_attention, void *m)
{
    struct mds_arena_mark mark = mds_arena_mark(g->par.arena);
    struct layer_saved lent = *s;

    if (!kept_attention)
        MDS_TRY(attend(g, id, s));
    MDS_TRY(mds_gpt_lend(g, mds_gpt_stream_size(g), &lent.n2));
    MDS_TRY(middle(g, id, &lent));
    if (m) {
        MDS_TRY(mds_gpt_mlp_fwd(g, id, &lent, m));
        MDS_TRY(mds_gpt_dropout(g, id->number, SITE_MLP, m, m, &m));
    } else {
        MDS_TRY(mds_gpt_mlp_recompute(g, id, &lent));
    }
    mds_arena_release(g->par.arena, mark);
    return MDS_OK;
}

enum mds_rc mds_gpt_block_fwd(const struct mds_gpt *g, const struct layer_ids *id,
                              const void *x, const void *r, const struct layer_saved *s,
                              const struct kept *k, void *m)
{
    struct mds_dev_copying saving = {0};

    MDS_TRY(mds_params_acquire(g->ps, id->unit));
    MDS_TRY(enter(g, id, x, r, s));
    if (k)
        MDS_TRY(mds_gpt_keep(g, s->x, k, &saving));
    MDS_TRY(behind_qkv(g, id, s, 0, m));
    mds_dev_meet(g->par.dev, saving); /* blocks have s->x in turn */
    return mds_params_release(g->ps, id->unit);
}

enum mds_rc mds_gpt_block_recompute(const struct mds_gpt *g, const struct layer_ids *id,
                                    const void *x, const void *r,
                                    const struct layer_saved *s, int kept_attention,
                                    void *m)
{
    MDS_TRY(mds_params_acquire(g->ps, id->unit));
    MDS_TRY(enter(g, id, x, r, s));
    MDS_TRY(behind_qkv(g, id, s, kept_attention, m));
    return mds_params_release(g->ps, id->unit);
}

/* ---- backward ---- */

/* A norm's result in *n, made again of its input x if it was not kept. */
static enum mds_rc recompute_norm(const struct mds_gpt *g, const struct norm_ids *id,
                                  const void *x, float *mean, float *rstd, void **n)
{
    if (*n)
        return MDS_OK;
    MDS_TRY(mds_gpt_lend(g, mds_gpt_stream_size(g), n));
    return mds_gpt_norm_fwd(g, id, x, NULL, NULL, *n, mean, rstd);
}

static enum mds_rc mlp_half_bwd(const struct mds_gpt *g, const struct layer_ids *id,
                                const struct layer_saved *s, void *d)
{
    struct mds_arena_mark mark = mds_arena_mark(g->par.arena);
    struct layer_saved lent = *s;
    void *dm = NULL, *dn = NULL;

    MDS_TRY(mds_gpt_take(g, MDS_MEM_WORK, mds_gpt_stream_size(g), &dn));
    MDS_TRY(mds_gpt_dropout(g, id->number, SITE_MLP, d, dn, &dm));
    MDS_TRY(recompute_norm(g, &id->norm2, s->x1, s->mean2, s->rstd2, &lent.n2));
    MDS_TRY(mds_gpt_mlp_bwd(g, id, &lent, dm, dn));
    MDS_TRY(mds_gpt_norm_bwd(g, &id->norm2, s->x1, s->mean2, s->rstd2, dn, d));
    mds_arena_release(g->par.arena, mark);
    return MDS_OK;
}

/* dy -> d_o and the weight's gradient, of rows as they come. */
static enum mds_rc out_bwd(const struct mds_gpt *g, const struct linear_ids *id,
                           const void *o, struct mds_tp_flow *dy, void *d_o)
{
    const struct mds_par *p = &g->par;

    for (int64_t at = 0, n; (n = mds_tp_enter_rows(p, at)) > 0; at += n) {
        const void *rows = mds_par_at(p, dy->rows, at * id->out);

        MDS_TRY(mds_tp_enter_wait(p, dy, at + n));
        MDS_TRY(
            mds_gpt_linear_bwd_weight(g, id, n, mds_par_at(p, o, at * id->in), rows));
        MDS_TRY(
            mds_gpt_linear_bwd_input(g, id, n, rows, mds_par_at(p, d_o, at * id->in)));
    }
    return MDS_OK;
}

/* Gradient of the attention's branch, da [Rs,H] -> dqkv [R, (A+2G) D]. */
static enum mds_rc attention_bwd(const struct mds_gpt *g, const struct layer_ids *id,
                                 const struct layer_saved *s, const void *da,
                                 void *dqkv)
{
    const struct mds_par *p = &g->par;
    struct mds_attention a = mds_gpt_attention(g, id);
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    struct mds_tp_flow in;
    void *d_o = NULL;

    MDS_TRY(mds_tp_enter_start(p, da, g->cfg.hidden, &in));
    MDS_TRY(mds_gpt_take(g, MDS_MEM_WORK, mds_par_rows(p) * a.A * a.D, &d_o));
    MDS_TRY(out_bwd(g, &id->out, s->o, &in, d_o));
    MDS_TRY(mds_attention_bwd_core(p, &a, s->qkv, s->o, s->lse, d_o, dqkv));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

/* dx = dqkv W; what is made sets out while the rest is. */
static enum mds_rc qkv_bwd_input(const struct mds_gpt *g, const struct linear_ids *id,
                                 const void *dqkv, struct mds_tp_flow *dx)
{
    const struct mds_par *p = &g->par;

    for (int64_t at = 0, n; (n = mds_tp_leave_rows(p, at)) > 0; at += n) {
        MDS_TRY(mds_gpt_linear_bwd_input(g, id, n, mds_par_at(p, dqkv, at * id->out),
                                         mds_par_at(p, dx->rows, at * id->in)));
        MDS_TRY(mds_tp_leave_start(p, dx, at + n));
    }
    return MDS_OK;
}

/* dqkv -> dn [Rs,H], the gradient of norm1's result.  That is gathered while dn is
 * made, and dn travels while the weight's gradient is. */
static enum mds_rc qkv_bwd(const struct mds_gpt *g, const struct layer_ids *id,
                           const struct layer_saved *s, const void *dqkv, void *dn)
{
    const struct mds_par *p = &g->par;
    int64_t R = mds_par_rows(p), H = g->cfg.hidden;
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    struct mds_tp_flow in, out;
    void *n1 = s->n1;

    MDS_TRY(recompute_norm(g, &id->norm1, s->x, s->mean1, s->rstd1, &n1));
    MDS_TRY(mds_tp_enter_start(p, n1, H, &in));
    MDS_TRY(mds_tp_leave_open(p, dn, H, &out));
    MDS_TRY(qkv_bwd_input(g, &id->qkv, dqkv, &out));
    MDS_TRY(mds_tp_enter_wait(p, &in, R));
    MDS_TRY(mds_gpt_linear_bwd_weight(g, &id->qkv, R, in.rows, dqkv));
    MDS_TRY(mds_tp_leave_wait(&out));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

static enum mds_rc attention_half_bwd(const struct mds_gpt *g,
                                      const struct layer_ids *id,
                                      const struct layer_saved *s, void *d)
{
    struct mds_arena_mark mark = mds_arena_mark(g->par.arena);
    void *da = NULL, *dn = NULL, *dqkv = NULL;

    MDS_TRY(mds_gpt_take(g, MDS_MEM_WORK, mds_gpt_stream_size(g), &dn));
    MDS_TRY(mds_gpt_take(g, MDS_MEM_WORK, mds_par_rows(&g->par) * id->qkv.out, &dqkv));
    MDS_TRY(mds_gpt_dropout(g, id->number, SITE_OUT, d, dn, &da));
    MDS_TRY(attention_bwd(g, id, s, da, dqkv));
    MDS_TRY(qkv_bwd(g, id, s, dqkv, dn));
    MDS_TRY(mds_gpt_norm_bwd(g, &id->norm1, s->x, s->mean1, s->rstd1, dn, d));
    mds_arena_release(g->par.arena, mark);
    return MDS_OK;
}

/* What stayed behind when the rest went to the host. */
static enum mds_rc fill_in(const struct mds_gpt *g, const struct layer_ids *id,
                           const struct layer_saved *s)
{
    if (s->n1)
        MDS_TRY(mds_gpt_norm_fwd(g, &id->norm1, s->x, NULL, NULL, s->n1, s->mean1,
                                 s->rstd1));
    if (s->n2)
        MDS_TRY(mds_gpt_norm_fwd(g, &id->norm2, s->x1, NULL, NULL, s->n2, s->mean2,
                                 s->rstd2));
    return mds_gpt_mlp_activate(g, s);
}

enum mds_rc mds_gpt_block_bwd(const struct mds_gpt *g, const struct layer_ids *id,
                              const struct layer_saved *s, int came_back, void *d)
{
    MDS_TRY(mds_params_acquire(g->ps, id->unit));
    if (came_back)
        MDS_TRY(fill_in(g, id, s));
    MDS_TRY(mds_params_grad_begin(g->ps, id->unit));
    mds_gpt_norm_grads_begin(g);
    MDS_TRY(mlp_half_bwd(g, id, s, d));
    MDS_TRY(attention_half_bwd(g, id, s, d));
    MDS_TRY(mds_gpt_norm_grads_end(g, &id->norm1, &id->norm2));
    MDS_TRY(mds_params_grad_ready(g->ps, id->unit));
    return mds_params_release(g->ps, id->unit);
}
