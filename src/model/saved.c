/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/saved.h"

#include <string.h>

/* ---- what is saved, and where ---- */

enum keep {
    KEEP = 1,  /* on the device unless the others say otherwise */
    SHARD = 2, /* a part on each tensor rank */
    HOST = 4,
};

struct policy {
    int keep[SAVED_TENSORS];
};

static int shards_inputs(const struct context *c)
{
    return c->run->train->act.partition_activations && !c->g->sequence_parallel &&
           mds_groups_size(c->g->groups, MDS_AXIS_TENSOR) > 1;
}

/* Nothing is recomputed but what modules name, and with tiles the MLP's inside. */
static struct policy policy_none(const struct mds_train_config *t)
{
    int again =
        t->act.recompute == MDS_RECOMPUTE_SELECTIVE ? t->act.recompute_modules : 0;
    struct policy p;

    for (int i = 0; i < SAVED_TENSORS; i++)
        p.keep[i] = KEEP;
    if (again & MDS_MODULE_LAYERNORM)
        p.keep[SAVED_N1] = p.keep[SAVED_N2] = 0;
    if (t->act.mlp_tile > 0)
        p.keep[SAVED_U] = p.keep[SAVED_G] = 0;
    if (again & MDS_MODULE_MLP_ACT)
        p.keep[SAVED_G] = 0;
    return p;
}

/* Of block l of any piece. */
static struct policy policy_of(const struct context *c, int l)
{
    const struct mds_train_config *t = c->run->train;
    int selective = t->act.recompute == MDS_RECOMPUTE_SELECTIVE;
    int from_end = c->g->most_layers - l;
    int where =
        t->act.offload_activations && from_end > t->act.device_inputs ? HOST : 0;
    struct policy p = {{0}};

    if (mds_recompute_of(&t->act) == MDS_RECOMPUTE_NONE)
        return policy_none(t);
    if (!selective && l % t->act.recompute_layers)
        return p;
    p.keep[SAVED_X] = KEEP | where | (shards_inputs(c) ? SHARD : 0);
    if (selective || from_end <= t->act.keep_attention) {
        p.keep[SAVED_LSE] = KEEP | (selective ? where : 0);
        p.keep[SAVED_O] = p.keep[SAVED_LSE] | (t->act.attention_chunk > 0 ? HOST : 0);
    }
    return p;
}

/* ---- sizes ---- */

static int is_f32(enum saved_tensor t)
{
    return t == SAVED_LSE || t == SAVED_MEAN1 || t == SAVED_RSTD1 || t == SAVED_MEAN2 ||
           t == SAVED_RSTD2;
}

int64_t mds_saved_elements(const struct context *c, enum saved_tensor t)
{
    const struct mds_model_config *m = &c->g->cfg;
    int tp = mds_groups_size(c->g->groups, MDS_AXIS_TENSOR);
    int64_t R = mds_par_rows(&c->par), Rs = mds_par_slice_rows(&c->par);
    int64_t A = m->heads / tp, G = m->kv_heads / tp, F = m->ffn_hidden / tp;

    switch (t) {
    case SAVED_X:
    case SAVED_X1:
    case SAVED_N1:
    case SAVED_N2:
        return Rs * m->hidden;
    case SAVED_MEAN1:
    case SAVED_RSTD1:
    case SAVED_MEAN2:
    case SAVED_RSTD2:
        return Rs;
    case SAVED_QKV:
        return R * (A + 2 * G) * m->head_dim;
    case SAVED_O:
        return R * A * m->head_dim;
    case SAVED_LSE:
        return R * A;
    case SAVED_U:
        return mdsk_activation_inputs(m->activation, R, F);
    case SAVED_G:
        return R * F;
    case SAVED_TENSORS:
        break;
    }
    return 0;
}

static int64_t bytes_of(const struct context *c, enum saved_tensor t)
{
    return mds_saved_elements(c, t) * (is_f32(t)
                                           ? (int64_t)sizeof(float)
                                           : (int64_t)mdsk_dtype_size(c->par.dtype));
}

/* Of an input, what is kept here. */
static int64_t x_bytes(const struct context *c)
{
    int64_t n = bytes_of(c, SAVED_X);

    return shards_inputs(c) ? n / mds_groups_size(c->g->groups, MDS_AXIS_TENSOR) : n;
}

/* ---- memory ---- */

static enum mds_rc take(const struct context *c, int keep, enum saved_tensor t,
                        enum mds_mem_tag tag, struct saved *s)
{
    int64_t bytes = t == SAVED_X && keep & SHARD ? x_bytes(c) : bytes_of(c, t);

    if (!keep)
        return MDS_OK;
    return mds_arena_take(keep & HOST ? c->run->host : c->run->arena, tag, bytes,
                          keep & (HOST | SHARD) ? &s->away[t] : &s->at[t]);
}

static enum mds_rc take_block(const struct context *c, const struct policy *p,
                              enum mds_mem_tag tag, struct saved *s)
{
    int64_t used = c->run->arena->used;

    memset(s, 0, sizeof *s);
    s->x_on_host = (p->keep[SAVED_X] & HOST) != 0;
    for (int t = 0; t < SAVED_TENSORS; t++) {
        if (t == SAVED_N1)
            s->bytes = c->run->arena->used - used;
        MDS_TRY(take(c, p->keep[t], t, tag, s));
    }
    return MDS_OK;
}

enum mds_rc mds_saved_take_block(const struct context *c, int parts, struct saved *s)
{
    struct policy p = {{0}};

    if (parts & SAVED_REST)
        p = policy_none(c->run->train);
    p.keep[SAVED_X] = parts & SAVED_INPUT ? KEEP : 0;
    return take_block(c, &p, MDS_MEM_ACT, s);
}

