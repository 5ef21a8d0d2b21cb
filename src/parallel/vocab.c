/* SPDX-License-Identifier: BSD-3-Clause */
#include "parallel/vocab.h"
#include "base/minmax.h"
#include "parallel/tensor_parallel.h"
#include "tensor/op.h"

/* ---- embedding ---- */

/* What one call of the kernel covers: consecutive tokens, with or without positions. */
struct token_span {
    struct mds_token_run run;
    int64_t row; /* of its first token here */
    int with_position;
};

/* Split each run of tokens into up to three spans: before, within and after the tokens
 * whose position embedding this tensor rank adds.  With sequence parallelism each rank
 * adds those of its own rows, otherwise rank 0 adds all.  The results are then summed
 * over ranks. */
static int split_at_positions(const struct mds_par *p, struct token_span *out)
{
    int tp = mds_groups_rank(p->groups, MDS_AXIS_TENSOR), n = 0;
    int64_t row = 0;
    int64_t from = p->sequence_parallel ? tp * p->slice.n : 0;
    int64_t to = p->sequence_parallel ? from + p->slice.n : tp == 0 ? p->tokens.n : 0;

    for (int i = 0; i < p->tokens.runs; i++) {
        int64_t end = row + p->tokens.run[i].n, token = p->tokens.run[i].first;

        while (row < end) {
            int in = row >= from && row < to;
            int64_t stop = in ? to : row < from ? from : end;

            if (stop > end)
                stop = end;
            out[n++] = (struct token_span){{token, stop - row}, row * p->B, in};
            token += stop - row;
            row = stop;
        }
    }
    return n;
}

