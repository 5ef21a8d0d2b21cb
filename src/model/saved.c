/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/saved.h"

#include "model/modules.h"

#include <string.h>

/* ---- what is saved, and where ---- */

/* The part of the block that each tensor belongs to, whose policy it follows; codes
 * follow that of the tensor (save_codes). */
static const enum mds_act_part part_of[SAVED_TENSORS] = {
    [SAVED_X] = MDS_ACT_INPUT,      [SAVED_MEAN1] = MDS_ACT_REST,
    [SAVED_RSTD1] = MDS_ACT_REST,   [SAVED_QKV] = MDS_ACT_REST,
    [SAVED_QK] = MDS_ACT_REST,      [SAVED_QK_MEAN] = MDS_ACT_REST,
    [SAVED_QK_RSTD] = MDS_ACT_REST, [SAVED_O] = MDS_ACT_ATTENTION,
    [SAVED_LSE] = MDS_ACT_LSE,      [SAVED_X1] = MDS_ACT_REST,
    [SAVED_MEAN2] = MDS_ACT_REST,   [SAVED_RSTD2] = MDS_ACT_REST,
    [SAVED_U] = MDS_ACT_MLP_IN,     [SAVED_N1] = MDS_ACT_NORMS,
    [SAVED_N2] = MDS_ACT_NORMS,     [SAVED_G] = MDS_ACT_MLP_ACT,
};

/* Bits of enum mds_act_where, by tensor. */
struct keep {
    int of[SAVED_TENSORS];
};

static int shards_inputs(const struct context *c)
{
    return c->run->train->act.partition_activations && !c->g->sequence_parallel &&
           mds_groups_size(c->g->groups, MDS_AXIS_TENSOR) > 1;
}

/* The policy of each tensor.  Inputs are sharded only if all
 * tensor-parallel ranks have them whole. */
static struct keep policy_of(const struct context *c, const struct mds_act_policy *p)
{
    struct keep k = {{0}};

    for (int t = 0; t < SAVED_N1_CODES; t++)
        k.of[t] = p->of[part_of[t]];
    if (!shards_inputs(c))
        k.of[SAVED_X] &= ~MDS_ACT_SHARD;
    return k;
}

/* Whether blocks l, l + step, ... of all model chunks, which have the same memory,
 * compute weights' gradients in FP8. */
static int read_codes(const struct context *c, int l, int step)
{
    for (int k = 0; k < c->g->n_chunks; k++) {
        const struct model_chunk *p = &c->g->chunk[k];

        for (int i = l; i < p->is.layers; i += step)
            if (!p->block[i].mlp.up.fp8_wgrad)
                return 0;
    }
    return 1;
}

/* Of blocks l, l + step, ... that can read them: save codes where forward casts all
 * rows of a tensor at once and backward reads no more of it.  Nobody reads the
 * activation's result. */
static void save_codes(const struct context *c, int l, int step, struct keep *k)
{
    static const enum saved_tensor codes[] = {[SAVED_N1] = SAVED_N1_CODES,
                                              [SAVED_N2] = SAVED_N2_CODES,
                                              [SAVED_G] = SAVED_G_CODES};
    const struct mds_par *p = &c->par;
    int64_t R = mds_par_rows(p);
    int whole = mds_saved_slots(c) == c->g->max_layers &&
                c->run->train->act.mlp_tile == 0 && mds_tp_reduce_rows(p, 0) == R;
    /* with sequence parallelism norms' results are gathered again in backward */
    int first = mds_par_slice_rows(p) < R ? SAVED_G : SAVED_N1;

    if (!read_codes(c, l, step))
        return;
    for (int t = first; t <= SAVED_G && whole; t++) {
        k->of[codes[t]] = k->of[t];
        k->of[t] = 0;
    }
    k->of[SAVED_G] = 0;
}

/* Of block l of any model chunk. */
static struct keep layer_policy(const struct context *c, int l)
{
    struct mds_act_policy p = mds_act_policy(&c->run->train->act, c->g->max_layers, l);
    struct keep k = policy_of(c, &p);

    save_codes(c, l, mds_saved_slots(c), &k);
    return k;
}

int mds_saved_is_missing(const struct context *c, enum saved_tensor t)
{
    int away = t == SAVED_O && mds_gpt_is_chunked(c) ? 0 : MDS_ACT_SHARD | MDS_ACT_HOST;

    if (!c->run->training)
        return 1;
    for (int l = 0; l < c->g->max_layers; l++) {
        int keep = layer_policy(c, l).of[t];

        if (!keep || keep & away)
            return 1;
    }
    return 0;
}

int mds_saved_stashes_x(const struct context *c)
{
    for (int l = 0; l < c->g->max_layers; l++)
        if (layer_policy(c, l).of[SAVED_X] & (MDS_ACT_SHARD | MDS_ACT_HOST))
            return 1;
    return 0;
}

/* ---- sizes ---- */

