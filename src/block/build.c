/* SPDX-License-Identifier: BSD-3-Clause */
#include "block/build.h"
#include "base/minmax.h"

#include <stdio.h>
#include <string.h>

static const struct mds_step_info infos[] = {
#define MDS_INFO(NAME, name, in_place, must) {name, in_place, must},
    MDS_STEPS(MDS_INFO)
#undef MDS_INFO
};

const struct mds_step_info *mds_step_info(enum mds_step_op op)
{
    return &infos[op];
}

/* Attention sees whole sequences; the rest is about the block, or about weights. */
int mds_step_is_by_rows(enum mds_step_op op)
{
    switch (op) {
    case MDS_STEP_ATTEND:
    case MDS_STEP_ATTEND_BWD:
    case MDS_STEP_OPEN_HEADS:
    case MDS_STEP_CLOSE_HEADS:
    case MDS_STEP_PUT:
    case MDS_STEP_PUT_O:
    case MDS_STEP_PREFETCH:
    case MDS_STEP_ACQUIRE:
    case MDS_STEP_GRAD_BEGIN:
    case MDS_STEP_SUM_NORMS:
    case MDS_STEP_GRAD_READY:
    case MDS_STEP_RELEASE:
        return 0;
    default:
        return 1;
    }
}

int mds_step_is_linear(enum mds_step_op op)
{
    return op == MDS_STEP_LINEAR || op == MDS_STEP_LINEAR_BWD_X ||
           op == MDS_STEP_LINEAR_BWD_W;
}

int mds_step_sends(const struct mds_step *s, int k)
{
    int out = k - MDS_STEP_IN;

    return !mds_step_is_linear(s->op) || out == 0 || out >= MDS_OUT_SUM;
}

/* ---- tensors ---- */

int64_t mds_tensor_row_bytes(const struct mds_step_list *p, mds_tid t)
{
    const struct mds_tensor *x = &p->tensor[t];

    return x->cols * (x->elem == MDS_ELEM_ACT    ? p->act_bytes
                      : x->elem == MDS_ELEM_BYTE ? 1
                                                 : (int64_t)sizeof(float));
}

int64_t mds_tensor_bytes(const struct mds_step_list *p, mds_tid t)
{
    const struct mds_tensor *x = &p->tensor[t];

    return (x->of_tile ? p->tile : p->rows)[x->rows] * mds_tensor_row_bytes(p, t);
}

int64_t mds_tensor_space(const struct mds_step_list *p, mds_tid t)
{
    return mds_round_up(mds_tensor_bytes(p, t), MDS_BLOCK_ALIGN);
}

void mds_step_list_init(struct mds_step_list *p, const int64_t rows[MDS_ROWS_KINDS],
                        const int64_t tile[MDS_ROWS_KINDS], int act_bytes)
{
    memset(p, 0, sizeof *p);
    memcpy(p->rows, rows, sizeof p->rows);
    memcpy(p->tile, tile, sizeof p->tile);
    p->act_bytes = act_bytes;
    p->groups = 1;
    p->x = p->x0 = p->branch = p->y = p->y_branch = p->d = -1;
}

mds_tid mds_add_tensor(struct mds_step_list *p, const char *name, enum mds_rows rows,
                       enum mds_elem elem, int64_t cols, int part)
{
    mds_tid t = (mds_tid)p->tensors;
    struct mds_tensor *x = &p->tensor[t];

    if (p->tensors + 1 < MDS_LIST_TENSORS)
        p->tensors++;
    else
        p->overflow = 1;
    *x = (struct mds_tensor){.rows = (uint8_t)rows,
                             .elem = (uint8_t)elem,
                             .part = (uint8_t)part,
                             .memory = t,
                             .first = -1,
                             .last = -1,
                             .cols = cols};
    snprintf(x->name, sizeof x->name, "%s", name);
    return t;
}

mds_tid mds_add_like(struct mds_step_list *p, const char *name, mds_tid t, int shares)
{
    const struct mds_tensor x = p->tensor[t];
    mds_tid like = mds_add_tensor(p, name, x.rows, x.elem, x.cols, 0);

    if (shares)
        p->tensor[like].memory = x.memory;
    return like;
}

