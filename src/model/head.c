/* SPDX-License-Identifier: BSD-3-Clause */
/* The final norm, the output layer and the loss, tile by tile. */
#include "model/modules.h"
#include "parallel/vocab.h"
#include "tensor/op.h"

void mds_gpt_add_head(struct registrar *reg)
{
    struct mds_gpt *g = reg->g;
    struct head_ids *id = &g->head;

    id->unit = mds_gpt_add_unit(reg, "head");
    id->norm =
        mds_gpt_add_norm(reg, "final_norm", g->cfg.hidden, mds_gpt_residual_partial(g));
    id->weight = g->embedding.word;
    if (!g->cfg.tied_head)
        id->weight = mds_gpt_add_matrix(reg, "head", g->cfg.padded_vocab, g->cfg.hidden,
                                        MDS_SHARD_ROWS, g->cfg.init_std, 0, 0);
}

static struct mds_head head_spec(const struct context *c)
{
    const struct head_ids *id = &c->g->head;
    const struct mds_param *w = mds_params_get(c->g->ps, id->weight);
    int training = c->run->training;

    return (struct mds_head){
        .H = c->g->cfg.hidden,
        .vocab = c->g->cfg.vocab,
        .first_word = w->rows * mds_groups_rank(c->g->groups, MDS_AXIS_TENSOR),
        .words = w->rows,
        .weight = mds_gpt_weight(c, id->weight),
        .dweight = training ? mds_gpt_grad(c, id->weight) : NULL,
        .uninit = training &&
                  mds_params_test_and_clear_uninit(c->g->ps, id->weight, w->count),
        .tile = c->run->train->act.loss_tile,
        .grad_scale = c->run->grad_scale,
        .z_loss = (float)c->run->train->z_loss};
}

/* What there is of `size` bytes for each row, for a tile's rows, in the order of the
 * GEMM: those of each tensor rank's part, one part after the other. */
static enum mds_rc tile_rows(const struct context *t, const void *all, int64_t size,
                             const void **out)
{
    int64_t rows = mds_par_rows(&t->par), bytes = t->part * size;
    void *gathered = NULL;

    *out = (const char *)all + t->row * size;
    if (t->part == rows)
        return MDS_OK;
    MDS_TRY(mds_arena_alloc(t->par.arena, MDS_MEM_WORK, rows * size, &gathered));
    for (int64_t i = 0; i < rows / t->part; i++)
        mds_dev_copy(t->par.dev, (char *)gathered + i * bytes,
                     (const char *)all + (i * t->stride + t->row) * size, bytes);
    *out = gathered;
    return MDS_OK;
}

/* The other way round: from what a tile has of its rows to that of all rows. */
static void put_rows(const struct context *t, const void *tile, int64_t size, void *all)
{
    int64_t parts = mds_par_rows(&t->par) / t->part, bytes = t->part * size;

    for (int64_t i = 0; all && parts > 1 && i < parts; i++)
        mds_dev_copy(t->par.dev, (char *)all + (i * t->stride + t->row) * size,
                     (const char *)tile + i * bytes, bytes);
}

/* Bytes of a row of logits. */
static int64_t logits_size(const struct context *c, const struct mds_head *h)
{
    return h->words * (int64_t)mdsk_dtype_size(c->par.dtype);
}

static enum mds_rc tile_targets(const struct context *t, const struct mds_head *h,
                                const struct mds_targets *all, struct mds_targets *out)
{
    const void *id = NULL, *of = NULL, *loss = NULL, *logits = NULL;

    MDS_TRY(tile_rows(t, all->id, sizeof *all->id, &id));
    if (all->kinds.of)
        MDS_TRY(tile_rows(t, all->kinds.of, sizeof *all->kinds.of, &of));
    if (all->loss)
        MDS_TRY(tile_rows(t, all->loss, sizeof *all->loss, &loss));
    if (all->logits)
        MDS_TRY(tile_rows(t, all->logits, logits_size(t, h), &logits));
    *out = *all;
    out->loss = (double *)loss;
    out->logits = (void *)logits;
    out->id = id;
    out->kinds.of = of;
    return MDS_OK;
}

