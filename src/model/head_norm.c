/* SPDX-License-Identifier: BSD-3-Clause */
/* Norms of queries and keys before they rotate (--qk-layernorm): Henry et al. 2020,
 * arXiv:2010.04245; Dehghani et al. 2023, arXiv:2302.05442.  Head by head, or
 * (--qk-norm-across-heads) of all heads as one row, of which each tensor rank has a
 * part: then these ranks sum one number a row for each of both, and two in backward. */
#include "model/modules.h"

#include <stdio.h>

/* Each tensor rank has the weights of its heads. */
static struct norm_ids add_norm_across(struct registrar *reg, const char *name,
                                       int64_t width)
{
    struct norm_ids id = {.beta = -1, .sum_at = -1};

    id.size = width / mds_groups_size(reg->g->groups, MDS_AXIS_TENSOR);
    id.gamma =
        mds_gpt_add_vector(reg, name, "gamma", width, MDS_INIT_ONE, MDS_SHARD_ROWS, 0);
    if (reg->g->cfg.norm == MDS_NORM_LAYERNORM)
        id.beta = mds_gpt_add_vector(reg, name, "beta", width, MDS_INIT_ZERO,
                                     MDS_SHARD_ROWS, 0);
    return id;
}

static struct norm_ids add_head_norm(struct registrar *reg, const char *layer,
                                     const char *name, int64_t heads)
{
    const struct mds_model_config *m = &reg->g->cfg;
    int tp = mds_groups_size(reg->g->groups, MDS_AXIS_TENSOR);
    char full[48];

    if (!m->qk_layernorm)
        return (struct norm_ids){.gamma = -1, .beta = -1, .sum_at = -1};
    snprintf(full, sizeof full, "%s.attention.%s", layer, name);
    if (m->qk_norm_across_heads)
        return add_norm_across(reg, full, heads * m->head_dim);
    return mds_gpt_add_norm(reg, full, m->head_dim, tp > 1 ? MDS_AXIS_TENSOR : 0);
}

void mds_gpt_add_head_norms(struct registrar *reg, const char *layer,
                            struct attention_ids *id)
{
    id->q_norm = add_head_norm(reg, layer, "q_norm", reg->g->cfg.heads);
    id->k_norm = add_head_norm(reg, layer, "k_norm", reg->g->cfg.kv_heads);
}

/* ---- the queries or the keys of some rows ---- */

struct heads {
    const struct norm_ids *norm;
    int64_t n, width;      /* norms of a row; columns of all of them */
    int64_t column, row;   /* where these begin in a row of q, k, v, and its width */
    int64_t stats, before; /* where they begin in the saved tensors */
    void *x;               /* [rows, width] before the norm */
    float *mean, *rstd;    /* [rows, n] */
};

/* Statistics and input of the rows: where they are saved, or scratch memory. */
static enum mds_rc place_normed_rows(const struct context *c,
                                     const struct head_norm_rows *r, int64_t all,
                                     struct heads *h)
{
    int64_t first = h->stats + r->at * h->n;

    if (r->before) {
        h->x = mds_par_at(&c->par, r->before, h->before + r->at * h->width);
        h->mean = r->stats + first;
        h->rstd = r->stats + all + first;
        return MDS_OK;
    }
    MDS_TRY(mds_gpt_scratch(c, r->n * h->width, &h->x));
    MDS_TRY(mds_par_alloc_f32(&c->par, MDS_MEM_WORK, r->n * h->n, &h->mean));
    return mds_par_alloc_f32(&c->par, MDS_MEM_WORK, r->n * h->n, &h->rstd);
}

