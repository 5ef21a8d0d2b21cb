/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations of linear layers, whose operands may have all rows while the step
 * works on a tile. */
#include "model/lists.h"

#include "base/minmax.h"

static const struct linear_ids *linear_of(const struct block_pass *b, int layer)
{
    switch (layer) {
    case LAYER_QKV:
        return &b->id->attention.qkv;
    case LAYER_OUT:
        return &b->id->attention.out;
    case LAYER_UP:
        return &b->id->mlp.up;
    default:
        return &b->id->mlp.down;
    }
}

static int is_codes(const struct mds_block_call *call, mds_tid t)
{
    return call->list->tensor[t].elem == MDS_ELEM_BYTE;
}

/* ---- rows of a tile ----
 *
 * With sequence parallelism the rows of a tile are in several places of a tensor that
 * has all rows, one per tensor rank: in spans. */

static int is_in_spans(const struct mds_block_call *call, mds_tid t)
{
    return call->step->loop && t >= 0 && !call->list->tensor[t].of_tile &&
           call->list->tensor[t].rows != MDS_ROWS_SLICE && !is_codes(call, t);
}

int mds_gpt_next_span(const struct block_pass *b, const struct mds_block_call *call,
                      mds_tid x, mds_tid y, int64_t at, struct span *s)
{
    int64_t left = mds_par_rows(&b->c->par) - at;

    if (is_in_spans(call, x) || is_in_spans(call, y))
        return mds_gpt_span(b->c, at, left, s);
    *s = (struct span){.at = at, .n = left};
    return left > 0;
}

void *mds_gpt_span_at(const struct block_pass *b, const struct mds_block_call *call,
                      mds_tid t, void *base, const struct span *s)
{
    int64_t row = is_in_spans(call, t) ? s->whole : s->at;

    return mds_par_at(&b->c->par, base, row * call->list->tensor[t].cols);
}

/* *rows = those of operand t in one piece: where they are, or in scratch memory, filled
 * if `copy`. */
static enum mds_rc in_one_piece(const struct block_pass *b,
                                const struct mds_block_call *call, mds_tid t,
                                void *base, int copy, void **rows)
{
    int64_t cols = call->list->tensor[t].cols;
    struct span s;

    mds_gpt_next_span(b, call, t, -1, 0, &s);
    *rows = mds_gpt_span_at(b, call, t, base, &s);
    if (s.n == mds_par_rows(&b->c->par))
        return MDS_OK;
    *rows = NULL;
    MDS_TRY(mds_gpt_scratch(b->c, mds_par_rows(&b->c->par) * cols, rows));
    for (int64_t at = 0; copy && mds_gpt_next_span(b, call, t, -1, at, &s); at += s.n)
        MDS_TRY(mds_par_copy_rows(
            &b->c->par, 1, s.n * cols, mds_gpt_span_at(b, call, t, base, &s),
            s.n * cols, mds_par_at(&b->c->par, *rows, at * cols), s.n * cols));
    return MDS_OK;
}

/* Operand t = rows, if they are in scratch memory. */
static enum mds_rc to_their_places(const struct block_pass *b,
                                   const struct mds_block_call *call, mds_tid t,
                                   void *base, const void *rows)
{
    int64_t cols = call->list->tensor[t].cols;
    struct span s;

    for (int64_t at = 0;
         mds_gpt_next_span(b, call, t, -1, at, &s) && s.n < mds_par_rows(&b->c->par);
         at += s.n)
        MDS_TRY(mds_par_copy_rows(&b->c->par, 1, s.n * cols,
                                  mds_par_at(&b->c->par, rows, at * cols), s.n * cols,
                                  mds_gpt_span_at(b, call, t, base, &s), s.n * cols));
    return MDS_OK;
}

/* ---- chunks ---- */

/* The next rows, from row `at` of the tile on, that are contiguous, and arrive or leave
 * together; waits for them. */
static enum mds_rc next_rows(struct block_pass *b, const struct mds_block_call *call,
                             mds_tid x, mds_tid y, int64_t at, struct span *s)
{
    mds_gpt_next_span(b, call, x, y, at, s);
    s->n = mds_min(s->n, mds_gpt_chunk_left(b, call->step, at));
    return mds_gpt_wait_rows(b, call->step, at + s->n);
}