/* The final norm's result, or its gradient: logits are of y / width with muP. */
static enum mds_rc scale_for_logits(const struct context *c, int64_t n, void *y)
{
    return mds_gpt_scale(c, mds_mup_logit_scale(&c->g->cfg), n, y);
}

/* The loss of x + branch, and d, the gradient of the stream.  The sum overwrites x or
 * branch. */
static enum mds_rc head_tile(const struct context *t, struct mds_head *h,
                             struct residual x, const struct mds_targets *targets,
                             void *d)
{
    const struct mds_par *p = &t->par;
    const struct norm_ids *norm = &t->g->head.norm;
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    int64_t Rs = mds_par_slice_rows(p), n = mds_gpt_residual_size(t);
    void *y = NULL, *dy = NULL, *sum = x.branch;
    float *mean = NULL, *rstd = NULL;
    struct mds_targets own;

    x.x = mds_gpt_residual_at(t, x.x);
    MDS_TRY(mds_gpt_scratch(t, n, &y));
    MDS_TRY(mds_par_alloc_f32(p, MDS_MEM_WORK, Rs, &mean));
    MDS_TRY(mds_par_alloc_f32(p, MDS_MEM_WORK, Rs, &rstd));
    if (d)
        MDS_TRY(mds_gpt_scratch(t, n, &dy));
    MDS_TRY(tile_targets(t, h, targets, &own));
    MDS_TRY(mds_gpt_norm_fwd(t, norm, Rs, x.x, x.branch, sum, y, mean, rstd, NULL));
    MDS_TRY(scale_for_logits(t, n, y));
    MDS_TRY(mds_head_loss(p, h, y, &own, dy));
    put_rows(t, own.loss, sizeof *own.loss, targets->loss);
    put_rows(t, own.logits, logits_size(t, h), targets->logits);
    if (d) {
        d = mds_gpt_residual_at(t, d);
        MDS_TRY(scale_for_logits(t, n, dy));
        MDS_TRY(
            mds_gpt_norm_bwd(t, norm, Rs, sum ? sum : x.x, mean, rstd, dy, NULL, d));
    }
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

static enum mds_rc head_tiles(const struct context *c, struct residual x,
                              const struct mds_targets *targets, void *d)
{
    const struct norm_ids *norm = &c->g->head.norm;
    struct mds_head h = head_spec(c);
    struct context t;

    mds_gpt_norm_grads_begin(c);
    for (int64_t at = 0; mds_gpt_tile(c, at, &t); at = mds_gpt_tile_end(&t))
        MDS_TRY(head_tile(&t, &h, x, targets, d));
    return d ? mds_gpt_norm_grads_end(c, 1, &norm) : MDS_OK;
}

/* If this stage has the tied embedding only for the head, the embedding's gradient is
 * complete at the end. */
enum mds_rc mds_gpt_head(const struct context *c, int word_is_here, struct residual x,
                         const struct mds_targets *targets, void *d)
{
    const struct mds_gpt *g = c->g;
    int word_unit = g->embedding.word_unit, tied = g->head.weight == g->embedding.word;

    MDS_TRY(mds_params_acquire(g->ps, g->head.unit));
    if (tied)
        MDS_TRY(mds_params_acquire(g->ps, word_unit));
    if (d) {
        MDS_TRY(mds_params_grad_begin(g->ps, g->head.unit));
        if (tied)
            MDS_TRY(mds_params_grad_begin(g->ps, word_unit));
    }
    MDS_TRY(head_tiles(c, x, targets, d));
    if (d) {
        MDS_TRY(mds_params_grad_ready(g->ps, g->head.unit));
        if (tied && !word_is_here)
            MDS_TRY(mds_params_grad_ready(g->ps, word_unit));
    }
    if (tied)
        MDS_TRY(mds_params_release(g->ps, word_unit));
    return mds_params_release(g->ps, g->head.unit);
}

enum mds_rc mds_gpt_final_norm(const struct context *c, struct residual x, void *out)
{
    const struct mds_gpt *g = c->g;
    struct mds_arena_mark mark = mds_arena_mark(c->par.arena);
    int64_t rows = mds_par_slice_rows(&c->par);
    float *mean = NULL, *rstd = NULL;
    struct context t;

    MDS_TRY(mds_par_alloc_f32(&c->par, MDS_MEM_WORK, rows, &mean));
    MDS_TRY(mds_par_alloc_f32(&c->par, MDS_MEM_WORK, rows, &rstd));
    MDS_TRY(mds_params_acquire(g->ps, g->head.unit));
    for (int64_t at = 0; mds_gpt_tile(c, at, &t); at = mds_gpt_tile_end(&t))
        MDS_TRY(mds_gpt_norm_fwd(&t, &g->head.norm, mds_par_slice_rows(&t.par),
                                 mds_gpt_residual_at(&t, x.x), x.branch, x.branch,
                                 mds_gpt_residual_at(&t, out), mean, rstd, NULL));
    mds_arena_release(c->par.arena, mark);
    return mds_params_release(g->ps, g->head.unit);
}

/* ---- generation ---- */

/* Of a rank's words, gathered from all tensor ranks. */
static enum mds_rc gather_logits(const struct context *c, const void *x, void *out)
{
    struct mds_head h = head_spec(c);
    struct mds_comm *tp = mds_group(c->g->groups, MDS_AXIS_TENSOR);
    int64_t n = c->par.B * h.words;
    void *own = mds_par_at(&c->par, out, mds_comm_rank(tp) * n);
    struct mdsk_linear_fwd a = {.R = c->par.B,
                                .in = h.H,
                                .out = h.words,
                                .dtype = c->par.dtype,
                                .by_rows = 1,
                                .x = x,
                                .w = h.weight,
                                .y = own};

    MDS_TRY(mds_op_linear_fwd(c->par.dev, &a));
    if (mds_comm_size(tp) == 1)
        return MDS_OK;
    return mds_comm_all_gather(tp, own, out,
                               n * (int64_t)mdsk_dtype_size(c->par.dtype));
}

/* Of ranks that split tokens, the last one has the last: *y [n] on all becomes its. */
static enum mds_rc take_last_token(const struct context *c, int64_t n, void **y)
{
    const struct mds_par *p = &c->par;
    struct mds_comm *ranks = mds_group(p->groups, MDS_AXES_SEQUENCE);
    void *all = NULL;

    if (p->tokens.n == p->ring.n)
        return MDS_OK;
    MDS_TRY(mds_gpt_scratch(c, mds_comm_size(ranks) * n, &all));
    MDS_TRY(
        mds_comm_all_gather(ranks, *y, all, n * (int64_t)mdsk_dtype_size(p->dtype)));
    *y = mds_par_at(p, all, (mds_comm_size(ranks) - 1) * n);
    return MDS_OK;
}

/* The last B rows are the last token's. */
static enum mds_rc last_token_logits(const struct context *c, struct residual x,
                                     void *out)
{
    const struct mds_par *p = &c->par;
    int64_t n = p->B * c->g->cfg.hidden, at = mds_gpt_residual_size(c) - n;
    void *branch = x.branch ? mds_par_at(p, x.branch, at) : NULL, *y = NULL;
    float *mean = NULL, *rstd = NULL;

    MDS_TRY(mds_gpt_scratch(c, n, &y));
    MDS_TRY(mds_par_alloc_f32(p, MDS_MEM_WORK, p->B, &mean));
    MDS_TRY(mds_par_alloc_f32(p, MDS_MEM_WORK, p->B, &rstd));
    MDS_TRY(mds_gpt_norm_fwd(c, &c->g->head.norm, p->B, mds_par_at(p, x.x, at), branch,
                             branch, y, mean, rstd, NULL));
    MDS_TRY(scale_for_logits(c, n, y));
    MDS_TRY(take_last_token(c, n, &y));
    return gather_logits(c, y, out);
}

enum mds_rc mds_gpt_logits(const struct context *c, struct residual x, void *out)
{
    const struct mds_gpt *g = c->g;
    int tied = g->head.weight == g->embedding.word;
    struct mds_arena_mark mark = mds_arena_mark(c->par.arena);

    MDS_TRY(mds_params_acquire(g->ps, g->head.unit));
    if (tied)
        MDS_TRY(mds_params_acquire(g->ps, g->embedding.word_unit));
    MDS_TRY(last_token_logits(c, x, out));
    mds_arena_release(c->par.arena, mark);
    if (tied)
        MDS_TRY(mds_params_release(g->ps, g->embedding.word_unit));
    return mds_params_release(g->ps, g->head.unit);
}
