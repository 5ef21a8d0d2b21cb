/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/saved.h"

#include "model/modules.h"

#include <string.h>

/* ---- where ---- */

/* Inputs are sharded only if all tensor ranks have them whole. */
static int shards_inputs(const struct context *c)
{
    return c->run->train->act.partition_activations && !c->g->sequence_parallel &&
           mds_groups_size(c->g->groups, MDS_AXIS_TENSOR) > 1;
}

/* Of block l of any model chunk. */
static struct mds_act_policy policy_of(const struct context *c, int l)
{
    struct mds_act_policy p = mds_act_policy(&c->run->train->act, c->g->max_layers, l);

    if (!shards_inputs(c))
        p.of[MDS_ACT_INPUT] &= ~MDS_ACT_SHARD;
    return p;
}

int mds_saved_stashes_x(const struct context *c)
{
    for (int l = 0; l < c->g->max_layers; l++)
        if (policy_of(c, l).of[MDS_ACT_INPUT] & (MDS_ACT_SHARD | MDS_ACT_HOST))
            return 1;
    return 0;
}

/* ---- sizes ---- */

int64_t mds_saved_lse_elements(const struct context *c)
{
    int tp = mds_groups_size(c->g->groups, MDS_AXIS_TENSOR);

    return mds_par_rows(&c->par) * (c->g->cfg.heads / tp);
}

int64_t mds_saved_o_elements(const struct context *c)
{
    return mds_saved_lse_elements(c) * c->g->cfg.head_dim;
}

static int64_t o_bytes(const struct context *c)
{
    return mds_saved_o_elements(c) * (int64_t)mdsk_dtype_size(c->par.dtype);
}

static int64_t lse_bytes(const struct context *c)
{
    return mds_saved_lse_elements(c) * (int64_t)sizeof(float);
}

static int64_t whole_input_bytes(const struct context *c)
{
    return mds_gpt_residual_size(c) * (int64_t)mdsk_dtype_size(c->par.dtype);
}

/* Of a block input that this rank keeps elsewhere. */
static int64_t input_bytes(const struct context *c)
{
    int64_t n = whole_input_bytes(c);

    return shards_inputs(c) ? n / mds_groups_size(c->g->groups, MDS_AXIS_TENSOR) : n;
}

/* ---- memory ---- */

/* where: bits of enum mds_act_where. */
static enum mds_rc alloc_input(const struct context *c, int where, enum mds_mem_tag tag,
                               struct saved *s)
{
    int64_t bytes = where & MDS_ACT_SHARD ? input_bytes(c) : whole_input_bytes(c);
    int away = where & (MDS_ACT_HOST | MDS_ACT_SHARD);

    s->x_on_host = (where & MDS_ACT_HOST) != 0;
    return where ? mds_arena_alloc(s->x_on_host ? c->run->host : c->run->arena, tag,
                                   bytes, away ? &s->x_away : &s->x)
                 : MDS_OK;
}

static enum mds_rc alloc_block(const struct context *c, const struct mds_act_policy *p,
                               enum mds_mem_tag tag, const struct slab_size *slab,
                               struct saved *s)
{
    int64_t used = c->run->arena->now.used;

    memset(s, 0, sizeof *s);
    MDS_TRY(alloc_input(c, p->of[MDS_ACT_INPUT], tag, s));
    if (p->of[MDS_ACT_ATTENTION] & MDS_ACT_HOST) {
        MDS_TRY(mds_arena_alloc(c->run->host, tag, o_bytes(c), &s->o_away));
        MDS_TRY(mds_arena_alloc(c->run->host, tag, lse_bytes(c), &s->lse_away));
    }
    s->bytes = c->run->arena->now.used - used + slab->kept;
    return mds_arena_alloc(c->run->arena, tag, slab->bytes, &s->slab);
}

enum mds_rc mds_saved_alloc_block(const struct context *c, int input, int64_t slab,
                                  struct saved *s)
{
    const struct mds_act_policy p = {{[MDS_ACT_INPUT] = input ? MDS_ACT_KEPT : 0}};
    const struct slab_size size = {slab, 0};

    return alloc_block(c, &p, MDS_MEM_ACT, &size, s);
}

/* Without recompute, block l has a slot on the device, until the next block with the
 * same slot needs it. */
