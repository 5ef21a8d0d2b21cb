/* SPDX-License-Identifier: BSD-3-Clause */
/* Norms of queries and keys, head by head, before they rotate (--qk-layernorm): Henry
 * et al. 2020, arXiv:2010.04245; Dehghani et al. 2023, arXiv:2302.05442. */
#include "model/modules.h"

#include <stdio.h>

static struct norm_ids add_head_norm(struct registrar *reg, const char *layer,
                                     const char *name)
{
    const struct mds_gpt *g = reg->g;
    int tp = mds_groups_size(g->groups, MDS_AXIS_TENSOR);
    char full[48];

    if (!g->cfg.qk_layernorm)
        return (struct norm_ids){.gamma = -1, .beta = -1, .sum_at = -1};
    snprintf(full, sizeof full, "%s.attention.%s", layer, name);
    return mds_gpt_add_norm(reg, full, g->cfg.head_dim, tp > 1 ? MDS_AXIS_TENSOR : 0);
}

void mds_gpt_add_head_norms(struct registrar *reg, const char *layer,
                            struct attention_ids *id)
{
    id->q_norm = add_head_norm(reg, layer, "q_norm");
    id->k_norm = add_head_norm(reg, layer, "k_norm");
}

/* ---- the queries or the keys of some rows ---- */

struct heads {
    const struct norm_ids *norm;
    int64_t n, column, row; /* heads of a row, where they begin in it, its width */
    int64_t before;         /* heads before these in the saved tensors */
    void *x;                /* [rows, n, D] before the norm */
    float *mean, *rstd;     /* [rows, n] */
};

/* Statistics and input of the rows: where they are saved, or scratch memory. */
static enum mds_rc place_normed_rows(const struct context *c,
                                     const struct head_norm_rows *r, int64_t all,
                                     struct heads *h)
{
    int64_t D = c->g->cfg.head_dim, n = r->n * h->n, first = h->before + r->at * h->n;

    if (r->before) {
        h->x = mds_par_at(&c->par, r->before, first * D);
        h->mean = r->stats + first;
        h->rstd = r->stats + all + first;
        return MDS_OK;
    }
    MDS_TRY(mds_gpt_scratch(c, n * D, &h->x));
    MDS_TRY(mds_par_alloc_f32(&c->par, MDS_MEM_WORK, n, &h->mean));
    return mds_par_alloc_f32(&c->par, MDS_MEM_WORK, n, &h->rstd);
}

/* h[0] = the queries and h[1] = the keys of some rows. */
static enum mds_rc split_heads(const struct context *c, const struct attention_ids *id,
                               const struct head_norm_rows *r, struct heads h[2])
{
    const struct mds_model_config *m = &c->g->cfg;
    int64_t A = mds_gpt_heads(c, m->heads), G = mds_gpt_heads(c, m->kv_heads);
    int64_t R = mds_par_rows(&c->par), row = id->qkv.out;

    h[0] = (struct heads){.norm = &id->q_norm, .n = A, .row = row};
    h[1] = (struct heads){.norm = &id->k_norm,
                          .n = G,
                          .column = A * m->head_dim,
                          .row = row,
                          .before = R * A};
    for (int i = 0; i < 2; i++)
        MDS_TRY(place_normed_rows(c, r, R * (A + G), &h[i]));
    return MDS_OK;
}

/* Copy heads between rows of q, k, v and a packed tensor [rows, n, D]. */
static enum mds_rc copy_head_rows(const struct context *c, const struct heads *h,
                                  int64_t n, void *rows, void *heads, int out)
{
    int64_t width = h->n * c->g->cfg.head_dim;
    void *at = mds_par_at(&c->par, rows, h->column);

    return out ? mds_par_copy_rows(&c->par, n, width, at, h->row, heads, width)
               : mds_par_copy_rows(&c->par, n, width, heads, width, at, h->row);
}

/* ---- forward ---- */

static enum mds_rc norm_head_rows(const struct context *c, const struct heads *h,
                                  int64_t n, void *rows)
{
    struct mds_arena_mark mark = mds_arena_mark(c->par.arena);
    void *y = NULL;

    MDS_TRY(mds_gpt_scratch(c, n * h->n * c->g->cfg.head_dim, &y));
    MDS_TRY(copy_head_rows(c, h, n, rows, h->x, 1));
    MDS_TRY(mds_gpt_norm_fwd(c, h->norm, n * h->n, h->x, NULL, NULL, y, h->mean,
                             h->rstd, NULL));
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

    MDS_TRY(split_heads(c, id, r, h));
    for (int i = 0; i < 2; i++)
        MDS_TRY(norm_head_rows(c, &h[i], r->n, qkv));
    mds_arena_release(c->par.arena, mark);
    return MDS_OK;
}

/* ---- backward ---- */

static enum mds_rc norm_head_rows_bwd(const struct context *c, const struct heads *h,
                                      int64_t n, void *rows)
{
    struct mds_arena_mark mark = mds_arena_mark(c->par.arena);
    int64_t elements = n * h->n * c->g->cfg.head_dim;
    void *dy = NULL, *dx = NULL;

    MDS_TRY(mds_gpt_scratch(c, elements, &dy));
    MDS_TRY(mds_gpt_scratch(c, elements, &dx));
    MDS_TRY(copy_head_rows(c, h, n, rows, dy, 1));
    MDS_TRY(
        mds_gpt_norm_bwd(c, h->norm, n * h->n, h->x, h->mean, h->rstd, dy, NULL, dx));
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

    MDS_TRY(split_heads(c, id, r, h));
    for (int i = 0; i < 2; i++)
        MDS_TRY(norm_head_rows_bwd(c, &h[i], r->n, dqkv));
    mds_arena_release(c->par.arena, mark);
    return MDS_OK;
}
