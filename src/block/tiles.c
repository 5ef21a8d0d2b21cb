/* SPDX-License-Identifier: BSD-3-Clause */
/* Loops over tiles of rows: neighbours that work row by row run for one tile after the
 * other.  What only one loop knows has the rows of a tile. */
#include "block/build.h"
#include "block/passes.h"

#include <stddef.h>

static int makes_work(const struct mds_step_list *p, const struct mds_step *s)
{
    for (int k = 0; k < MDS_STEP_OUT; k++)
        if (s->out[k] >= 0 &&
            p->tensor[p->tensor[s->out[k]].memory].home != MDS_HOME_WORK)
            return 0;
    return 1;
}

/* The first step behind i that reads what it makes in working memory; -1: none. */
static int first_reader(const struct mds_step_list *p, int i)
{
    const struct mds_step *s = &p->step[i];

    if (!makes_work(p, s))
        return -1;
    for (int n = i + 1; n < p->steps; n++)
        for (int k = 0; k < MDS_STEP_IN; k++)
            for (int o = 0; o < MDS_STEP_OUT; o++)
                if (mds_tensor_shares(p, p->step[n].in[k], s->out[o]))
                    return n;
    return -1;
}

static int loop_start(const struct mds_step_list *p, int i)
{
    while (i > 0 && mds_step_is_by_rows(p->step[i - 1].op))
        i--;
    return i;
}

/* What is made for a later loop alone is made there: first, so that messages travel
 * meanwhile. */
static void move_to_readers(struct mds_step_list *p)
{
    for (int i = p->steps - 1; i >= 0; i--) {
        const struct mds_step s = p->step[i];
        int reader = first_reader(p, i), start = loop_start(p, reader);

        if (reader < 0 || start <= i || !mds_step_is_by_rows(s.op) ||
            !mds_step_is_by_rows(p->step[reader].op))
            continue;
        mds_remove_step(p, i);
        mds_insert_step(p, start - 1, &s);
    }
}

static void number_loops(struct mds_step_list *p)
{
    uint8_t loop = 0;

    for (int i = 0; i < p->steps; i++) {
        int before = i > 0 && p->step[i - 1].loop > 0;

        p->step[i].loop = 0;
        if (!mds_step_is_by_rows(p->step[i].op))
            continue;
        loop = (uint8_t)(loop + !before);
        p->step[i].loop = loop;
    }
}

enum { UNUSED = -1, NO_LOOP = 0, SEVERAL = 255 };

/* The one loop that uses each memory. */
static void find_users(const struct mds_step_list *p, int16_t *loop)
{
    for (mds_tid t = 0; t < p->tensors; t++)
        loop[t] = UNUSED;
    for (int i = 0; i < p->steps; i++) {
        const struct mds_step *s = &p->step[i];

        for (int k = 0; k < MDS_STEP_OPERANDS; k++) {
            mds_tid t = mds_step_operand(s, k);
            int16_t *user = t >= 0 ? &loop[p->tensor[t].memory] : NULL;

            if (user)
                *user = *user == UNUSED || *user == s->loop ? s->loop : SEVERAL;
        }
    }
}

void mds_block_tiles(struct mds_step_list *p)
{
    int16_t loop[MDS_LIST_TENSORS];

    move_to_readers(p);
    number_loops(p);
    find_users(p, loop);
    for (mds_tid t = 0; t < p->tensors; t++) {
        struct mds_tensor *x = &p->tensor[t];
        int user = loop[x->memory];

        x->of_tile = p->tensor[x->memory].home == MDS_HOME_WORK && user != UNUSED &&
                     user != NO_LOOP && user != SEVERAL;
    }
}

void mds_block_end_in_argument(struct mds_step_list *p)
{
    mds_tid sum = p->step[p->steps - 1].in[0];

    p->tensor[p->y].home = MDS_HOME_ARG;
    p->tensor[p->y].at = MDS_ARG_Y;
    if (p->tensor[p->tensor[sum].memory].home == MDS_HOME_WORK)
        p->tensor[sum].memory = p->y;
}
