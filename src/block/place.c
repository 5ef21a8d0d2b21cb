/* SPDX-License-Identifier: BSD-3-Clause */
/* From when to when each tensor's memory is in use, and where it is.
 *
 * Saved tensors come first, one after the other.  Others get the lowest free address in
 * the order in which they are made: among the saved ones before these are made or after
 * they are read last, and behind them in working memory.  A result takes the place of
 * an operand that nobody reads any more, if its operation allows that.
 *
 * In a loop over tiles each tile has its rows of a tensor with all rows: such memory is
 * in use from the loop's start to its end.  So is in a loop over groups of heads what
 * comes from before it, or is for behind it. */
#include "block/build.h"
#include "block/passes.h"

#include "base/minmax.h"

#include <limits.h>

/* ---- when ---- */

static void use(struct mds_step_list *p, mds_tid t, int step)
{
    struct mds_tensor *m;

    if (t < 0)
        return;
    m = mds_tensor_memory(p, t);
    if (m->first < 0 || m->first > step)
        m->first = (int16_t)step;
    m->last = (int16_t)mds_max(m->last, step);
}

static void use_all(struct mds_step_list *p, const struct mds_step *s, int step)
{
    for (int k = 0; k < MDS_STEP_OPERANDS; k++)
        use(p, mds_step_operand(s, k), step);
}

static void use_sent(struct mds_step_list *p, const struct mds_step *s, int step)
{
    for (int k = 0; k < MDS_STEP_OPERANDS; k++)
        if (mds_step_sends(s, k))
            use(p, mds_step_operand(s, k), step);
}

static int waits_for(const struct mds_step *s, int message)
{
    return s->waits >> message & 1 || s->awaits == message;
}

/* A message uses its tensors until it is waited for. */
static void use_messages(struct mds_step_list *p)
{
    for (int i = 0; i < p->steps; i++)
        for (int n = i + 1; n < p->steps && p->step[i].message >= 0; n++)
            if (waits_for(&p->step[n], p->step[i].message))
                use_sent(p, &p->step[i], n);
}

static void from_start_to_end(struct mds_step_list *p)
{
    int backward = p->d >= 0;

    for (mds_tid t = 0; t < p->tensors; t++) {
        struct mds_tensor *x = &p->tensor[t];

        if (x->memory != t || x->first < 0 || x->home != MDS_HOME_SAVED)
            continue;
        if (backward)
            x->first = 0;
        else
            x->last = (int16_t)(p->steps - 1);
    }
    use(p, p->x0, 0);
    use(p, p->branch, 0);
    use(p, p->y, p->steps - 1);
    use(p, p->y_branch, p->steps - 1);
}

static void find_lives(struct mds_step_list *p)
{
    for (mds_tid t = 0; t < p->tensors; t++)
        p->tensor[t].first = p->tensor[t].last = -1;
    for (int i = 0; i < p->steps; i++)
        use_all(p, &p->step[i], i);
    use_messages(p);
    from_start_to_end(p);
}

/* ---- in place ---- */

/* The first and last step of the loop over groups of heads that step i is in; if it is
 * in none, before and behind all. */
static int heads_start(const struct mds_step_list *p, int i)
{
    if (p->groups == 1 || !p->step[i].of_heads)
        return INT_MIN;
    while (i > 0 && p->step[i - 1].of_heads)
        i--;
    return i;
}

static int heads_end(const struct mds_step_list *p, int i)
{
    if (p->groups == 1 || !p->step[i].of_heads)
        return INT_MAX;
    while (i + 1 < p->steps && p->step[i + 1].of_heads)
        i++;
    return i;
}

static int may_take(const struct mds_step_list *p, int i, mds_tid t, mds_tid over)
{
    const struct mds_tensor *m, *x = &p->tensor[t];

    if (over < 0)
        return 0;
    m = &p->tensor[p->tensor[over].memory];
    if (m->first < heads_start(p, i) || x->last > heads_end(p, i))
        return 0;
    if (m->last > i || m->of_tile != x->of_tile ||
        mds_tensor_space(p, p->tensor[over].memory) != mds_tensor_space(p, t))
        return 0;
    return x->home == MDS_HOME_WORK &&
           (m->home == MDS_HOME_WORK || (m->home == MDS_HOME_SAVED && p->d >= 0));
}

/* The operands whose place output k may take. */
static void candidates(const struct mds_step *s, int k, mds_tid over[2])
{
    int in_place = mds_step_info(s->op)->in_place;

    over[0] = over[1] = -1;
    if (s->op == MDS_STEP_NORM && k == 2) {
        over[0] = s->in[0];
        over[1] = s->in[1];
    } else if (k == 0 && in_place >= 0) {
        over[0] = s->in[in_place];
        if (s->op == MDS_STEP_ADD || s->op == MDS_STEP_ACTIVATE_BWD)
            over[1] = s->in[1 - in_place];
    }
}

static void take_place(struct mds_step_list *p, mds_tid t, mds_tid over)
{
    mds_tid m = p->tensor[over].memory;

    p->tensor[m].last = p->tensor[t].last;
    for (mds_tid o = 0; o < p->tensors; o++)
        if (p->tensor[o].memory == t)
            p->tensor[o].memory = m;
}

