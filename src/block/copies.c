/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of the stream before the block, where that is not saved on the device. */
#include "block/build.h"
#include "block/passes.h"

static int last_step(const struct mds_step_list *p, enum mds_step_op op)
{
    int i = p->steps - 1;

    while (i > 0 && p->step[i].op != op)
        i--;
    return i;
}

void mds_block_put_input(struct mds_step_list *p)
{
    struct mds_step s = mds_step_of(MDS_STEP_PUT, -1);

    s.in[0] = p->x;
    mds_insert_step(p, mds_step_that_makes(p, p->x) + 1, &s);
}

/* The gradient of attention's result is where the next block's x will be, if it fits:
 * attention's backward reads it last. */
void mds_block_fetch_input(struct mds_step_list *p)
{
    struct mds_step s = mds_step_of(MDS_STEP_PREFETCH, -1);
    int at = last_step(p, MDS_STEP_ATTEND_BWD);
    mds_tid d_o = p->step[at].in[3];

    if (mds_tensor_bytes(p, d_o) <= mds_tensor_bytes(p, p->x)) {
        mds_tensor_memory(p, d_o)->home = MDS_HOME_ARG;
        mds_tensor_memory(p, d_o)->at = MDS_ARG_NEXT;
    }
    mds_insert_step(p, at + 1, &s);
}
