/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention of one group of heads after the other: q, k, v and their gradients have the
 * columns of one group. */
#include "block/build.h"
#include "block/passes.h"

static int has_weight_gradient(const struct mds_step_list *p, int from, int end)
{
    for (int i = from; i < end; i++)
        if (p->step[i].op == MDS_STEP_LINEAR_BWD_W)
            return 1;
    return 0;
}

/* Around steps from .. end - 1: the group's weights. */
static void open_and_close(struct mds_step_list *p, int from, int end, int64_t weights)
{
    struct mds_step open = mds_step_of(MDS_STEP_OPEN_HEADS, -1);
    struct mds_step close = mds_step_of(MDS_STEP_CLOSE_HEADS, -1);

    open.of_heads = close.of_heads = 1;
    open.out[0] = mds_add_tensor(p, "weights", MDS_ROWS_ONE, MDS_ELEM_ACT, weights, 0);
    if (has_weight_gradient(p, from, end))
        open.out[1] =
            mds_add_tensor(p, "d weights", MDS_ROWS_ONE, MDS_ELEM_F32, weights, 0);
    close.in[0] = open.out[0];
    close.in[1] = open.out[1];
    mds_insert_step(p, end, &close);
    mds_insert_step(p, from, &open);
}

void mds_block_groups(struct mds_step_list *p, int64_t weights)
{
    for (int i = 0; i < p->steps; i++) {
        int end = i;

        while (end < p->steps && p->step[end].of_heads)
            end++;
        if (end == i)
            continue;
        open_and_close(p, i, end, weights);
        i = end + 1;
    }
}
