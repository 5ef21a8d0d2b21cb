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

/* Behind attention's backward of the last group. */
static void insert_behind_heads(struct mds_step_list *p, int attend, struct mds_step s)
{
    s.of_heads = s.last = 1;
    mds_insert_step(p, attend + 1, &s);
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
    insert_behind_heads(p, at, s);
}

void mds_block_put_o(struct mds_step_list *p)
{
    int at = last_step(p, MDS_STEP_ATTEND);
    struct mds_step s = mds_step_of(MDS_STEP_PUT_O, -1);

    s.in[0] = p->step[at].out[0];
    s.in[1] = p->step[at].out[1];
    mds_insert_step(p, at + 1, &s);
}

/* It comes to where this block's is: attention's backward reads that last. */
void mds_block_fetch_o(struct mds_step_list *p)
{
    struct mds_step s = mds_step_of(MDS_STEP_PREFETCH, -1);

    s.site = MDS_SITE_O;
    insert_behind_heads(p, last_step(p, MDS_STEP_ATTEND_BWD), s);
}