static int is_f32_tensor(enum saved_tensor t)
{
    return t == SAVED_LSE || t == SAVED_MEAN1 || t == SAVED_RSTD1 || t == SAVED_MEAN2 ||
           t == SAVED_RSTD2 || t == SAVED_QK_MEAN || t == SAVED_QK_RSTD;
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
        return R * (A / c->head_groups + 2 * mds_gpt_kv_heads_inside(c)) * m->head_dim;
    case SAVED_QK:
        return m->qk_layernorm ? R * (A + G) * m->head_dim : 0;
    case SAVED_QK_MEAN:
    case SAVED_QK_RSTD:
        return m->qk_layernorm ? R * (A + G) : 0;
    case SAVED_O:
        return R * A * m->head_dim;
    case SAVED_LSE:
        return R * A;
    case SAVED_U:
        return mdsk_activation_inputs(m->activation, R, F);
    case SAVED_G:
        return R * F;
    case SAVED_N1_CODES:
    case SAVED_N2_CODES:
        return mds_gpt_fp8_codes_bytes(R, m->hidden);
    case SAVED_G_CODES:
        return mds_gpt_fp8_codes_bytes(R, F);
    case SAVED_TENSORS:
        break;
    }
    return 0;
}

static int64_t bytes_of(const struct context *c, enum saved_tensor t)
{
    int64_t size = t >= SAVED_N1_CODES ? 1
                   : is_f32_tensor(t)  ? (int64_t)sizeof(float)
                                       : (int64_t)mdsk_dtype_size(c->par.dtype);

    return mds_saved_elements(c, t) * size;
}

/* Bytes of a block input that this rank keeps. */
static int64_t input_bytes(const struct context *c)
{
    int64_t n = bytes_of(c, SAVED_X);

    return shards_inputs(c) ? n / mds_groups_size(c->g->groups, MDS_AXIS_TENSOR) : n;
}

/* ---- memory ---- */

static enum mds_rc alloc_tensor(const struct context *c, int keep, enum saved_tensor t,
                                enum mds_mem_tag tag, struct saved *s)
{
    int64_t bytes =
        t == SAVED_X && keep & MDS_ACT_SHARD ? input_bytes(c) : bytes_of(c, t);

    if (!keep || bytes == 0)
        return MDS_OK;
    return mds_arena_alloc(
        keep & MDS_ACT_HOST ? c->run->host : c->run->arena, tag, bytes,
        keep & (MDS_ACT_HOST | MDS_ACT_SHARD) ? &s->away[t] : &s->at[t]);
}

static const struct slab_size no_slab;

static enum mds_rc alloc_block(const struct context *c, const struct keep *k,
                               enum mds_mem_tag tag, const struct slab_size *slab,
                               struct saved *s)
{
    int64_t used = c->run->arena->now.used;

    memset(s, 0, sizeof *s);
    s->x_on_host = (k->of[SAVED_X] & MDS_ACT_HOST) != 0;
    if (slab) {
        MDS_TRY(alloc_tensor(c, k->of[SAVED_X], SAVED_X, tag, s));
        for (int t = SAVED_O; t <= SAVED_LSE; t++)
            if (k->of[t] & MDS_ACT_HOST)
                MDS_TRY(alloc_tensor(c, k->of[t], t, tag, s));
        s->bytes = c->run->arena->now.used - used + slab->kept;
        return mds_arena_alloc(c->run->arena, tag, slab->bytes, &s->slab);
    }
    for (int t = 0; t < SAVED_TENSORS; t++) {
        if (t == SAVED_N1)
            s->bytes = c->run->arena->now.used - used;
        MDS_TRY(alloc_tensor(c, k->of[t], t, tag, s));
    }
    return MDS_OK;
}

enum mds_rc mds_saved_alloc_block(const struct context *c, int parts,
                                  const struct slab_size *slab, struct saved *s)
{
    struct mds_act_policy p = {{0}};
    struct keep k;

    if (parts & SAVED_REST)
        p = mds_act_policy_inside(&c->run->train->act);
    p.of[MDS_ACT_INPUT] = parts & SAVED_INPUT ? MDS_ACT_KEPT : 0;
    k = policy_of(c, &p);
    save_codes(c, 0, 1, &k);
    return alloc_block(c, &k, MDS_MEM_ACT,
                       slab && !(parts & SAVED_REST) ? &no_slab : slab, s);
}

/* Without recompute, block l has a slot on the device, until the next block with the
 * same slot needs it. */
static enum mds_rc alloc_slot(const struct context *c, const struct keep *k,
                              const struct slab_size *slab, struct saved_buffer *buffer,
                              int l)
{
    int before = l - mds_saved_slots(c);

    if (before < 0)
        return alloc_block(c, k, MDS_MEM_ACT, slab, &buffer->block[l]);
    buffer->block[l] = buffer->block[before];
    buffer->block[l].host = NULL;
    return mds_arena_alloc(c->run->host, MDS_MEM_ACT, buffer->block[l].bytes,
                           &buffer->block[before].host);
}

enum mds_rc mds_saved_alloc_layer(const struct context *c, int l,
                                  const struct slab_size *slab,
                                  struct saved_buffer *buffer)
{
    struct keep k = layer_policy(c, l);

