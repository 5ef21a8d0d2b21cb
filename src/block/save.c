/* SPDX-License-Identifier: BSD-3-Clause */
/* What backward reads of forward is saved, or made again just before it is read. */
#include "block/build.h"
#include "block/passes.h"

#include <string.h>

struct again {
    const struct mds_step_list *joint;
    unsigned keep;
    struct mds_step_list *b;
    mds_tid now[MDS_LIST_TENSORS];  /* a forward tensor, made again; -1: not yet */
    uint8_t read[MDS_LIST_TENSORS]; /* saved, and read */
};

static const struct mds_step *producer(const struct mds_step_list *p, mds_tid t)
{
    for (int i = 0; i < p->forward; i++)
        for (int k = 0; k < MDS_STEP_OUT; k++)
            if (p->step[i].out[k] == t)
                return &p->step[i];
    return NULL;
}

static int is_kept(const struct again *a, mds_tid t)
{
    int part = a->joint->tensor[t].part;

    return t == a->joint->x || a->joint->tensor[t].home == MDS_HOME_ARG ||
           (part > 0 && a->keep >> part & 1);
}

static mds_tid need(struct again *a, mds_tid t);

static int is_operand(const struct mds_step *s, mds_tid t)
{
    for (int k = 0; k < MDS_STEP_OPERANDS; k++)
        if (mds_step_operand(s, k) == t)
            return 1;
    return 0;
}

/* What was made again for one group of heads; attention's results are of all. */
static void forget_heads(struct again *a)
{
    for (int i = 0; i < a->joint->forward; i++) {
        const struct mds_step *s = &a->joint->step[i];

        for (int k = 0; k < MDS_STEP_OUT && s->of_heads && s->op != MDS_STEP_ATTEND;
             k++)
            if (s->out[k] >= 0)
                a->now[s->out[k]] = -1;
    }
}

/* A step of backward.  What was made again in a loop over tiles is made again in the
 * next: only what attention reads and makes has all rows. */
static void emit(struct again *a, const struct mds_step *s)
{
    *mds_add_step(a->b, s->op, s->layer) = *s;
    if (a->joint->groups > 1 && !s->of_heads)
        forget_heads(a);
    if (!mds_list_is_tiled(a->joint) || mds_step_is_by_rows(s->op))
        return;
    for (mds_tid t = 0; t < a->joint->tensors; t++)
        if (a->now[t] >= 0 && !is_operand(s, a->now[t]))
            a->now[t] = -1;
}

/* What the step makes in place of another tensor is again in that one's place. */
static mds_tid make_like(struct again *a, mds_tid t, mds_tid input)
{
    const struct mds_tensor was = a->joint->tensor[t];
    mds_tid made = mds_add_like(a->b, was.name, t, 0);

    a->b->tensor[made].memory = was.memory == t ? made : a->b->tensor[input].memory;
    a->now[t] = made;
    return made;
}

static void make_again(struct again *a, mds_tid t)
{
    const struct mds_step *from = producer(a->joint, t);
    struct mds_step s;

    if (!from) {
        a->b->overflow = 1;
        return;
    }
    s = *from;
    for (int k = 0; k < MDS_STEP_IN; k++)
        s.in[k] = need(a, s.in[k]);
    for (int k = 0; k < MDS_STEP_OUT; k++)
        if (s.out[k] >= 0)
            s.out[k] = make_like(a, s.out[k], s.in[0]);
    emit(a, &s);
}

/* The tensor where backward finds t: a gradient, saved, or made again now. */
static mds_tid need(struct again *a, mds_tid t)
{
    if (t < 0 || a->joint->tensor[t].is_gradient)
        return t;
    if (is_kept(a, t)) {
        a->read[t] = a->joint->tensor[t].home != MDS_HOME_ARG;
        return t;
    }
    if (a->now[t] < 0)
        make_again(a, t);
    return a->now[t];
}

/* The same for input k of a step; -1 if the step does without. */
static mds_tid need_input(struct again *a, const struct mds_step *s, int k)
{
    mds_tid t = s->in[k];

    if (t >= 0 && mds_step_may_lack(s->op, k) && !is_kept(a, t) && a->now[t] < 0)
        return -1;
    return need(a, t);
}

/* A loop over tiles ends where attention is made again: do that before others begin.
 * q, k and v come first in any case: o may still be on its way. */
