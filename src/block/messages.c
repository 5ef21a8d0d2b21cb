/* SPDX-License-Identifier: BSD-3-Clause */
/* When messages start, and who waits for them.  A message starts where its step is; the
 * first step that reads its result, or writes to what it still needs, waits; or the
 * last one of the loop that it is in.
 *
 * Messages between tensor ranks may travel in chunks of rows.  A linear layer sends a
 * chunk of the sum that follows when it has computed it; one right behind a gather
 * waits for a chunk when it needs it. */
#include "block/build.h"
#include "block/passes.h"

static int is_message(const struct mds_step *s)
{
    return s->op == MDS_STEP_GATHER || s->op == MDS_STEP_REDUCE ||
           s->op == MDS_STEP_PUT ||
           (mds_step_is_linear(s->op) && s->out[MDS_OUT_SUM] >= 0);
}

/* ---- chunks ---- */

static int is_chunked(unsigned layers, const struct mds_step *s)
{
    return s->layer >= 0 && layers >> s->layer & 1;
}

/* Linear layer i sends the sum of its results. */
static void merge_linear_and_reduce(struct mds_step_list *p, int i)
{
    struct mds_step *s = &p->step[i];
    const struct mds_step sum = p->step[i + 1];

    if (!mds_step_is_linear(s->op) || sum.op != MDS_STEP_REDUCE ||
        sum.in[0] != s->out[0])
        return;
    s->in_chunks = 1;
    s->out[MDS_OUT_SUM] = sum.out[0];
    s->out[MDS_OUT_SUM + 1] = sum.out[1];
    mds_remove_step(p, i + 1);
}

static int gathers_for(const struct mds_step_list *p, int gather, unsigned layers)
{
    for (int i = gather + 1; i < p->steps; i++)
        for (int k = 0; k < MDS_STEP_IN; k++)
            if (p->step[i].in[k] == p->step[gather].out[0])
                return is_chunked(layers, &p->step[i]);
    return 0;
}

void mds_block_chunks(struct mds_step_list *p, unsigned layers)
{
    for (int i = 0; i + 1 < p->steps; i++) {
        if (is_chunked(layers, &p->step[i]))
            merge_linear_and_reduce(p, i);
        if (p->step[i].op == MDS_STEP_GATHER)
            p->step[i].in_chunks = (uint8_t)gathers_for(p, i, layers);
    }
}

/* ---- order ---- */

static int makes(const struct mds_step_list *p, const struct mds_step *s, mds_tid t)
{
    for (int k = 0; k < MDS_STEP_OUT; k++)
        if (mds_tensor_shares(p, s->out[k], t))
            return 1;
    return 0;
}

static int reads(const struct mds_step_list *p, const struct mds_step *s, mds_tid t)
{
    for (int k = 0; k < MDS_STEP_IN; k++)
        if (mds_tensor_shares(p, s->in[k], t))
            return 1;
    return 0;
}

/* What is gathered only for a weight's gradient travels while that layer's dx is
 * computed. */
static void start_before_dx(struct mds_step_list *p, int gather)
{
    struct mds_step s = p->step[gather];
    int at = gather - 1, dx = -1;
    const struct mds_step *w = &p->step[gather + 1];

    if (w->op != MDS_STEP_LINEAR_BWD_W || w->in[0] != s.out[0])
        return;
    for (; at >= 0 && !makes(p, &p->step[at], s.in[0]); at--)
        if (p->step[at].op == MDS_STEP_LINEAR_BWD_X && p->step[at].layer == w->layer)
            dx = at;
    if (dx < 0)
        return;
    mds_remove_step(p, gather);
    mds_insert_step(p, dx, &s);
}

/* In tiles a norm's result is made again for it: make that earlier, too. */
static void norm_before_dx(struct mds_step_list *p, int gather)
{
    const struct mds_step n = p->step[gather - 1];
    const struct mds_step *w = &p->step[gather + 1];
    int dx = gather - 2;

    if (n.op != MDS_STEP_NORM || n.out[0] != p->step[gather].in[0] || n.in[1] >= 0 ||
        w->op != MDS_STEP_LINEAR_BWD_W)
        return;
    while (dx >= 0 &&
           (p->step[dx].op != MDS_STEP_LINEAR_BWD_X || p->step[dx].layer != w->layer))
        dx--;
    if (dx < 0 || p->step[dx].loop != n.loop || mds_tensor_arg(p, n.in[0]) < 0)
        return;
    mds_remove_step(p, gather - 1);
    mds_insert_step(p, dx, &n);
}

static int conflicts(const struct mds_step_list *p, const struct mds_step *message,
                     const struct mds_step *s)
{
    for (int k = 0; k < MDS_STEP_OPERANDS; k++) {
        mds_tid t = mds_step_operand(message, k);

        if (!mds_step_sends(message, k))
            continue;
        if (makes(p, s, t) || (k >= MDS_STEP_IN && reads(p, s, t)))
            return 1;
    }
    return message->in[0] == p->x && makes(p, s, p->y); /* will be in its place */
}

static void wait_for_o(struct mds_step_list *p)
{
    for (int i = 0; i < p->steps; i++)
        for (int k = 0; k < MDS_STEP_IN; k++)
            if (p->step[i].in[k] >= 0 &&
                mds_tensor_arg(p, p->step[i].in[k]) == MDS_ARG_O) {
                p->step[i].waits |= 1u << MDS_MESSAGE_O;
                return;
            }
}

/* The step before which message i ends. */
static int end_of_message(struct mds_step_list *p, int i)
{
    const struct mds_step *s = &p->step[i];
    int end = i + 1, last = p->steps - 1;

    while (s->loop && last > i && p->step[last].loop != s->loop)
        last--;
    while (end < last && !conflicts(p, s, &p->step[end]))
        end++;
    p->overflow |= end > last;
    return end;
}

void mds_block_messages(struct mds_step_list *p, int by_chunks)
{
    for (int i = 1; i + 1 < p->steps; i++)
        if (p->step[i].op == MDS_STEP_GATHER) {
            norm_before_dx(p, i);
            start_before_dx(p, i);
        }
    if (p->d >= 0)
        wait_for_o(p);
    p->messages = MDS_MESSAGE_O + 1;
    for (int i = 0; i < p->steps; i++) {
        struct mds_step *s = &p->step[i];
        int end;

        if (!is_message(s))
            continue;
        s->message = (int8_t)p->messages++;
        end = end_of_message(p, i);
        if (by_chunks && s->op == MDS_STEP_GATHER && s->in_chunks && end == i + 1 &&
            mds_step_is_linear(p->step[end].op))
            p->step[end].awaits = s->message;
        else
            p->step[end].waits |= (uint16_t)(1u << s->message);
    }
    p->overflow |= p->messages > MDS_LIST_MESSAGES;
}