/* h[0] = the queries and h[1] = the keys of some rows. */
static enum mds_rc split_heads(const struct context *c, const struct attention_ids *id,
                               const struct head_norm_rows *r, struct heads h[2])
{
    const struct mds_model_config *m = &c->g->cfg;
    int64_t A = mds_gpt_heads(c, m->heads), G = mds_gpt_heads(c, m->kv_heads);
    int64_t R = mds_par_rows(&c->par), D = m->head_dim, row = id->qkv.out;
    int across = m->qk_norm_across_heads;

    h[0] = (struct heads){
        .norm = &id->q_norm, .n = across ? 1 : A, .width = A * D, .row = row};
    h[1] = (struct heads){.norm = &id->k_norm,
                          .n = across ? 1 : G,
                          .width = G * D,
                          .column = A * D,
                          .row = row,
                          .stats = R * h[0].n,
                          .before = R * h[0].width};
    for (int i = 0; i < 2; i++)
        MDS_TRY(place_normed_rows(c, r, R * (h[0].n + h[1].n), &h[i]));
    return MDS_OK;
}

/* Copy heads between rows of q, k, v and a packed tensor [rows, width]. */
static enum mds_rc copy_head_rows(const struct context *c, const struct heads *h,
                                  int64_t n, void *rows, void *heads, int out)
{
    void *at = mds_par_at(&c->par, rows, h->column);

    return out ? mds_par_copy_rows(&c->par, n, h->width, at, h->row, heads, h->width)
               : mds_par_copy_rows(&c->par, n, h->width, heads, h->width, at, h->row);
}

/* ---- sums over tensor ranks ---- */

static int ranks_of_row(const struct context *c)
{
    return c->g->cfg.qk_norm_across_heads
               ? mds_groups_size(c->g->groups, MDS_AXIS_TENSOR)
               : 1;
}

/* The last step of a norm of n rows, or all of it.  sums [2, n x each]: of queries and
 * of keys. */
static struct mdsk_norm_part last_part(const struct context *c, const struct heads *h,
                                       int64_t numbers, const float *sums)
{
    if (!sums)
        return (struct mdsk_norm_part){.step = MDSK_NORM_WHOLE};
    return (struct mdsk_norm_part){.step = MDSK_NORM_REST,
                                   .W = h->width * ranks_of_row(c),
                                   .totals = sums + (h->column ? numbers : 0)};
}

/* sums [2,n] = of a step of queries and keys, over ranks; totals: of the step before,
 * or NULL. */
static enum mds_rc sum_step(const struct context *c, const struct heads h[2], int64_t n,
                            enum mdsk_norm_step step, const float *totals, float *sums)
{
    for (int i = 0; i < 2; i++) {
        const struct mdsk_norm_part part = {.step = step,
                                            .W = h[i].width * ranks_of_row(c),
                                            .totals = totals ? totals + i * n : NULL,
                                            .sums = sums + i * n};

        MDS_TRY(mds_gpt_norm_part_fwd(c, h[i].norm, n, h[i].x, NULL, h[i].mean,
                                      h[i].rstd, &part));
    }
    return mds_par_sum(&c->par, MDS_AXIS_TENSOR, sums, 2 * n);
}

/* *sums = those that the norms' last step reads; NULL if this rank has whole rows. */
static enum mds_rc sum_rows(const struct context *c, const struct heads h[2], int64_t n,
                            float **sums)
{
    float *mean = NULL;

    *sums = NULL;
    if (ranks_of_row(c) == 1)
        return MDS_OK;
    MDS_TRY(mds_par_alloc_f32(&c->par, MDS_MEM_WORK, 2 * n, sums));
    if (c->g->cfg.norm == MDS_NORM_LAYERNORM) {
        MDS_TRY(mds_par_alloc_f32(&c->par, MDS_MEM_WORK, 2 * n, &mean));
        MDS_TRY(sum_step(c, h, n, MDSK_NORM_SUMS, NULL, mean));
    }
    return sum_step(c, h, n, MDSK_NORM_SQUARES, mean, *sums);
}