/* The first `rows` rows of the result, in `partial`, are there: send them, if the step
 * does. */
static enum mds_rc send_rows(struct block_pass *b, const struct mds_block_call *call,
                             void *partial, int64_t rows)
{
    const struct partial_sums s = {partial, call->out[MDS_OUT_SUM],
                                   call->out[MDS_OUT_SUM + 1]};

    return s.sum ? mds_gpt_sum_rows(b, call->step, &s, rows) : MDS_OK;
}

/* Codes by rows of C elements, from row `at` on. */
static struct mdsk_fp8_operand codes_from(struct mdsk_fp8_operand codes, int64_t at,
                                          int64_t C)
{
    codes.code = (const char *)codes.code + at * mdsk_fp8_ld(C);
    return codes;
}

/* ---- operations ---- */

/* The input of all rows; in FP8 cast here where the result leaves in chunks, so that
 * all have one scale. */
static enum mds_rc input_of(const struct block_pass *b,
                            const struct mds_block_call *call,
                            const struct linear_ids *l, struct linear_input *x)
{
    *x = (struct linear_input){
        .x = call->in[0],
        .codes = call->out[2],
        .amax = call->step->amax ? mds_gpt_fp8_input_amax(b->c, l) : NULL,
        .activated = call->step->activated};
    return l->fp8 && call->out[MDS_OUT_SUM]
               ? mds_gpt_fp8_cast_input(b->c, l, mds_par_rows(&b->c->par), x)
               : MDS_OK;
}

static struct linear_input input_rows(const struct block_pass *b,
                                      const struct mds_block_call *call,
                                      const struct linear_ids *l,
                                      const struct linear_input *all,
                                      const struct span *s)
{
    struct linear_input x = *all;

    x.x = mds_gpt_span_at(b, call, call->step->in[0], call->in[0], s);
    if (s->n < mds_par_rows(&b->c->par))
        x.amax = NULL;
    if (x.cast.code)
        x.cast = codes_from(x.cast, s->at, l->in);
    return x;
}

enum mds_rc mds_gpt_list_linear(void *ctx, const struct mds_block_call *call)
{
    struct block_pass *b = ctx;
    const struct mds_step *step = call->step;
    const struct linear_ids *l = linear_of(b, step->layer);
    struct linear_input all;
    struct span s;

    MDS_TRY(input_of(b, call, l, &all));
    for (int64_t at = 0; at < mds_par_rows(&b->c->par); at += s.n) {
        struct linear_input x;
        void *y;

        MDS_TRY(next_rows(b, call, step->in[0], step->out[0], at, &s));
        x = input_rows(b, call, l, &all, &s);
        y = mds_gpt_span_at(b, call, step->out[0], call->out[0], &s);
        if (call->out[1])
            MDS_TRY(mds_gpt_linear_gelu_fwd(
                b->c, l, s.n, x, y,
                mds_gpt_span_at(b, call, step->out[1], call->out[1], &s)));
        else
            MDS_TRY(mds_gpt_linear_fwd(b->c, l, s.n, step->cut == MDS_CUT_ROWS, x, y));
        MDS_TRY(send_rows(b, call, call->out[0], at + s.n));
    }
    return MDS_OK;
}

/* The gradient of a layer's result, operand k, as codes. */
static struct linear_grad codes_of(const struct block_pass *b,
                                   const struct mds_block_call *call, int k)
{
    const struct linear_ids *l = linear_of(b, call->step->layer);
    struct linear_grad dy = {.dy = call->in[k]};

    mds_gpt_fp8_gradient_at(b->c, mds_par_rows(&b->c->par), l->out, l->fp8_wgrad,
                            call->in[k], &dy);
    return dy;
}

static float *bias_gradient(const struct block_pass *b, const struct linear_ids *l)
{
    return l->part ? l->part->db : mds_gpt_grad(b->c, l->bias);
}

