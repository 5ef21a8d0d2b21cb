/* SPDX-License-Identifier: BSD-3-Clause */
/* Neighbours that one kernel does. */
#include "block/build.h"
#include "block/passes.h"

/* x = a + b; y = norm(x): the norm's kernel stores the sum. */
static void merge_add_and_norm(struct mds_step_list *p, int i)
{
    struct mds_step *a = &p->step[i], *n = a + 1;

    if (a->op != MDS_STEP_ADD || n->op != MDS_STEP_NORM || n->in[0] != a->out[0] ||
        n->in[1] >= 0)
        return;
    n->out[2] = a->out[0];
    n->in[0] = a->in[0];
    n->in[1] = a->in[1];
    mds_remove_step(p, i);
}

/* u = x W^T; g = GELU(u) */
static void merge_linear_and_gelu(struct mds_step_list *p, int i)
{
    struct mds_step *l = &p->step[i], *g = l + 1;

    if (l->op != MDS_STEP_LINEAR || g->op != MDS_STEP_ACTIVATE || g->in[0] != l->out[0])
        return;
    l->out[1] = g->out[0];
    mds_remove_step(p, i + 1);
}

/* dg = dy W; du = dg GELU'(u) */
static void merge_linear_and_gelu_bwd(struct mds_step_list *p, int i)
{
    struct mds_step *l = &p->step[i], *g = l + 1;

    if (l->op != MDS_STEP_LINEAR_BWD_X || g->op != MDS_STEP_ACTIVATE_BWD ||
        g->in[1] != l->out[0])
        return;
    l->in[1] = g->in[0];
    l->out[0] = g->out[0];
    mds_remove_step(p, i + 1);
}

/* A block begins by adding the summands that the one before has left. */
static void leave_last_sum(struct mds_step_list *p)
{
    struct mds_step sum = p->step[p->steps - 1];

    if (sum.op != MDS_STEP_ADD || sum.out[0] != p->y)
        return;
    p->y = sum.in[0];
    p->y_branch = sum.in[1];
    p->steps--;
    p->x0 = mds_add_like(p, "x0", p->x, 0);
    p->branch = mds_add_like(p, "branch", p->x, 0);
    p->tensor[p->x0].home =
        p->tensor[p->y].home == MDS_HOME_SAVED ? MDS_HOME_ARG : MDS_HOME_WORK;
    p->tensor[p->x0].at = MDS_ARG_X0;
    sum.in[0] = p->x0;
    sum.in[1] = p->branch;
    sum.out[0] = p->x;
    mds_insert_step(p, 0, &sum);
}

void mds_block_fuse(struct mds_step_list *p, int gelu)
{
    if (p->d < 0 && !mds_list_is_tiled(p))
        leave_last_sum(p);
    for (int i = 0; i + 1 < p->steps; i++) {
        if (gelu) {
            merge_linear_and_gelu(p, i);
            merge_linear_and_gelu_bwd(p, i);
        }
        merge_add_and_norm(p, i);
    }
}