static void take_places(struct mds_step_list *p)
{
    for (int i = 0; i < p->steps; i++)
        for (int k = 0; k < MDS_STEP_OUT; k++) {
            mds_tid t = p->step[i].out[k], over[2];

            if (t < 0 || p->tensor[t].memory != t || p->tensor[t].first != i)
                continue;
            candidates(&p->step[i], k, over);
            if (may_take(p, i, t, over[0]))
                take_place(p, t, over[0]);
            else if (may_take(p, i, t, over[1]))
                take_place(p, t, over[1]);
        }
}

/* ---- loops ---- */

static int loop_starts(const struct mds_step_list *p, int i)
{
    int loop = p->step[i].loop;

    while (loop && i > 0 && p->step[i - 1].loop == loop)
        i--;
    return i;
}

static int loop_ends(const struct mds_step_list *p, int i)
{
    int loop = p->step[i].loop;

    while (loop && i + 1 < p->steps && p->step[i + 1].loop == loop)
        i++;
    return i;
}

static void widen_to_loops(struct mds_step_list *p)
{
    for (mds_tid t = 0; t < p->tensors; t++) {
        struct mds_tensor *x = &p->tensor[t];

        if (x->memory != t || x->first < 0 || x->of_tile)
            continue;
        x->first = (int16_t)loop_starts(p, x->first);
        x->last = (int16_t)loop_ends(p, x->last);
        if (x->last > heads_end(p, x->first))
            x->first = (int16_t)heads_start(p, x->first);
        if (x->first < heads_start(p, x->last))
            x->last = (int16_t)heads_end(p, x->last);
    }
}

/* ---- where ---- */

static int is_placed(const struct mds_tensor *x, mds_tid t)
{
    return x->memory == t && x->first >= 0 && x->home != MDS_HOME_ARG;
}

static void place_saved(struct mds_step_list *p)
{
    p->kept_bytes = 0;
    for (mds_tid t = 0; t < p->tensors; t++) {
        struct mds_tensor *x = &p->tensor[t];

        if (x->memory != t || x->home != MDS_HOME_SAVED)
            continue;
        x->at = p->kept_bytes;
        p->kept_bytes += mds_tensor_space(p, t);
    }
    p->saved_bytes = mds_max(p->saved_bytes, p->kept_bytes);
}

/* What one block leaves is where the next expects it: the branch, and the rest of the
 * stream unless the block saves it. */
static void pin(struct mds_step_list *p)
{
    if (p->branch < 0)
        return;
    mds_tensor_memory(p, p->branch)->at = p->saved_bytes;
    mds_tensor_memory(p, p->y_branch)->at = p->saved_bytes;
    p->pinned_bytes = mds_tensor_space(p, p->branch);
    if (p->tensor[p->x0].home == MDS_HOME_ARG)
        return;
    mds_tensor_memory(p, p->x0)->at = p->saved_bytes + p->pinned_bytes;
    mds_tensor_memory(p, p->y)->at = p->saved_bytes + p->pinned_bytes;
    p->pinned_bytes += mds_tensor_space(p, p->x0);
}

static int is_pinned(const struct mds_step_list *p, mds_tid t)
{
    return p->branch >= 0 &&
           (mds_tensor_shares(p, t, p->branch) ||
            mds_tensor_shares(p, t, p->y_branch) || mds_tensor_shares(p, t, p->x0) ||
            mds_tensor_shares(p, t, p->y));
}

/* Where memory t would lie beyond what it meets at `at`; `at` if it meets nothing. */
static int64_t beyond(const struct mds_step_list *p, mds_tid t, int64_t at)
{
    const struct mds_tensor *x = &p->tensor[t];
    int64_t end = at + mds_tensor_space(p, t);

    if (at < p->saved_bytes && end > p->saved_bytes)
        return p->saved_bytes; /* the two are apart */
    for (mds_tid o = 0; o < p->tensors; o++) {
        const struct mds_tensor *y = &p->tensor[o];
        int64_t y_end = y->at + mds_tensor_space(p, o);
        int set = y->home == MDS_HOME_SAVED || is_pinned(p, o) || y->first < x->first ||
                  (y->first == x->first && o < t);

        if (o == t || !set || !is_placed(y, o) || y->last < x->first ||
            y->first > x->last)
            continue;
        if (at < y_end && y->at < end)
            return y_end;
    }
    return at;
}

static void place_work(struct mds_step_list *p)
{
    for (int i = 0; i < p->steps; i++)
        for (mds_tid t = 0; t < p->tensors; t++) {
            struct mds_tensor *x = &p->tensor[t];
            int64_t at = 0, next;

            if (!is_placed(x, t) || x->home == MDS_HOME_SAVED || x->first != i ||
                is_pinned(p, t))
                continue;
            while ((next = beyond(p, t, at)) != at)
                at = next;
            x->at = at;
        }
}

static void find_tops(struct mds_step_list *p)
{
    for (int i = 0; i < p->steps; i++) {
        struct mds_step *s = &p->step[i];

        for (mds_tid t = 0; t < p->tensors; t++) {
            const struct mds_tensor *x = &p->tensor[t];

            if (is_placed(x, t) && x->first <= i && x->last >= i)
                s->top =
                    mds_max(s->top, x->at + mds_tensor_space(p, t) - p->saved_bytes);
        }
        p->work_bytes = mds_max(p->work_bytes, s->top);
    }
}

void mds_block_place(struct mds_step_list *p)
{
    find_lives(p);
    take_places(p);
    widen_to_loops(p);
    place_saved(p);
    pin(p);
    place_work(p);
    find_tops(p);
}