void mds_name_after(struct mds_step_list *p, mds_tid t, const char *prefix, mds_tid of,
                    const char *suffix)
{
    char name[sizeof p->tensor[t].name];
    int room = (int)(sizeof name - 1 - strlen(prefix) - strlen(suffix));

    snprintf(name, sizeof name, "%s%.*s%s", prefix, room, p->tensor[of].name, suffix);
    memcpy(p->tensor[t].name, name, sizeof name);
}

/* ---- steps ---- */

struct mds_step mds_step_of(enum mds_step_op op, int layer)
{
    struct mds_step s = {
        .op = (uint8_t)op, .layer = (int8_t)layer, .message = -1, .awaits = -1};

    memset(s.in, 0xff, sizeof s.in);
    memset(s.out, 0xff, sizeof s.out);
    return s;
}

struct mds_step *mds_add_step(struct mds_step_list *p, enum mds_step_op op, int layer)
{
    struct mds_step *s = &p->step[p->steps];

    if (p->steps + 1 < MDS_LIST_STEPS)
        p->steps++;
    else
        p->overflow = 1;
    *s = mds_step_of(op, layer);
    return s;
}

int mds_step_that_makes(const struct mds_step_list *p, mds_tid t)
{
    for (int i = 0; i < p->steps; i++)
        for (int k = 0; k < MDS_STEP_OUT; k++)
            if (p->step[i].out[k] == t)
                return i;
    return -1;
}

void mds_insert_step(struct mds_step_list *p, int at, const struct mds_step *s)
{
    const struct mds_step copy = *s; /* s may be in the list */

    mds_add_step(p, copy.op, copy.layer);
    memmove(&p->step[at + 1], &p->step[at],
            (size_t)(p->steps - at - 1) * sizeof *p->step);
    p->step[at] = copy;
}

void mds_remove_step(struct mds_step_list *p, int at)
{
    p->steps--;
    memmove(&p->step[at], &p->step[at + 1], (size_t)(p->steps - at) * sizeof *p->step);
}

/* ---- declarations ---- */

mds_tid mds_norm(struct mds_step_list *p, int layer, const char *name, mds_tid x,
                 int part, int rest)
{
    const struct mds_tensor in = p->tensor[x];
    struct mds_step *s = mds_add_step(p, MDS_STEP_NORM, layer);
    char stats[sizeof in.name];

    snprintf(stats, sizeof stats, "st %.8s", name);
    s->in[0] = x;
    s->out[0] = mds_add_tensor(p, name, in.rows, MDS_ELEM_ACT, in.cols, part);
    s->out[1] = mds_add_tensor(p, stats, in.rows, MDS_ELEM_F32, 2, rest);
    return s->out[0];
}

mds_tid mds_linear(struct mds_step_list *p, int layer, const char *name,
                   enum mds_cut cut, int64_t cols, mds_tid x, int part)
{
    enum mds_rows rows = cut == MDS_CUT_COLUMNS ? MDS_ROWS_GEMM : MDS_ROWS_SLICE;
    struct mds_step *s = mds_add_step(p, MDS_STEP_LINEAR, layer);

    s->cut = (uint8_t)cut;
    s->in[0] = x;
    s->out[0] = mds_add_tensor(p, name, rows, MDS_ELEM_ACT, cols, part);
    return s->out[0];
}

mds_tid mds_unary(struct mds_step_list *p, enum mds_step_op op, const char *name,
                  mds_tid x, int64_t cols, int part)
{
    const struct mds_tensor in = p->tensor[x];
    struct mds_step *s = mds_add_step(p, op, -1);

    s->in[0] = x;
    s->out[0] = mds_add_tensor(p, name, in.rows, MDS_ELEM_ACT, cols, part);
    if (mds_step_info(op)->must)
        p->tensor[s->out[0]].memory = in.memory;
    return s->out[0];
}

mds_tid mds_dropout(struct mds_step_list *p, int site, mds_tid x)
{
    mds_tid y = mds_unary(p, MDS_STEP_DROPOUT, "dropped", x, p->tensor[x].cols, 0);

    p->step[p->steps - 1].site = (uint8_t)site;
    return y;
}

mds_tid mds_add(struct mds_step_list *p, const char *name, mds_tid x, mds_tid y,
                int part)
{
    struct mds_step *s = mds_add_step(p, MDS_STEP_ADD, -1);

    s->in[0] = x;
    s->in[1] = y;
    s->out[0] = mds_add_tensor(p, name, p->tensor[x].rows, MDS_ELEM_ACT,
                               p->tensor[x].cols, part);
    return s->out[0];
}