/* The same for backward, [2, n x 2]; dy: gradients of queries and keys. */
static enum mds_rc sum_rows_bwd(const struct context *c, const struct heads h[2],
                                int64_t n, void *const dy[2], float **sums)
{
    *sums = NULL;
    if (ranks_of_row(c) == 1)
        return MDS_OK;
    MDS_TRY(mds_par_alloc_f32(&c->par, MDS_MEM_WORK, 4 * n, sums));
    for (int i = 0; i < 2; i++) {
        const struct mdsk_norm_part part = {.step = MDSK_NORM_SUMS,
                                            .W = h[i].width * ranks_of_row(c),
                                            .sums = *sums + 2 * i * n};

        MDS_TRY(mds_gpt_norm_part_bwd(c, h[i].norm, n, h[i].x, h[i].mean, h[i].rstd,
                                      dy[i], NULL, &part));
    }
    return mds_par_sum(&c->par, MDS_AXIS_TENSOR, *sums, 4 * n);
}

/* ---- forward ---- */

static enum mds_rc norm_head_rows(const struct context *c, const struct heads *h,
                                  int64_t n, const float *sums, void *rows)
{
    const struct mdsk_norm_part part = last_part(c, h, n, sums);
    struct mds_arena_mark mark = mds_arena_mark(c->par.arena);
    void *y = NULL;

    MDS_TRY(mds_gpt_scratch(c, n * h->width, &y));
    MDS_TRY(
        mds_gpt_norm_part_fwd(c, h->norm, n * h->n, h->x, y, h->mean, h->rstd, &part));
    MDS_TRY(copy_head_rows(c, h, n, rows, y, 0));
    mds_arena_release(c->par.arena, mark);
    return MDS_OK;
}

enum mds_rc mds_gpt_head_norms_fwd(const struct context *c,
                                   const struct attention_ids *id,
                                   const struct head_norm_rows *r, void *qkv)
{
    struct mds_arena_mark mark = mds_arena_mark(c->par.arena);
    struct heads h[2];
    float *sums;

    MDS_TRY(split_heads(c, id, r, h));
    for (int i = 0; i < 2; i++)
        MDS_TRY(copy_head_rows(c, &h[i], r->n, qkv, h[i].x, 1));
    MDS_TRY(sum_rows(c, h, r->n, &sums));
    for (int i = 0; i < 2; i++)
        MDS_TRY(norm_head_rows(c, &h[i], r->n, sums, qkv));
    mds_arena_release(c->par.arena, mark);
    return MDS_OK;
}

/* ---- backward ---- */

static enum mds_rc norm_head_rows_bwd(const struct context *c, const struct heads *h,
                                      int64_t n, const float *sums, const void *dy,
                                      void *rows)
{
    const struct mdsk_norm_part part = last_part(c, h, 2 * n, sums);
    struct mds_arena_mark mark = mds_arena_mark(c->par.arena);
    void *dx = NULL;

    MDS_TRY(mds_gpt_scratch(c, n * h->width, &dx));
    MDS_TRY(mds_gpt_norm_part_bwd(c, h->norm, n * h->n, h->x, h->mean, h->rstd, dy, dx,
                                  &part));
    MDS_TRY(copy_head_rows(c, h, n, rows, dx, 0));
    mds_arena_release(c->par.arena, mark);
    return MDS_OK;
}

enum mds_rc mds_gpt_head_norms_bwd(const struct context *c,
                                   const struct attention_ids *id,
                                   const struct head_norm_rows *r, void *dqkv)
{
    struct mds_arena_mark mark = mds_arena_mark(c->par.arena);
    struct heads h[2];
    void *dy[2] = {NULL, NULL};
    float *sums;

    MDS_TRY(split_heads(c, id, r, h));
    for (int i = 0; i < 2; i++) {
        MDS_TRY(mds_gpt_scratch(c, r->n * h[i].width, &dy[i]));
        MDS_TRY(copy_head_rows(c, &h[i], r->n, dqkv, dy[i], 1));
    }
    MDS_TRY(sum_rows_bwd(c, h, r->n, dy, &sums));
    for (int i = 0; i < 2; i++)
        MDS_TRY(norm_head_rows_bwd(c, &h[i], r->n, sums, dy[i], dqkv));
    mds_arena_release(c->par.arena, mark);
    return MDS_OK;
}