    return mds_recompute_of(&c->run->train->act) == MDS_RECOMPUTE_NONE
               ? alloc_slot(c, &k, slab, buffer, l)
               : alloc_block(c, &k, MDS_MEM_CKPT, slab, &buffer->block[l]);
}

/* ---- offloaded inputs and attention results ---- */

/* This rank's part of a whole input. */
static void *input_shard(const struct context *c, const void *x)
{
    int part = shards_inputs(c) ? mds_groups_rank(c->g->groups, MDS_AXIS_TENSOR) : 0;

    return (char *)x + part * input_bytes(c);
}

enum mds_rc mds_saved_put_x(const struct context *c, const struct saved *s,
                            const void *x, struct mds_dev_async_copy *copy)
{
    int64_t bytes = input_bytes(c), n = bytes / (int64_t)mdsk_dtype_size(c->par.dtype);

    *copy = (struct mds_dev_async_copy){0};
    if (!s->away[SAVED_X])
        return MDS_OK;
    if (!s->x_on_host)
        return mds_par_copy_rows(&c->par, 1, n, input_shard(c, x), n, s->away[SAVED_X],
                                 n);
    *copy =
        mds_dev_offload_start(c->par.dev, s->away[SAVED_X], input_shard(c, x), bytes);
    return MDS_OK;
}

struct mds_dev_async_copy mds_saved_get_x(const struct context *c,
                                          const struct saved *s, void *x)
{
    if (!s->x_on_host)
        return (struct mds_dev_async_copy){0};
    return mds_dev_reload_start(c->par.dev, input_shard(c, x), s->away[SAVED_X],
                                input_bytes(c));
}

enum mds_rc mds_saved_finish_x(const struct context *c, const struct saved *s,
                               struct mds_dev_async_copy copy, void *x)
{
    const void *mine = s->x_on_host ? input_shard(c, x) : s->away[SAVED_X];

    mds_dev_wait_copy(c->par.dev, copy);
    if (!s->away[SAVED_X] || !shards_inputs(c))
        return MDS_OK;
    return mds_comm_all_gather(mds_group(c->g->groups, MDS_AXIS_TENSOR), mine, x,
                               input_bytes(c));
}

struct mds_dev_async_copy mds_saved_put_o(const struct context *c,
                                          const struct saved *s, const void *o,
                                          const float *lse)
{
    struct mds_dev_async_copy copy = {0};

    if (s->away[SAVED_LSE])
        copy = mds_dev_offload_start(c->par.dev, s->away[SAVED_LSE], lse,
                                     bytes_of(c, SAVED_LSE));
    if (s->away[SAVED_LSE] && !mds_gpt_is_chunked(c))
        copy = mds_dev_offload_start(c->par.dev, s->away[SAVED_O], o,
                                     bytes_of(c, SAVED_O));
    return copy;
}

struct mds_dev_async_copy mds_saved_get_o(const struct context *c,
                                          const struct saved *s, void *o, float *lse)
{
    struct mds_dev_async_copy copy = {0};

    if (s->away[SAVED_LSE])
        copy = mds_dev_reload_start(c->par.dev, lse, s->away[SAVED_LSE],
                                    bytes_of(c, SAVED_LSE));
    if (s->away[SAVED_LSE] && !mds_gpt_is_chunked(c))
        copy =
            mds_dev_reload_start(c->par.dev, o, s->away[SAVED_O], bytes_of(c, SAVED_O));
    return copy;
}

/* ---- offloaded blocks: on the host from forward to backward ---- */

int mds_saved_slots(const struct context *c)
{
    int blocks = c->g->max_layers;

    return c->run->training ? (int)mds_act_slots(&c->run->train->act, blocks) : blocks;
}

/* NULL if block l is not offloaded or does not exist. */
static struct saved *offloaded_block(const struct context *c,
                                     const struct model_chunk *p,
                                     const struct saved_buffer *buffer, int l)
{
    return l >= 0 && l + mds_saved_slots(c) < p->is.layers ? &buffer->block[l] : NULL;
}

void mds_saved_offload(const struct context *c, const struct model_chunk *p,
                       struct saved_buffer *buffer, int l)
{
    struct saved *s = offloaded_block(c, p, buffer, l);

    if (s)
        s->copy = mds_dev_offload_start(c->par.dev, s->host, s->at[SAVED_X], s->bytes);
}

void mds_saved_reload(const struct context *c, const struct model_chunk *p,
                      struct saved_buffer *buffer, int l)
{
    struct saved *s = offloaded_block(c, p, buffer, l);

    if (s)
        s->copy = mds_dev_reload_start(c->par.dev, s->at[SAVED_X], s->host, s->bytes);
}

int mds_saved_wait(const struct context *c, const struct model_chunk *p,
                   const struct saved_buffer *buffer, int l)
{
    const struct saved *s = offloaded_block(c, p, buffer, l);

    if (s)
        mds_dev_wait_copy(c->par.dev, s->copy);
    return s != NULL;
}
