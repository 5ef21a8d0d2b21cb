/* SPDX-License-Identifier: BSD-3-Clause */
/* The gradients: for each forward step, from the last to the first, a rule emits the
 * steps that make the gradients of its inputs from those of its outputs.  What the
 * rules read of the forward is what there is to save. */
#include "block/build.h"
#include "block/passes.h"

#include <string.h>

struct back {
    struct mds_step_list *p;
    mds_tid grad[MDS_LIST_TENSORS]; /* of each tensor so far; -1: none */
    struct mds_step late; /* a weight's gradient, to emit after a sum has started */
    int has_late;
};

static mds_tid gradient_like(struct back *k, mds_tid t, int shares)
{
    mds_tid d = mds_add_like(k->p, "", t, shares);

    mds_name_after(k->p, d, k->p->tensor[t].is_gradient ? "" : "d ", t, "");
    k->p->tensor[d].is_gradient = 1;
    return d;
}

/* dt is one more contribution to the gradient of t. */
static void give(struct back *k, mds_tid t, mds_tid dt)
{
    mds_tid old = k->grad[t];
    struct mds_step *s;

    k->grad[t] = dt;
    if (old < 0 || old == dt)
        return;
    s = mds_add_step(k->p, MDS_STEP_ADD, -1);
    s->in[0] = old;
    s->in[1] = dt;
    s->out[0] = k->grad[t] = gradient_like(k, old, 1);
}

static void emit_late(struct back *k)
{
    if (k->has_late)
        *mds_add_step(k->p, k->late.op, k->late.layer) = k->late;
    k->has_late = 0;
}

/* ---- rules ---- */

/* The sum of two terms gives both the same gradient.  They are in one tensor: what a
 * norm adds to it is for both, so terms that are norms' inputs come last in forward. */
static void back_add(struct back *k, const struct mds_step *f)
{
    mds_tid d = k->grad[f->out[0]];

    give(k, f->in[0], d);
    give(k, f->in[1], d);
}

/* The kernel adds to the gradient of x if there is one already. */
static void back_norm(struct back *k, const struct mds_step *f)
{
    mds_tid d = k->grad[f->in[0]];
    struct mds_step *s = mds_add_step(k->p, MDS_STEP_NORM_BWD, f->layer);

    s->in[0] = f->in[0];
    s->in[1] = f->out[1];
    s->in[2] = k->grad[f->out[0]];
    s->in[3] = d;
    s->out[0] = k->grad[f->in[0]] =
        d < 0 ? gradient_like(k, f->in[0], 0) : gradient_like(k, d, 1);
}

static void back_linear(struct back *k, const struct mds_step *f)
{
    mds_tid dy = k->grad[f->out[0]], dx = gradient_like(k, f->in[0], 0);
    struct mds_step x = mds_step_of(MDS_STEP_LINEAR_BWD_X, f->layer);
    struct mds_step w = mds_step_of(MDS_STEP_LINEAR_BWD_W, f->layer);

    x.in[0] = dy;
    x.out[0] = dx;
    w.in[0] = f->in[0];
    w.in[1] = dy;
    x.cut = w.cut = f->cut;
    w.of_heads = f->of_heads;
    if (f->cut == MDS_CUT_COLUMNS) {
        *mds_add_step(k->p, x.op, x.layer) = x;
        k->late = w;
        k->has_late = 1;
    } else {
        *mds_add_step(k->p, w.op, w.layer) = w;
        *mds_add_step(k->p, x.op, x.layer) = x;
    }
    give(k, f->in[0], dx);
}

static void back_attend(struct back *k, const struct mds_step *f)
{
    struct mds_step *s = mds_add_step(k->p, MDS_STEP_ATTEND_BWD, -1);

    s->in[0] = f->in[0];
    s->in[1] = f->out[0];
    s->in[2] = f->out[1];
    s->in[3] = k->grad[f->out[0]];
    s->out[0] = gradient_like(k, f->in[0], 0);
    give(k, f->in[0], s->out[0]);
}

/* One gradient becomes another; with extra inputs, of the forward. */
static void back_unary(struct back *k, const struct mds_step *f, enum mds_step_op op,
                       mds_tid more, mds_tid still_more)
{
    mds_tid dy = k->grad[f->out[0]];
    struct mds_step *s = mds_add_step(k->p, op, f->layer);

    s->site = f->site;
    s->in[0] = dy;
    s->in[1] = more;
    s->in[2] = still_more;
    s->out[0] = mds_step_info(op)->must ? gradient_like(k, dy, 1)
                                        : gradient_like(k, f->in[0], 0);
    give(k, f->in[0], s->out[0]);
}