enum mds_rc mds_gpt_list_cast(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    const struct linear_ids *l = linear_of(b, call->step->layer);
    struct linear_grad dy = {0};
    void *rows;

    MDS_TRY(in_one_piece(b, call, call->step->in[0], call->in[0], 1, &rows));
    dy.dy = rows;
    mds_gpt_fp8_gradient_at(b->c, mds_par_rows(&b->c->par), l->out, l->fp8_wgrad,
                            call->out[0], &dy);
    return mds_gpt_fp8_cast_grad(b->c, mds_par_rows(&b->c->par), l->out,
                                 call->step->amax ? mds_gpt_fp8_grad_amax(b->c, l)
                                                  : NULL,
                                 bias_gradient(b, l), &dy);
}

static enum mds_rc fp8_linear_bwd_x(struct block_pass *b,
                                    const struct mds_block_call *call)
{
    const struct linear_ids *l = linear_of(b, call->step->layer);
    const struct linear_grad all = codes_of(b, call, 0);
    mds_tid to = call->step->out[0];
    struct span s;
    void *dx;

    MDS_TRY(in_one_piece(b, call, to, call->out[0], 0, &dx));
    for (int64_t at = 0; at < mds_par_rows(&b->c->par); at += s.n) {
        struct linear_grad dy = all;

        MDS_TRY(next_rows(b, call, -1, -1, at, &s));
        dy.rows = codes_from(all.rows, at, l->out);
        MDS_TRY(mds_gpt_linear_bwd_input(b->c, l, s.n, &dy,
                                         mds_par_at(&b->c->par, dx, at * l->in)));
        MDS_TRY(send_rows(b, call, dx, at + s.n));
    }
    return to_their_places(b, call, to, call->out[0], dx);
}

enum mds_rc mds_gpt_list_linear_bwd_x(void *ctx, const struct mds_block_call *call)
{
    struct block_pass *b = ctx;
    const struct mds_step *step = call->step;
    const struct linear_ids *l = linear_of(b, step->layer);
    struct span s;

    if (is_codes(call, step->in[0]))
        return fp8_linear_bwd_x(b, call);
    for (int64_t at = 0; at < mds_par_rows(&b->c->par); at += s.n) {
        struct linear_grad dy = {0};

        MDS_TRY(next_rows(b, call, step->in[0], step->out[0], at, &s));
        dy.dy = mds_gpt_span_at(b, call, step->in[0], call->in[0], &s);
        MDS_TRY(mds_gpt_linear_gelu_bwd_input(
            b->c, l, s.n, &dy,
            call->in[1] ? mds_gpt_span_at(b, call, step->in[1], call->in[1], &s) : NULL,
            mds_gpt_span_at(b, call, step->out[0], call->out[0], &s)));
        MDS_TRY(send_rows(b, call, call->out[0], at + s.n));
    }
    return MDS_OK;
}

/* dW of a layer whose gradient is in codes; x may be, too. */
static enum mds_rc fp8_linear_bwd_w(const struct block_pass *b,
                                    const struct mds_block_call *call)
{
    const struct linear_grad dy = codes_of(b, call, 1);
    struct linear_input x = {.activated = call->step->activated};
    void *rows;

    if (is_codes(call, call->step->in[0])) {
        x.codes = call->in[0];
    } else {
        MDS_TRY(in_one_piece(b, call, call->step->in[0], call->in[0], 1, &rows));
        x.x = rows;
    }
    return mds_gpt_linear_bwd_weight(b->c, linear_of(b, call->step->layer),
                                     mds_par_rows(&b->c->par), x, &dy);
}

enum mds_rc mds_gpt_list_linear_bwd_w(void *ctx, const struct mds_block_call *call)
{
    struct block_pass *b = ctx;
    const struct linear_ids *l = linear_of(b, call->step->layer);
    mds_tid x = call->step->in[0], dy = call->step->in[1];
    struct span s;

    if (is_codes(call, dy))
        return fp8_linear_bwd_w(b, call);
    for (int64_t at = 0; at < mds_par_rows(&b->c->par); at += s.n) {
        struct linear_input in = {0};
        struct linear_grad g = {0};

        MDS_TRY(next_rows(b, call, x, dy, at, &s));
        in.x = mds_gpt_span_at(b, call, x, call->in[0], &s);
        g.dy = mds_gpt_span_at(b, call, dy, call->in[1], &s);
        MDS_TRY(mds_gpt_linear_bwd_weight(b->c, l, s.n, in, &g));
    }
    return MDS_OK;
}
