/* SPDX-License-Identifier: BSD-3-Clause */
/* What ranks exchange in a block's forward: Megatron's f and g around tensor-parallel
 * linear layers, their sequence-parallel forms, Ulysses' all-to-alls around attention,
 * and copies of rows for experts of other ranks.  Backward's follow from these
 * (backward.c). */
#include "block/build.h"
#include "block/passes.h"

#include <string.h>

/* A new tensor that the exchange makes of x. */
static mds_tid exchange(struct mds_step_list *p, enum mds_step_op op, const char *name,
                        mds_tid x, enum mds_rows rows, int64_t cols)
{
    const struct mds_tensor in = p->tensor[x];
    struct mds_step *s = mds_add_step(p, op, -1);

    s->in[0] = x;
    s->out[0] = mds_add_tensor(p, name, rows, in.elem, cols, 0);
    return s->out[0];
}

/* x, as the GEMM of a layer cut by columns reads it. */
static mds_tid gather(struct mds_step_list *p, const struct mds_block_ranks *r,
                      mds_tid x)
{
    const struct mds_tensor in = p->tensor[x];
    mds_tid all;

    if (r->tensor == 1)
        return x;
    all = r->sequence
              ? exchange(p, MDS_STEP_GATHER, "", x, MDS_ROWS_GEMM, in.cols)
              : exchange(p, MDS_STEP_ENTER, "", x, (enum mds_rows)in.rows, in.cols);
    mds_name_after(p, all, "", x, "*");
    return all;
}

/* The step that made y makes partial sums instead: a layer cut by rows, experts' copies
 * combined, or the sum of both. */
static mds_tid reduce(struct mds_step_list *p, const struct mds_block_ranks *r,
                      mds_tid y)
{
    struct mds_tensor *out = &p->tensor[y];
    struct mds_step *s;
    mds_tid sum;

    if (r->tensor == 1)
        return y;
    out->rows = MDS_ROWS_GEMM;
    sum = exchange(p, MDS_STEP_REDUCE, out->name, y, MDS_ROWS_SLICE, out->cols);
    mds_name_after(p, y, "", sum, "+");
    s = &p->step[p->steps - 1];
    s->site = r->sequence ? 0 : MDS_SITE_SUM;
    s->out[1] = mds_add_tensor(p, "work", MDS_ROWS_ONE, MDS_ELEM_BYTE, r->sum_work, 0);
    p->tensor[sum].part = out->part;
    out->part = 0;
    if (!r->sequence)
        p->tensor[sum].memory = out->memory;
    return sum;
}

/* q, k and v of all tokens, of some heads. */
static mds_tid to_heads(struct mds_step_list *p, const struct mds_block_ranks *r,
                        mds_tid qkv)
{
    const struct mds_tensor in = p->tensor[qkv];
    mds_tid out;

    if (r->ulysses == 1)
        return qkv;
    out = exchange(p, MDS_STEP_TO_HEADS, "q k v h", qkv, MDS_ROWS_HEADS,
                   (in.cols + r->copied) / r->ulysses);
    p->step[p->steps - 1].site = MDS_SITE_QKV;
    p->tensor[out].part = in.part; /* attention's backward reads these */
    return out;
}

static mds_tid to_tokens(struct mds_step_list *p, const struct mds_block_ranks *r,
                         mds_tid o)
{
    return r->ulysses == 1 ? o
                           : exchange(p, MDS_STEP_TO_TOKENS, "o t", o, MDS_ROWS_GEMM,
                                      p->tensor[o].cols * r->ulysses);
}

/* Whether a step reads its first operand on all tensor ranks, which share its work. */
static int reads_all(const struct mds_step *s)
{
    return (s->op == MDS_STEP_LINEAR && s->cut == MDS_CUT_COLUMNS) ||
           s->op == MDS_STEP_ROUTE || s->op == MDS_STEP_DISPATCH;
}

/* gathered[x]: by an earlier reader; -1: not yet. */
static mds_tid read_by(struct mds_step_list *p, const struct mds_block_ranks *r,
                       const struct mds_step *s, mds_tid x, mds_tid *gathered)
{
    if (s->op == MDS_STEP_ATTEND)
        return to_heads(p, r, x);
    if (s->op == MDS_STEP_LINEAR && p->tensor[x].rows == MDS_ROWS_HEADS)
        return to_tokens(p, r, x);
    if (!reads_all(s))
        return x;
    if (gathered[x] < 0)
        gathered[x] = gather(p, r, x);
    return gathered[x];
}

