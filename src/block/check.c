/* SPDX-License-Identifier: BSD-3-Clause */
/* The verifier: run after every pass, on every list that a run uses. */
#include "block/build.h"
#include "block/passes.h"

static const char *step_name(const struct mds_step_list *p, int i)
{
    return mds_step_info(p->step[i].op)->name;
}

/* Whether t is there before the first step. */
static int is_given(const struct mds_step_list *p, mds_tid t)
{
    int is_forward = p->forward > 0 || p->d < 0;

    if (t == p->x0 || t == p->branch || t == p->d)
        return 1;
    if (t == p->x && p->x0 < 0)
        return 1;
    return !is_forward &&
           (p->tensor[t].home == MDS_HOME_SAVED ||
            (mds_tensor_arg(p, t) >= MDS_ARG_O && mds_tensor_arg(p, t) < MDS_ARGS));
}

static int writes(const struct mds_step *s, mds_tid t)
{
    for (int k = 0; k < MDS_STEP_OUT; k++)
        if (s->out[k] == t)
            return 1;
    return 0;
}

static int overwrites(const struct mds_step_list *p, const struct mds_step *s,
                      mds_tid t)
{
    int arg = mds_tensor_arg(p, t);

    for (int k = 0; k < MDS_STEP_OUT; k++)
        if (mds_tensor_shares(p, s->out[k], t) ||
            (arg == MDS_ARG_X && s->out[k] >= 0 &&
             mds_tensor_arg(p, s->out[k]) == MDS_ARG_Y))
            return 1;
    if (s->op != MDS_STEP_PREFETCH)
        return 0;
    return s->site == MDS_SITE_O ? arg == MDS_ARG_O || arg == MDS_ARG_LSE
                                 : arg == MDS_ARG_NEXT;
}

/* An operand of step i: made, and not overwritten since. */
static enum mds_rc check_operand(const struct mds_step_list *p, const char *what, int i,
                                 mds_tid t)
{
    int made = is_given(p, t), over = -1;

    for (int n = 0; n < i; n++) {
        if (writes(&p->step[n], t)) {
            made = 1;
            over = -1;
        } else if (made && overwrites(p, &p->step[n], t)) {
            over = n;
        }
    }
    if (!made)
        return mds_fail(MDS_EBUG, "%s: step %d, %s, reads %s, which nothing made", what,
                        i, step_name(p, i), p->tensor[t].name);
    if (over >= 0)
        return mds_fail(MDS_EBUG,
                        "%s: step %d, %s, reads %s, which step %d, %s, has "
                        "overwritten",
                        what, i, step_name(p, i), p->tensor[t].name, over,
                        step_name(p, over));
    return MDS_OK;
}

/* Whether a step can find its rows of a tile in tensors with all rows; of the slice's
 * rows all can. */
static int finds_rows(const struct mds_step_list *p, const struct mds_step *s,
                      mds_tid t)
{
    const struct mds_tensor *x = &p->tensor[t];

    if (x->of_tile || x->rows == MDS_ROWS_SLICE || x->rows == MDS_ROWS_ONE)
        return 1;
    switch (s->op) {
    case MDS_STEP_LINEAR:
    case MDS_STEP_LINEAR_BWD_X:
    case MDS_STEP_LINEAR_BWD_W:
    case MDS_STEP_CAST:
    case MDS_STEP_HEAD_NORMS:
    case MDS_STEP_HEAD_NORMS_BWD:
    case MDS_STEP_ROPE:
    case MDS_STEP_ROPE_BWD:
        return 1;
    case MDS_STEP_TO_HEADS:
    case MDS_STEP_TO_TOKENS:
        return x->rows == MDS_ROWS_HEADS;
    default:
        return 0;
    }
}

/* What has the rows of a tile is used in one loop. */
static enum mds_rc check_tiles(const struct mds_step_list *p, const char *what, int i)
{
    const struct mds_step *s = &p->step[i];

    for (int k = 0; k < MDS_STEP_OPERANDS && s->loop; k++) {
        mds_tid t = mds_step_operand(s, k);

        if (t >= 0 && !finds_rows(p, s, t))
            return mds_fail(MDS_EBUG, "%s: step %d, %s, has all rows of %s in a tile",
                            what, i, step_name(p, i), p->tensor[t].name);
    }
    for (int k = 0; k < MDS_STEP_IN; k++) {
        int from = s->in[k] >= 0 && p->tensor[s->in[k]].of_tile
                       ? mds_step_that_makes(p, s->in[k])
                       : -1;

        if (from >= 0 && p->step[from].loop != s->loop)
            return mds_fail(MDS_EBUG, "%s: step %d, %s, reads a tile of %s, of step %d",
                            what, i, step_name(p, i), p->tensor[s->in[k]].name, from);
    }
    return MDS_OK;
}

static enum mds_rc check_step(const struct mds_step_list *p, const char *what, int i)
{
    const struct mds_step *s = &p->step[i];

    for (int k = 0; k < MDS_STEP_IN; k++)
        if (s->in[k] >= 0)
            MDS_TRY(check_operand(p, what, i, s->in[k]));
    MDS_TRY(check_tiles(p, what, i));
    if (s->op != MDS_STEP_NORM && s->out[0] < 0 && (s->out[1] >= 0 || s->out[2] >= 0))
        return mds_fail(MDS_EBUG, "%s: step %d, %s, has lost its result", what, i,
                        step_name(p, i));
    return MDS_OK;
}

/* What the list leaves behind is there at its end. */
static enum mds_rc check_results(const struct mds_step_list *p, const char *what)
{
    const mds_tid left[] = {p->y, p->y_branch};

    for (int i = 0; i < 2 && p->forward == 0; i++)
        if (left[i] >= 0)
            MDS_TRY(check_operand(p, what, p->steps, left[i]));
    return MDS_OK;
}

/* ---- after place ---- */

static int has_place(const struct mds_step_list *p, mds_tid t)
{
    const struct mds_tensor *x = &p->tensor[t];

    return x->memory == t && x->first >= 0 && x->home != MDS_HOME_ARG;
}

static int meet(const struct mds_step_list *p, mds_tid a, mds_tid b)
{
    const struct mds_tensor *x = &p->tensor[a], *y = &p->tensor[b];

    return x->first <= y->last && y->first <= x->last &&
           x->at < y->at + mds_tensor_space(p, b) &&
           y->at < x->at + mds_tensor_space(p, a);
}

static enum mds_rc check_places(const struct mds_step_list *p, const char *what)
{
    for (mds_tid a = 0; a < p->tensors; a++)
        for (mds_tid b = 0; b < a; b++)
            if (has_place(p, a) && has_place(p, b) && meet(p, a, b))
                return mds_fail(MDS_EBUG, "%s: %s and %s are in one place", what,
                                p->tensor[a].name, p->tensor[b].name);
    return MDS_OK;
}

enum mds_rc mds_block_check(const struct mds_step_list *p, const char *what)
{
    if (p->overflow)
        return mds_fail(MDS_EBUG,
                        "%s: %d tensors and %d steps are too many, or a step "
                        "has no rule",
                        what, p->tensors, p->steps);
    for (int i = 0; i < p->steps; i++)
        MDS_TRY(check_step(p, what, i));
    MDS_TRY(check_results(p, what));
    return check_places(p, what);
}