static void attend_first(struct again *a)
{
    for (int i = 0; i < a->joint->forward; i++) {
        const struct mds_step *s = &a->joint->step[i];

        if (s->op != MDS_STEP_ATTEND)
            continue;
        if (a->joint->groups == 1)
            need(a, s->in[0]);
        need(a, s->out[0]);
    }
}

/* ---- steps whose results nobody reads ---- */

static int is_read(const struct mds_step_list *p, mds_tid t)
{
    if (p->tensor[p->tensor[t].memory].home != MDS_HOME_WORK || t == p->y ||
        t == p->y_branch)
        return 1;
    for (int i = 0; i < p->steps; i++)
        for (int k = 0; k < MDS_STEP_IN; k++)
            if (p->step[i].in[k] == t)
                return 1;
    return 0;
}

/* Working memory is read by nobody, nor may be what a step leaves in place of its
 * operand beside other results. */
static int is_dropped(const struct mds_step_list *p, const struct mds_step *s, int k)
{
    int is_work = k == 1 && (s->op == MDS_STEP_REDUCE || s->op == MDS_STEP_ROUTE_BWD);
    int is_place =
        k == 0 && mds_step_info(s->op)->must && s->out[1] >= 0 && is_read(p, s->out[1]);

    return s->out[k] >= 0 && !is_work && !is_place && !is_read(p, s->out[k]);
}

static void drop_unread(struct mds_step_list *p)
{
    for (int i = p->steps - 1; i >= 0; i--) {
        struct mds_step *s = &p->step[i];
        int outputs = 0, dropped = 0;

        for (int k = 0; k < MDS_STEP_OUT; k++) {
            outputs += s->out[k] >= 0;
            if (is_dropped(p, s, k)) {
                s->out[k] = -1;
                dropped++;
            }
        }
        if (outputs > 0 && outputs == dropped)
            mds_remove_step(p, i);
    }
}

static void make_argument(struct mds_step_list *p, mds_tid t, enum mds_arg arg)
{
    p->tensor[t].home = MDS_HOME_ARG;
    p->tensor[t].at = arg;
}

/* Attention's result and its log-sum-exp, which are saved elsewhere. */
static void make_o_arguments(struct mds_step_list *f, struct mds_step_list *b)
{
    for (int i = 0; i < f->steps; i++) {
        const struct mds_step *s = &f->step[i];

        for (int k = 0; k < 2 && s->op == MDS_STEP_ATTEND; k++) {
            make_argument(f, s->out[k], k ? MDS_ARG_LSE : MDS_ARG_O);
            make_argument(b, s->out[k], k ? MDS_ARG_LSE : MDS_ARG_O);
        }
    }
}

void mds_block_save(const struct mds_step_list *joint, unsigned keep, int away,
                    int o_away, struct mds_step_list *f, struct mds_step_list *b)
{
    struct again a = {.joint = joint, .keep = keep, .b = b};

    *f = *joint;
    *b = *joint;
    f->steps = joint->forward;
    b->steps = 0;
    memset(a.now, 0xff, sizeof a.now);
    if (mds_list_is_tiled(joint))
        attend_first(&a);
    for (int i = joint->forward; i < joint->steps; i++) {
        struct mds_step s = joint->step[i];

        for (int k = 0; k < MDS_STEP_IN; k++)
            s.in[k] = need_input(&a, &s, k);
        emit(&a, &s);
    }
    a.read[joint->x] = 0;
    for (mds_tid t = 0; t < joint->tensors; t++)
        if (a.read[t])
            for (mds_tid o = 0; o < joint->tensors; o++)
                if (mds_tensor_shares(joint, o, t))
                    f->tensor[o].home = b->tensor[o].home = MDS_HOME_SAVED;
    make_argument(b, b->x, MDS_ARG_X);
    if (!away || mds_list_is_tiled(joint))
        make_argument(f, f->x, MDS_ARG_X);
    if (o_away)
        make_o_arguments(f, b);
    f->d = b->y = -1;
    f->forward = b->forward = 0;
    drop_unread(f);
    drop_unread(b);
}

void mds_block_forward_only(struct mds_step_list *p)
{
    p->steps = p->forward;
    p->forward = 0;
    p->d = -1;
    if (mds_list_is_tiled(p))
        make_argument(p, p->x, MDS_ARG_X);
    drop_unread(p);
}