/* Whether each tensor rank makes a part of a sum. */
static int is_partial(const struct mds_step *s)
{
    return (s->op == MDS_STEP_LINEAR && s->cut == MDS_CUT_ROWS) ||
           s->op == MDS_STEP_COMBINE;
}

/* Whether a step of the declaration adds two such parts.  Ranks sum what it makes, so
 * neither of the two. */
static int adds_parts(const struct mds_step_list *p, const struct mds_step *s)
{
    int parts = 0;

    for (int k = 0; k < 2 && s->op == MDS_STEP_ADD; k++) {
        int from = mds_step_that_makes(p, s->in[k]);

        parts += from >= 0 && is_partial(&p->step[from]);
    }
    return parts == 2;
}

static int is_added(const struct mds_step_list *p, mds_tid t)
{
    for (int i = 0; i < p->steps; i++)
        for (int k = 0; k < 2; k++)
            if (p->step[i].in[k] == t && adds_parts(p, &p->step[i]))
                return 1;
    return 0;
}

/* Where other ranks have some of the experts, the steps between dispatch and combine
 * (experts, weigh, experts) are one, which sends copies there and takes results back.
 * What it reads of a round in backward is saved where a rank's own experts save the
 * first layer's result. */
static void spread(struct mds_step_list *p)
{
    for (int i = 0; i + 2 < p->steps; i++) {
        const struct mds_step up = p->step[i], weigh = p->step[i + 1];
        struct mds_step *s = &p->step[i];
        struct mds_tensor u;

        if (up.op != MDS_STEP_EXPERTS)
            continue;
        u = p->tensor[up.out[0]];
        *s = mds_step_of(MDS_STEP_SPREAD, -1);
        s->in[0] = up.in[0];
        s->in[1] = weigh.in[1];
        s->in[2] = weigh.in[2];
        s->in[3] = up.in[1];
        s->out[0] = p->step[i + 2].out[0];
        s->out[1] = mds_add_tensor(p, "round", MDS_ROWS_ROUND, MDS_ELEM_ACT,
                                   p->tensor[up.in[0]].cols + u.cols, u.part);
        s->out[2] =
            mds_add_tensor(p, "round w", MDS_ROWS_ROUND, MDS_ELEM_F32, 1, u.part);
        mds_remove_step(p, i + 2);
        mds_remove_step(p, i + 1);
    }
}

void mds_block_exchange(struct mds_step_list *p, const struct mds_block_ranks *r)
{
    mds_tid now[MDS_LIST_TENSORS], gathered[MDS_LIST_TENSORS];
    struct mds_step_list old;

    if (r->expert > 1)
        spread(p);
    old = *p;
    for (mds_tid t = 0; t < old.tensors; t++)
        now[t] = t;
    memset(gathered, 0xff, sizeof gathered);
    p->steps = 0;
    for (int i = 0; i < old.steps; i++) {
        struct mds_step s = old.step[i];
        int from = p->steps;

        for (int k = 0; k < MDS_STEP_IN && s.in[k] >= 0; k++)
            s.in[k] = k > 0 ? now[s.in[k]] : read_by(p, r, &s, now[s.in[k]], gathered);
        if (s.op == MDS_STEP_ATTEND)
            for (int k = 0; k < 2; k++)
                p->tensor[s.out[k]].cols /= r->ulysses;
        *mds_add_step(p, s.op, s.layer) = s;
        for (int n = from; n < p->steps; n++)
            p->step[n].of_heads = s.of_heads;
        if (is_partial(&s) && is_added(&old, s.out[0]))
            p->tensor[s.out[0]].rows = r->tensor > 1 ? MDS_ROWS_GEMM : MDS_ROWS_SLICE;
        else if (is_partial(&s) || adds_parts(&old, &old.step[i]))
            now[s.out[0]] = reduce(p, r, s.out[0]);
    }
    p->y = now[p->y];
    p->forward = p->steps;
}