static enum mds_rc alloc_slot(const struct context *c, const struct mds_act_policy *p,
                              const struct slab_size *slab, struct saved_buffer *buffer,
                              int l)
{
    int before = l - mds_saved_slots(c);

    if (before < 0)
        return alloc_block(c, p, MDS_MEM_ACT, slab, &buffer->block[l]);
    buffer->block[l] = buffer->block[before];
    buffer->block[l].host = NULL;
    return mds_arena_alloc(c->run->host, MDS_MEM_ACT, buffer->block[l].bytes,
                           &buffer->block[before].host);
}

/* It stays where it is, whatever the block's other memory holds meanwhile. */
static enum mds_rc alloc_load(const struct context *c, struct saved *s)
{
    int64_t n = mds_gpt_load_groups(c) * c->g->cfg.experts.n;

    s->load = NULL;
    return n > 0 ? mds_par_alloc_f32(&c->par, MDS_MEM_ACT, n, &s->load) : MDS_OK;
}

enum mds_rc mds_saved_alloc_layer(const struct context *c, int l,
                                  const struct slab_size *slab,
                                  struct saved_buffer *buffer)
{
    struct mds_act_policy p = policy_of(c, l);

    MDS_TRY(mds_recompute_of(&c->run->train->act) == MDS_RECOMPUTE_NONE
                ? alloc_slot(c, &p, slab, buffer, l)
                : alloc_block(c, &p, MDS_MEM_CKPT, slab, &buffer->block[l]));
    return alloc_load(c, &buffer->block[l]);
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
    if (!s->x_away)
        return MDS_OK;
    if (!s->x_on_host)
        return mds_par_copy_rows(&c->par, 1, n, input_shard(c, x), n, s->x_away, n);
    *copy = mds_dev_offload_start(c->par.dev, s->x_away, input_shard(c, x), bytes);
    return MDS_OK;
}

struct mds_dev_async_copy mds_saved_get_x(const struct context *c,
                                          const struct saved *s, void *x)
{
    if (!s->x_on_host)
        return (struct mds_dev_async_copy){0};
    return mds_dev_reload_start(c->par.dev, input_shard(c, x), s->x_away,
                                input_bytes(c));
}

enum mds_rc mds_saved_finish_x(const struct context *c, const struct saved *s,
                               struct mds_dev_async_copy copy, void *x)
{
    const void *mine = s->x_on_host ? input_shard(c, x) : s->x_away;

    mds_dev_wait_copy(c->par.dev, copy);
    if (!s->x_away || !shards_inputs(c))
        return MDS_OK;
    return mds_comm_all_gather(mds_group(c->g->groups, MDS_AXIS_TENSOR), mine, x,
                               input_bytes(c));
}

struct mds_dev_async_copy mds_saved_put_o(const struct context *c,
                                          const struct saved *s, const void *o,
                                          const float *lse)
{
    if (!s->o_away)
        return (struct mds_dev_async_copy){0};
    mds_dev_offload_start(c->par.dev, s->lse_away, lse, lse_bytes(c));
    return mds_dev_offload_start(c->par.dev, s->o_away, o, o_bytes(c));
}

struct mds_dev_async_copy mds_saved_get_o(const struct context *c,
                                          const struct saved *s, void *o, float *lse)
{
    if (!s->o_away)
        return (struct mds_dev_async_copy){0};
    mds_dev_reload_start(c->par.dev, lse, s->lse_away, lse_bytes(c));
    return mds_dev_reload_start(c->par.dev, o, s->o_away, o_bytes(c));
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
        s->copy = mds_dev_offload_start(c->par.dev, s->host, s->x, s->bytes);
}

void mds_saved_reload(const struct context *c, const struct model_chunk *p,
                      struct saved_buffer *buffer, int l)
{
    struct saved *s = offloaded_block(c, p, buffer, l);

    if (s)
        s->copy = mds_dev_reload_start(c->par.dev, s->x, s->host, s->bytes);
}

void mds_saved_wait(const struct context *c, const struct model_chunk *p,
                    const struct saved_buffer *buffer, int l)
{
    const struct saved *s = offloaded_block(c, p, buffer, l);

    if (s)
        mds_dev_wait_copy(c->par.dev, s->copy);
}