static void back_activate(struct back *k, const struct mds_step *f)
{
    struct mds_step *s = mds_add_step(k->p, MDS_STEP_ACTIVATE_BWD, -1);

    s->in[0] = f->in[0];
    s->in[1] = k->grad[f->out[0]];
    s->out[0] = gradient_like(k, f->in[0], 0);
    give(k, f->in[0], s->out[0]);
}

/* All tensor ranks read x: its gradient is the sum of theirs, which travels while the
 * weight's gradient is computed. */
static void back_gather(struct back *k, const struct mds_step *f)
{
    int all = f->op == MDS_STEP_ENTER;
    mds_tid partial = k->grad[f->out[0]], dx;
    struct mds_step *s = mds_add_step(k->p, MDS_STEP_REDUCE, -1);
    mds_tid work = -1;

    for (int i = 0; i < k->p->forward; i++)
        if (k->p->step[i].op == MDS_STEP_REDUCE)
            work = k->p->step[i].out[1];
    mds_name_after(k->p, partial, "d ", f->in[0], "+");
    s->site = all ? MDS_SITE_SUM : 0;
    s->in[0] = partial;
    s->out[0] = dx = gradient_like(k, f->in[0], 0);
    k->p->tensor[dx].memory = all ? k->p->tensor[partial].memory : dx;
    s->out[1] = mds_add_like(k->p, "work", work, 0);
    k->p->tensor[s->out[1]].is_gradient = 1;
    emit_late(k);
    give(k, f->in[0], dx);
}

/* Each rank's partial sum has the gradient of the sum. */
static void back_reduce(struct back *k, const struct mds_step *f)
{
    mds_tid dy = k->grad[f->out[0]];
    struct mds_step *s;

    if (f->site == MDS_SITE_SUM) {
        give(k, f->in[0], dy);
        return;
    }
    s = mds_add_step(k->p, MDS_STEP_GATHER, -1);
    s->in[0] = dy;
    s->out[0] = gradient_like(k, f->in[0], 0);
    mds_name_after(k->p, s->out[0], "", dy, "*");
    give(k, f->in[0], s->out[0]);
}

/* Like a norm's kernel, it adds to the gradient of x: dispatch, which reads x later in
 * forward, has given one. */
static void back_route(struct back *k, const struct mds_step *f)
{
    mds_tid d = k->grad[f->in[0]];
    struct mds_step *s = mds_add_step(k->p, MDS_STEP_ROUTE_BWD, f->layer);

    if (d < 0) {
        k->p->overflow = 1;
        return;
    }
    s->in[0] = f->in[0];
    s->in[1] = f->out[0];
    s->in[2] = f->out[1];
    s->in[3] = f->out[3];
    s->in[4] = k->grad[f->out[1]];
    s->in[5] = d;
    s->in[6] = f->out[4];
    s->out[0] = k->grad[f->in[0]] = gradient_like(k, d, 1);
    s->out[1] = gradient_like(k, f->out[3], 0);
}

/* A copy for each expert, or the sum of these. */
static void back_copies(struct back *k, const struct mds_step *f, enum mds_step_op op)
{
    struct mds_step *s = mds_add_step(k->p, op, -1);

    s->in[0] = k->grad[f->out[0]];
    s->in[1] = f->in[1];
    s->out[0] = gradient_like(k, f->in[0], 0);
    give(k, f->in[0], s->out[0]);
}

static void back_experts(struct back *k, const struct mds_step *f)
{
    mds_tid dy = k->grad[f->out[0]];
    struct mds_step *s = mds_add_step(k->p, MDS_STEP_EXPERTS_BWD_W, f->layer);

    s->in[0] = f->in[0];
    s->in[1] = f->in[1];
    s->in[2] = dy;
    s = mds_add_step(k->p, MDS_STEP_EXPERTS_BWD_X, f->layer);
    s->in[0] = dy;
    s->in[1] = f->in[1];
    s->out[0] = gradient_like(k, f->in[0], 0);
    give(k, f->in[0], s->out[0]);
}

