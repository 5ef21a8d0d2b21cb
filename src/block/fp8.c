/* SPDX-License-Identifier: BSD-3-Clause */
/* Linear layers in FP8.  Forward and backward are there already, in the joint list.
 *
 * A layer's forward casts its input itself.  The gradient of its result is cast once,
 * by a step of its own, for both GEMMs of backward.  What only the weight's gradient
 * reads is saved as the codes that it reads: the forward's cast writes them. */
#include "block/build.h"
#include "block/passes.h"

#include <stddef.h>

/* The step of the weight's gradient that reads t, if nothing else in backward does;
 * else NULL. */
static struct mds_step *only_reader(struct mds_step_list *p, mds_tid t)
{
    struct mds_step *reader = NULL;

    for (int i = p->forward; i < p->steps; i++)
        for (int k = 0; k < MDS_STEP_IN; k++) {
            if (p->step[i].in[k] != t)
                continue;
            if (reader || p->step[i].op != MDS_STEP_LINEAR_BWD_W)
                return NULL;
            reader = &p->step[i];
        }
    return reader;
}

static mds_tid codes_of(struct mds_step_list *p, mds_tid t, int64_t bytes, int part)
{
    mds_tid codes = mds_add_tensor(p, "", MDS_ROWS_ONE, MDS_ELEM_BYTE, bytes, part);

    mds_name_after(p, codes, "", t, ".8");
    p->tensor[codes].is_gradient = p->tensor[t].is_gradient;
    return codes;
}

/* Rows that are cast at once. */
static int64_t rows_of(const struct mds_step_list *p, enum mds_rows rows)
{
    return (mds_list_is_tiled(p) ? p->tile : p->rows)[rows];
}

/* Whether backward runs the step again for its result, and so needs its input. */
static int runs_again(const struct mds_step_list *p, const struct mds_step *s,
                      unsigned keep)
{
    int part = p->tensor[s->out[0]].part;

    return part > 0 && !(keep >> part & 1);
}

/* The input of linear layer i: its codes, if they are saved; activated by the casts
 * that read it.  The stream is saved as it is: blocks in FP8 and in bf16 hand it to
 * each other. */
static void cast_input(struct mds_step_list *p, int i, unsigned keep,
                       const struct mds_block_fp8 *fp8)
{
    struct mds_step *s = &p->step[i];
    mds_tid t = s->in[0];
    const struct mds_tensor x = p->tensor[t];
    struct mds_step *w = only_reader(p, t);
    int from = mds_step_that_makes(p, t);

    if (from >= 0 && p->step[from].op == MDS_STEP_ACTIVATE && w) {
        s->in[0] = w->in[0] = p->step[from].in[0];
        s->activated = w->activated = 1;
    }
    if (fp8->codes && w && from >= 0 && p->step[from].op != MDS_STEP_ADD &&
        keep >> x.part & 1 && !runs_again(p, s, keep))
        s->out[2] = w->in[0] =
            codes_of(p, t, fp8->codes_bytes(rows_of(p, x.rows), x.cols), x.part);
    if (s->activated) {
        mds_remove_step(p, from);
        p->forward--;
    }
}

/* Cast the gradient dy before the first step of its layer that reads codes. */
static void cast_gradient(struct mds_step_list *p, int i,
                          const struct mds_block_fp8 *fp8)
{
    int layer = p->step[i].layer;
    mds_tid dy = p->step[i].in[p->step[i].op == MDS_STEP_LINEAR_BWD_W];
    const struct mds_tensor y = p->tensor[dy];
    struct mds_step cast = mds_step_of(MDS_STEP_CAST, layer);

    cast.of_heads = p->step[i].of_heads;
    cast.in[0] = dy;
    cast.out[0] =
        codes_of(p, dy, fp8->gradient_bytes(rows_of(p, y.rows), y.cols, fp8->wgrad), 0);
    for (int n = i; n < p->steps; n++) {
        struct mds_step *s = &p->step[n];

        if (s->layer == layer && s->op == MDS_STEP_LINEAR_BWD_X)
            s->in[0] = cast.out[0];
        if (s->layer == layer && s->op == MDS_STEP_LINEAR_BWD_W && fp8->wgrad)
            s->in[1] = cast.out[0];
    }
    mds_insert_step(p, i, &cast);
}

void mds_block_fp8(struct mds_step_list *p, unsigned keep,
                   const struct mds_block_fp8 *fp8)
{
    unsigned done = 0; /* bits: layers */

    for (int i = 0; i < p->forward && fp8->wgrad; i++)
        if (p->step[i].op == MDS_STEP_LINEAR)
            cast_input(p, i, keep, fp8);
    for (int i = p->forward; i < p->steps; i++) {
        const struct mds_step *s = &p->step[i];

        if (s->op != MDS_STEP_LINEAR_BWD_X &&
            (s->op != MDS_STEP_LINEAR_BWD_W || !fp8->wgrad))
            continue;
        if (done >> s->layer & 1)
            continue;
        done |= 1u << s->layer;
        cast_gradient(p, i++, fp8);
    }
}

void mds_block_magnitudes(struct mds_step_list *p)
{
    for (int i = 0; i < p->steps; i++) {
        struct mds_step *s = &p->step[i];
        int from = mds_step_that_makes(p, s->in[0]);
        int op = from >= 0 ? p->step[from].op : MDS_STEP_OPS;

        s->amax = (s->op == MDS_STEP_LINEAR && op == MDS_STEP_NORM) ||
                  (s->op == MDS_STEP_CAST && op == MDS_STEP_ACTIVATE_BWD);
    }
}