enum mds_rc mds_embedding_fwd(const struct mds_par *p, const struct mds_embedding *e,
                              const int32_t *token, void *y)
{
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    struct mds_tp_handle out;
    struct token_span span[6];
    int n = split_at_positions(p, span);

    MDS_TRY(mds_tp_reduce_open(p, y, e->H, &out));
    for (int i = 0; i < n; i++) {
        int has = span[i].with_position && e->position;
        struct mdsk_embedding_fwd a = {
            .B = p->B,
            .S = span[i].run.n,
            .H = e->H,
            .first_word = e->first_word,
            .words = e->words,
            .first_token = has ? span[i].run.first - e->first_position : 0,
            .dtype = p->dtype,
            .token = token + span[i].row,
            .start = has ? mds_par_position_start(p, span[i].run.first) : NULL,
            .word = e->word,
            .position = has ? e->position : NULL,
            .y = mds_par_at(p, out.rows, span[i].row * e->H)};

        MDS_TRY(mds_op_embedding_fwd(p->dev, &a));
    }
    MDS_TRY(mds_tp_reduce(p, &out));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

/* Every tensor rank has all of dy, so replicated position embeddings get the same
 * gradient everywhere.  If they are sharded, a rank only handles its own tokens. */
enum mds_rc mds_embedding_bwd(const struct mds_par *p, const struct mds_embedding *e,
                              const int32_t *token, const void *dy)
{
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    struct mds_tp_handle in;
    struct token_span span[6];
    int n = split_at_positions(p, span);

    MDS_TRY(mds_tp_gather(p, dy, e->H, &in));
    for (int i = 0; i < n; i++) {
        int has = e->dposition && (span[i].with_position || !e->sliced);
        struct mdsk_embedding_bwd a = {
            .B = p->B,
            .S = span[i].run.n,
            .H = e->H,
            .first_word = e->first_word,
            .words = e->words,
            .first_token = has ? span[i].run.first - e->first_position : 0,
            .dtype = p->dtype,
            .token = token + span[i].row,
            .start = has ? mds_par_position_start(p, span[i].run.first) : NULL,
            .dy = mds_par_at(p, in.rows, span[i].row * e->H),
            .dword = e->dword,
            .dposition = has ? e->dposition : NULL};

        MDS_TRY(mds_op_embedding_bwd(p->dev, &a));
    }
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

/* ---- head and loss ---- */

/* Working memory of the loss: a tile of logits, and per row of it the statistics of
 * each rank's words. */
struct tile {
    int64_t rows;
    void *logits;
    float *own; /* [3, rows]: max, sum, target logit of this rank's words */
    float *all; /* [tp, 3, rows] */
    float *lse; /* [rows] */
};

static enum mds_rc alloc_tile(const struct mds_par *p, const struct mds_head *h,
                              struct tile *t)
{
    int parts = mds_groups_size(p->groups, MDS_AXIS_TENSOR);

    t->rows = h->tile;
    if (t->rows <= 0 || t->rows > mds_par_rows(p))
        t->rows = mds_par_rows(p);
    MDS_TRY(mds_par_alloc(p, MDS_MEM_WORK, t->rows * h->words, &t->logits));
    MDS_TRY(mds_par_alloc_f32(p, MDS_MEM_WORK, 3 * t->rows, &t->own));
    t->all = t->own;
    if (parts > 1)
        MDS_TRY(mds_par_alloc_f32(p, MDS_MEM_WORK, 3 * t->rows * parts, &t->all));
    return mds_par_alloc_f32(p, MDS_MEM_WORK, t->rows, &t->lse);
}

/* Words of this rank that are not padding. */
static int64_t valid_words(const struct mds_head *h)
{
    int64_t valid = h->vocab - h->first_word;

    if (valid < 0)
        return 0;
    return mds_min(valid, h->words);
}

static enum mds_rc tile_logits(const struct mds_par *p, const struct mds_head *h,
                               const struct tile *t, int64_t n, const void *x)
{
    struct mdsk_linear_fwd a = {.R = n,
                                .in = h->H,
                                .out = h->words,
                                .dtype = p->dtype,
                                .x = x,
                                .w = h->weight,
                                .y = t->logits};

    return mds_op_linear_fwd(p->dev, &a);
}

/* A rank that has all words turns logits into their gradients in one kernel. */
static int fuses_loss_gradient(const struct mds_par *p, const struct mds_head *h)
{
    return h->dweight && mds_groups_size(p->groups, MDS_AXIS_TENSOR) == 1;
}

static enum mds_rc tile_loss(const struct mds_par *p, const struct mds_head *h,
                             const struct tile *t, int64_t n,
                             const struct mds_targets *y)
{
    struct mdsk_xent_stats s = {.R = n,
                                .words = h->words,
                                .valid = valid_words(h),
                                .ld = h->words,
                                .first_word = h->first_word,
                                .dtype = p->dtype,
                                .gradient = fuses_loss_gradient(p, h),
                                .scale = h->grad_scale,
                                .z = h->z_loss,
                                .kinds = y->kinds,
                                .logits = t->logits,
                                .target = y->id,
                                .max = t->own,
                                .sum = t->own + t->rows,
                                .target_logit = t->own + 2 * t->rows};
    struct mdsk_xent_loss x = {.R = n,
                               .parts = mds_groups_size(p->groups, MDS_AXIS_TENSOR),
                               .part_stride = 3 * t->rows,
                               .target = y->id,
                               .max = t->all,
                               .sum = t->all + t->rows,
                               .target_logit = t->all + 2 * t->rows,
                               .lse = t->lse,
                               .loss_sum = y->sum,
                               .count = y->count,
                               .kinds = y->kinds,
                               .loss = y->loss};

    MDS_TRY(mds_op_xent_stats(p->dev, &s));
    if (t->all != t->own)
        MDS_TRY(mds_comm_all_gather(mds_group(p->groups, MDS_AXIS_TENSOR), t->own,
                                    t->all, 3 * t->rows * (int64_t)sizeof *t->own));
    return mds_op_xent_loss(p->dev, &x);
}

/* Replace logits by their gradients, and compute dx. */
static enum mds_rc tile_bwd_input(const struct mds_par *p, const struct mds_head *h,
                                  const struct tile *t, int64_t n,
                                  const struct mds_targets *y, void *dx)
{
    struct mdsk_xent_bwd b = {.R = n,
                              .words = h->words,
                              .valid = valid_words(h),
                              .ld = h->words,
                              .first_word = h->first_word,
                              .dtype = p->dtype,
                              .logits = t->logits,
                              .target = y->id,
                              .lse = t->lse,
                              .scale = h->grad_scale,
                              .z = h->z_loss,
                              .kinds = y->kinds};
    struct mdsk_linear_bwd_input i = {.R = n,
                                      .in = h->H,
                                      .out = h->words,
                                      .dtype = p->dtype,
                                      .dy = t->logits,
                                      .w = h->weight,
                                      .dx = dx};

    if (!fuses_loss_gradient(p, h))
        MDS_TRY(mds_op_xent_bwd(p->dev, &b));
    return mds_op_linear_bwd_input(p->dev, &i);
}

static enum mds_rc tile_bwd_weight(const struct mds_par *p, const struct mds_head *h,
                                   const struct tile *t, int64_t n, const void *x)
{
    struct mdsk_linear_bwd_weight w = {.R = n,
                                       .in = h->H,
                                       .out = h->words,
                                       .dtype = p->dtype,
                                       .write = h->uninit,
                                       .x = x,
                                       .dy = t->logits,
                                       .dw = h->dweight};

    return mds_op_linear_bwd_weight(p->dev, &w);
}

/* Those of the rows from `at` on. */
static struct mds_targets targets_from(const struct mds_par *p,
                                       const struct mds_head *h,
                                       const struct mds_targets *all, int64_t at)
{
    struct mds_targets y = *all;

    y.id += at;
    if (y.loss)
        y.loss += at;
    if (y.kinds.of)
        y.kinds.of += at;
    if (y.logits)
        y.logits = mds_par_at(p, y.logits, at * h->words);
    return y;
}

/* Each tile starts to reduce its dx before it computes its weight gradient, so that the
 * two overlap. */
static enum mds_rc loss_tiles(const struct mds_par *p, struct mds_head *h,
                              struct mds_tp_handle *x,
                              const struct mds_targets *targets,
                              struct mds_tp_handle *dx)
{
    int64_t rows = mds_par_rows(p);
    struct tile t = {0};

    MDS_TRY(alloc_tile(p, h, &t));
    for (int64_t at = 0; at < rows; at += t.rows) {
        int64_t n = mds_min(rows - at, t.rows);
        const void *xt = mds_par_at(p, x->rows, at * h->H);
        struct mds_targets y = targets_from(p, h, targets, at);

        MDS_TRY(mds_tp_gather_wait(p, x, at + n));
        MDS_TRY(tile_logits(p, h, &t, n, xt));
        if (y.logits)
            mds_dev_copy(p->dev, y.logits, t.logits,
                         n * h->words * (int64_t)mdsk_dtype_size(p->dtype));
        MDS_TRY(tile_loss(p, h, &t, n, &y));
        if (!h->dweight)
            continue;
        MDS_TRY(tile_bwd_input(p, h, &t, n, &y, mds_par_at(p, dx->rows, at * h->H)));
        MDS_TRY(mds_tp_reduce_start(p, dx, at + n));
        MDS_TRY(tile_bwd_weight(p, h, &t, n, xt));
        h->uninit = 0;
    }
    return MDS_OK;
}

enum mds_rc mds_head_loss(const struct mds_par *p, struct mds_head *h, const void *x,
                          const struct mds_targets *targets, void *dx)
{
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    struct mds_tp_handle in, out = {0};

    MDS_TRY(mds_tp_gather_start(p, x, h->H, &in));
    if (h->dweight)
        MDS_TRY(mds_tp_reduce_open(p, dx, h->H, &out));
    MDS_TRY(loss_tiles(p, h, &in, targets, &out));
    if (h->dweight)
        MDS_TRY(mds_tp_reduce_wait(&out));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}