/* Where nothing is recomputed block l has a slot, and the one that has it next ends its
 * stay on the device. */
static enum mds_rc take_slot(const struct context *c, const struct policy *p,
                             struct saved_set *set, int l)
{
    int before = l - mds_saved_slots(c);

    if (before < 0)
        return take_block(c, p, MDS_MEM_ACT, &set->block[l]);
    set->block[l] = set->block[before];
    set->block[l].host = NULL;
    return mds_arena_take(c->run->host, MDS_MEM_ACT, set->block[l].bytes,
                          &set->block[before].host);
}

enum mds_rc mds_saved_take_set(const struct context *c, struct saved_set *set)
{
    int none = mds_recompute_of(&c->run->train->act) == MDS_RECOMPUTE_NONE;
    const struct mds_gpt *g = c->g;

    for (int l = 0; l < g->most_layers; l++) {
        struct policy p = policy_of(c, l);

        MDS_TRY(none ? take_slot(c, &p, set, l)
                     : take_block(c, &p, MDS_MEM_CKPT, &set->block[l]));
    }
    if (!g->piece[g->n_pieces - 1].is.is_last)
        return MDS_OK;
    return mds_par_take(&c->par, MDS_MEM_ACT, mds_gpt_stream_size(c), &set->d);
}

/* ---- inputs and attention's results that are away ---- */

/* This rank's part of a whole input. */
static void *shard_of(const struct context *c, const void *x)
{
    int part = shards_inputs(c) ? mds_groups_place(c->g->groups, MDS_AXIS_TENSOR) : 0;

    return (char *)x + part * x_bytes(c);
}

enum mds_rc mds_saved_put_x(const struct context *c, const struct saved *s,
                            const void *x, struct mds_dev_copying *copy)
{
    int64_t bytes = x_bytes(c), n = bytes / (int64_t)mdsk_dtype_size(c->par.dtype);

    *copy = (struct mds_dev_copying){0};
    if (!s->away[SAVED_X])
        return MDS_OK;
    if (!s->x_on_host)
        return mds_par_copy_rows(&c->par, 1, n, shard_of(c, x), n, s->away[SAVED_X], n);
    *copy = mds_dev_save_start(c->par.dev, s->away[SAVED_X], shard_of(c, x), bytes);
    return MDS_OK;
}

struct mds_dev_copying mds_saved_get_x(const struct context *c, const struct saved *s,
                                       void *x)
{
    if (!s->x_on_host)
        return (struct mds_dev_copying){0};
    return mds_dev_restore_start(c->par.dev, shard_of(c, x), s->away[SAVED_X],
                                 x_bytes(c));
}

enum mds_rc mds_saved_finish_x(const struct context *c, const struct saved *s,
                               struct mds_dev_copying copy, void *x)
{
    const void *mine = s->x_on_host ? shard_of(c, x) : s->away[SAVED_X];

    mds_dev_meet(c->par.dev, copy);
    if (!s->away[SAVED_X] || !shards_inputs(c))
        return MDS_OK;
    return mds_comm_all_gather(mds_group(c->g->groups, MDS_AXIS_TENSOR), mine, x,
                               x_bytes(c));
}

struct mds_dev_copying mds_saved_put_o(const struct context *c, const struct saved *s,
                                       const void *o, const float *lse)
{
    struct mds_dev_copying copy = {0};

    if (s->away[SAVED_LSE])
        copy = mds_dev_save_start(c->par.dev, s->away[SAVED_LSE], lse,
                                  bytes_of(c, SAVED_LSE));
    if (s->away[SAVED_LSE] && o)
        copy =
            mds_dev_save_start(c->par.dev, s->away[SAVED_O], o, bytes_of(c, SAVED_O));
    return copy;
}

struct mds_dev_copying mds_saved_get_o(const struct context *c, const struct saved *s,
                                       void *o, float *lse)
{
    struct mds_dev_copying copy = {0};

    if (s->away[SAVED_LSE])
        copy = mds_dev_restore_start(c->par.dev, lse, s->away[SAVED_LSE],
                                     bytes_of(c, SAVED_LSE));
    if (s->away[SAVED_LSE] && o)
        copy = mds_dev_restore_start(c->par.dev, o, s->away[SAVED_O],
                                     bytes_of(c, SAVED_O));
    return copy;
}

/* ---- blocks that are on the host from forward to backward ---- */

int mds_saved_slots(const struct context *c)
{
    return c->g->most_layers -
           (c->run->training ? (int)c->run->train->act.offload_layers : 0);
}

/* NULL: block l stays, or there is none. */
static struct saved *offloaded(const struct context *c, const struct piece *p,
                               const struct saved_set *set, int l)
{
    return l >= 0 && l + mds_saved_slots(c) < p->is.layers ? &set->block[l] : NULL;
}

void mds_saved_offload(const struct context *c, const struct piece *p,
                       struct saved_set *set, int l)
{
    struct saved *s = offloaded(c, p, set, l);

    if (s)
        s->copy = mds_dev_save_start(c->par.dev, s->host, s->at[SAVED_X], s->bytes);
}

void mds_saved_reload(const struct context *c, const struct piece *p,
                      struct saved_set *set, int l)
{
    struct saved *s = offloaded(c, p, set, l);

    if (s)
        s->copy = mds_dev_restore_start(c->par.dev, s->at[SAVED_X], s->host, s->bytes);
}

int mds_saved_wait(const struct context *c, const struct piece *p,
                   const struct saved_set *set, int l)
{
    const struct saved *s = offloaded(c, p, set, l);

    if (s)
        mds_dev_meet(c->par.dev, s->copy);
    return s != NULL;
}
