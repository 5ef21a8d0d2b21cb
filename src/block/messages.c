/* SPDX-License-Identifier: BSD-3-Clause */
/* When messages start, and who waits for them.  A message starts where its step is; the
 * first step that reads its result, or writes to what it still needs, waits. */
#include "block/build.h"
#include "block/passes.h"

static int is_message(const struct mds_step *s)
{
    return s->op == MDS_STEP_GATHER || s->op == MDS_STEP_REDUCE ||
           s->op == MDS_STEP_PUT;
}

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

static int conflicts(const struct mds_step_list *p, const struct mds_step *message,
                     const struct mds_step *s)
{
    for (int k = 0; k < MDS_STEP_OUT; k++)
        if (reads(p, s, message->out[k]) || makes(p, s, message->out[k]))
            return 1;
    return makes(p, s, message->in[0]) ||
           (message->in[0] == p->x && makes(p, s, p->y)); /* will be in its place */
}

void mds_block_messages(struct mds_step_list *p)
{
    for (int i = 0; i + 1 < p->steps; i++)
        if (p->step[i].op == MDS_STEP_GATHER)
            start_before_dx(p, i);
    for (int i = 0; i < p->steps; i++) {
        struct mds_step *s = &p->step[i];
        int end = i + 1;

        if (!is_message(s))
            continue;
        s->message = (int8_t)p->messages++;
        while (end + 1 < p->steps && !conflicts(p, s, &p->step[end]))
            end++;
        p->step[end].waits |= (uint16_t)(1u << s->message);
    }
    p->overflow |= p->messages > MDS_LIST_MESSAGES;
}
