/* SPDX-License-Identifier: BSD-3-Clause */
#include "block/run.h"

void *mds_block_address(const struct mds_step_list *p, const struct mds_block_frame *f,
                        char *work, mds_tid t)
{
    const struct mds_tensor *m;

    if (t < 0 || (f->is_sum && t == p->branch))
        return NULL;
    if (f->is_sum && t == p->x0)
        t = p->x;
    m = &p->tensor[p->tensor[t].memory];
    if (m->home == MDS_HOME_ARG)
        return f->arg[m->at];
    return m->at < p->saved_bytes ? f->saved + m->at : work + (m->at - p->saved_bytes);
}

static enum mds_rc wait_for(const struct mds_block_frame *f, unsigned messages)
{
    for (int m = 0; messages >> m; m++)
        if (messages >> m & 1)
            MDS_TRY(f->wait(f->ctx, m));
    return MDS_OK;
}

/* Operand t of a step. */
static void *operand(const struct mds_step_list *p, const struct mds_block_frame *f,
                     int loop, char *work, mds_tid t)
{
    const struct mds_tensor *x = &p->tensor[t];
    char *at = mds_block_address(p, f, work, t);

    if (at && loop && !x->of_tile && x->rows == MDS_ROWS_SLICE)
        at += mds_tensor_row_bytes(p, t) * f->row;
    return at;
}

static enum mds_rc run_step(const struct mds_step_list *p,
                            const struct mds_block_frame *f, const struct mds_step *s)
{
    struct mds_arena_mark mark = mds_arena_mark(f->arena);
    struct mds_block_call call = {.list = p, .step = s};
    void *work = NULL;

    if (s->last && !f->is_last_group)
        return MDS_OK;
    MDS_TRY(wait_for(f, s->waits));
    MDS_TRY(mds_arena_alloc(f->arena, MDS_MEM_WORK, s->top, &work));
    for (int k = 0; k < MDS_STEP_IN; k++)
        if (s->in[k] >= 0)
            call.in[k] = operand(p, f, s->loop, work, s->in[k]);
    for (int k = 0; k < MDS_STEP_OUT; k++)
        if (s->out[k] >= 0)
            call.out[k] = operand(p, f, s->loop, work, s->out[k]);
    MDS_TRY(f->perform[s->op](f->ctx, &call));
    mds_arena_release(f->arena, mark);
    return MDS_OK;
}

/* The loop that begins at step `from`; *end: the step behind it. */
static enum mds_rc run_loop(const struct mds_step_list *p,
                            const struct mds_block_frame *f, int from, int *end)
{
    struct mds_block_frame tile = *f;
    int64_t next;

    *end = from;
    while (*end < p->steps && p->step[*end].loop == p->step[from].loop)
        ++*end;
    for (tile.row = 0; (next = f->enter_tile(f->ctx, tile.row)) > 0; tile.row = next)
        for (int i = from; i < *end; i++)
            MDS_TRY(run_step(p, &tile, &p->step[i]));
    return MDS_OK;
}

static enum mds_rc run_steps(const struct mds_step_list *p,
                             const struct mds_block_frame *f, int from, int end)
{
    for (int i = from; i < end;)
        if (p->step[i].loop)
            MDS_TRY(run_loop(p, f, i, &i));
        else
            MDS_TRY(run_step(p, f, &p->step[i++]));
    return MDS_OK;
}

/* The neighbours from `from` on that work on heads, for each group; *end: the step
 * behind them. */
static enum mds_rc run_groups(const struct mds_step_list *p,
                              const struct mds_block_frame *f, int from, int *end)
{
    struct mds_block_frame group = *f;

    *end = from;
    while (*end < p->steps && p->step[*end].of_heads)
        ++*end;
    for (int g = 0; g < p->groups; g++) {
        group.is_last_group = g + 1 == p->groups;
        f->enter_group(f->ctx, g);
        MDS_TRY(run_steps(p, &group, from, *end));
    }
    f->enter_group(f->ctx, -1);
    return MDS_OK;
}

static int next_heads(const struct mds_step_list *p, int i)
{
    while (i < p->steps && !p->step[i].of_heads)
        i++;
    return i;
}

enum mds_rc mds_block_run(const struct mds_step_list *p,
                          const struct mds_block_frame *f)
{
    struct mds_block_frame one = *f;
    int i = 0;

    one.is_last_group = 1;
    if (p->groups == 1)
        return run_steps(p, &one, 0, p->steps);
    while (i < p->steps) {
        int heads = next_heads(p, i);

        MDS_TRY(run_steps(p, &one, i, heads));
        i = heads;
        if (i < p->steps)
            MDS_TRY(run_groups(p, &one, i, &i));
    }
    return MDS_OK;
}
