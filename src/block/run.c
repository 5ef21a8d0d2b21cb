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

static enum mds_rc run_step(const struct mds_step_list *p,
                            const struct mds_block_frame *f, const struct mds_step *s)
{
    struct mds_arena_mark mark = mds_arena_mark(f->arena);
    struct mds_block_call call = {.list = p, .step = s};
    void *work = NULL;

    MDS_TRY(wait_for(f, s->waits));
    MDS_TRY(mds_arena_alloc(f->arena, MDS_MEM_WORK, s->top, &work));
    for (int k = 0; k < MDS_STEP_IN; k++)
        call.in[k] = mds_block_address(p, f, work, s->in[k]);
    for (int k = 0; k < MDS_STEP_OUT; k++)
        call.out[k] = mds_block_address(p, f, work, s->out[k]);
    MDS_TRY(f->perform[s->op](f->ctx, &call));
    mds_arena_release(f->arena, mark);
    return MDS_OK;
}

enum mds_rc mds_block_run(const struct mds_step_list *p,
                          const struct mds_block_frame *f)
{
    for (int i = 0; i < p->steps; i++)
        MDS_TRY(run_step(p, f, &p->step[i]));
    return MDS_OK;
}