static void back_weigh(struct back *k, const struct mds_step *f)
{
    struct mds_step *s = mds_add_step(k->p, MDS_STEP_WEIGH_BWD, -1);

    for (int i = 0; i < 3; i++)
        s->in[i] = f->in[i];
    s->in[3] = k->grad[f->out[0]];
    s->out[0] = gradient_like(k, f->in[0], 0);
    s->out[1] = gradient_like(k, f->in[1], 0);
    give(k, f->in[0], s->out[0]);
    give(k, f->in[1], s->out[1]);
}

static void back_spread(struct back *k, const struct mds_step *f)
{
    struct mds_step *s = mds_add_step(k->p, MDS_STEP_SPREAD_BWD, -1);

    for (int i = 0; i < 4; i++)
        s->in[i] = f->in[i];
    s->in[4] = k->grad[f->out[0]];
    s->in[5] = f->out[1];
    s->in[6] = f->out[2];
    s->out[0] = gradient_like(k, f->in[0], 0);
    s->out[1] = gradient_like(k, f->in[1], 0);
    give(k, f->in[0], s->out[0]);
    give(k, f->in[1], s->out[1]);
}

static void back(struct back *k, const struct mds_step *f)
{
    switch ((enum mds_step_op)f->op) {
    case MDS_STEP_ADD:
        back_add(k, f);
        break;
    case MDS_STEP_NORM:
        back_norm(k, f);
        break;
    case MDS_STEP_LINEAR:
        back_linear(k, f);
        break;
    case MDS_STEP_ATTEND:
        back_attend(k, f);
        break;
    case MDS_STEP_ACTIVATE:
        back_activate(k, f);
        break;
    case MDS_STEP_ROUTE:
        back_route(k, f);
        break;
    case MDS_STEP_DISPATCH:
        back_copies(k, f, MDS_STEP_COMBINE);
        break;
    case MDS_STEP_COMBINE:
        back_copies(k, f, MDS_STEP_DISPATCH);
        break;
    case MDS_STEP_EXPERTS:
        back_experts(k, f);
        break;
    case MDS_STEP_WEIGH:
        back_weigh(k, f);
        break;
    case MDS_STEP_SPREAD:
        back_spread(k, f);
        break;
    case MDS_STEP_GATHER:
    case MDS_STEP_ENTER:
        back_gather(k, f);
        break;
    case MDS_STEP_REDUCE:
        back_reduce(k, f);
        break;
    case MDS_STEP_DROPOUT:
        back_unary(k, f, MDS_STEP_DROPOUT, -1, -1);
        break;
    case MDS_STEP_ROPE:
        back_unary(k, f, MDS_STEP_ROPE_BWD, -1, -1);
        break;
    case MDS_STEP_HEAD_NORMS:
        back_unary(k, f, MDS_STEP_HEAD_NORMS_BWD, f->out[1], f->out[2]);
        break;
    case MDS_STEP_TO_HEADS:
        back_unary(k, f, MDS_STEP_TO_TOKENS, -1, -1);
        break;
    case MDS_STEP_TO_TOKENS:
        back_unary(k, f, MDS_STEP_TO_HEADS, -1, -1);
        break;
    default:
        k->p->overflow = 1;
    }
}

/* Where tensor ranks have the same rows, entering a layer is nothing: readers read what
 * was entered. */
static void drop_enters(struct mds_step_list *p)
{
    for (int i = p->steps - 1; i >= 0; i--) {
        const struct mds_step s = p->step[i];

        if (s.op != MDS_STEP_ENTER)
            continue;
        for (int n = 0; n < p->steps; n++)
            for (int k = 0; k < MDS_STEP_IN; k++)
                if (p->step[n].in[k] == s.out[0])
                    p->step[n].in[k] = s.in[0];
        p->forward -= i < p->forward;
        mds_remove_step(p, i);
    }
}

void mds_block_differentiate(struct mds_step_list *p)
{
    struct back k = {.p = p};

    memset(k.grad, 0xff, sizeof k.grad);
    p->d = mds_add_like(p, "d", p->x, 0);
    p->tensor[p->d].is_gradient = 1;
    p->tensor[p->d].home = MDS_HOME_ARG;
    p->tensor[p->d].at = MDS_ARG_D;
    k.grad[p->y] = p->d;
    for (int i = p->forward - 1; i >= 0; i--) {
        const struct mds_step f = p->step[i];
        int from = p->steps;

        if (f.op != MDS_STEP_GATHER && f.op != MDS_STEP_ENTER)
            emit_late(&k);
        back(&k, &f);
        for (int n = from; n < p->steps; n++)
            p->step[n].of_heads |= f.of_heads;
    }
    emit_late(&k);
    drop_enters(p);
}
