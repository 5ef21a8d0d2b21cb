/* SPDX-License-Identifier: BSD-3-Clause */
/* The parameters of a transformer block. */
#include "model/modules.h"

#include <math.h>
#include <stdio.h>

/* ---- attention ---- */

static const char *const inputs[] = {"attention.q", "attention.k", "attention.v"};
static const char *const result[] = {"attention.out"};

/* A branch's last linear starts smaller, by 1/sqrt(2L), so that the stream's variance
 * does not grow with depth: Radford et al. 2019, section 2.3. */
static struct linears qkv_linears(const struct mds_model_config *m, int64_t heads[3])
{
    heads[0] = m->heads * m->head_dim;
    heads[1] = heads[2] = m->kv_heads * m->head_dim;
    return (struct linears){inputs,
                            3,
                            m->hidden,
                            heads,
                            MDS_SHARD_ROWS,
                            m->init_std,
                            m->linear_bias || m->qkv_bias};
}

static struct linears out_linear(const struct mds_model_config *m)
{
    return (struct linears){result,
                            1,
                            m->heads * m->head_dim,
                            &m->hidden,
                            MDS_SHARD_COLS,
                            m->init_std / sqrt(2.0 * (double)m->layers),
                            m->linear_bias};
}

/* Queries and keys of a layer, whose weights and biases follow one another from id on:
 * the engine numbers their heads so. */
static void number_heads(struct registrar *reg, int number, int id)
{
    const struct mds_model_config *m = &reg->g->cfg;
    int64_t first = number * (m->heads + m->kv_heads);

    if (id < 0 || reg->rc)
        return;
    mds_params_set_heads(reg->g->ps, id, m->head_dim, first);
    mds_params_set_heads(reg->g->ps, id + 1, m->head_dim, first + m->heads);
}

static void add_attention_weights(struct registrar *reg, int number, const char *layer,
                                  struct attention_ids *id)
{
    int64_t heads[3];
    struct linears qkv = qkv_linears(&reg->g->cfg, heads),
                   out = out_linear(&reg->g->cfg);

    id->qkv = mds_gpt_add_weights(reg, layer, &qkv);
    number_heads(reg, number, id->qkv.weight);
    id->out = mds_gpt_add_weights(reg, layer, &out);
}

static void add_attention_vectors(struct registrar *reg, int number, const char *layer,
                                  struct attention_ids *id)
{
    int64_t heads[3];
    struct linears qkv = qkv_linears(&reg->g->cfg, heads),
                   out = out_linear(&reg->g->cfg);

    id->qkv.bias = mds_gpt_add_biases(reg, layer, &qkv);
    number_heads(reg, number, id->qkv.bias);
    id->out.bias = mds_gpt_add_biases(reg, layer, &out);
    mds_gpt_add_head_norms(reg, layer, id);
}

/* ---- MLP ---- */

/* Or the shared expert. */
static const char *const first[][2] = {{"mlp.gate", "mlp.up"},
                                       {"mlp.shared.gate", "mlp.shared.up"}};
static const char *const last[] = {"mlp.down", "mlp.shared.down"};

static struct linears up_linears(const struct mds_model_config *m, int shared,
                                 int64_t wide[2])
{
    int gated = mdsk_activation_of(m->activation)->gated;

    wide[0] = wide[1] = mds_model_dense_inner(m, shared);
    return (struct linears){gated ? first[shared] : first[shared] + 1,
                            gated ? 2 : 1,
                            m->hidden,
                            wide,
                            MDS_SHARD_ROWS,
                            m->init_std,
                            m->linear_bias};
}

/* Initialised like attention's output layer (attention.c). */
static struct linears down_linear(const struct mds_model_config *m, int shared)
{
    return (struct linears){last + shared,
                            1,
                            mds_model_dense_inner(m, shared),
                            &m->hidden,
                            MDS_SHARD_COLS,
                            m->init_std / sqrt(2.0 * (double)m->layers),
                            m->linear_bias};
}

static void add_mlp_weights(struct registrar *reg, const char *layer, int shared,
                            struct mlp_ids *id)
{
    int64_t wide[2];
    struct linears up = up_linears(&reg->g->cfg, shared, wide),
                   down = down_linear(&reg->g->cfg, shared);

    id->up = mds_gpt_add_weights(reg, layer, &up);
    id->down = mds_gpt_add_weights(reg, layer, &down);
}

static void add_mlp_biases(struct registrar *reg, const char *layer, struct mlp_ids *id)
{
    int64_t wide[2];
    struct linears up = up_linears(&reg->g->cfg, 0, wide),
                   down = down_linear(&reg->g->cfg, 0);

    id->up.bias = mds_gpt_add_biases(reg, layer, &up);
    id->down.bias = mds_gpt_add_biases(reg, layer, &down);
}

/* ---- a block ---- */

/* A norm of the stream (is_there), or none. */
static struct norm_ids add_norm(struct registrar *reg, const char *layer,
                                const char *name, int is_there)
{
    char full[48];

    if (!is_there)
        return (struct norm_ids){.gamma = -1, .beta = -1, .sum_at = -1};
    snprintf(full, sizeof full, "%s.%s", layer, name);
    return mds_gpt_add_norm(reg, full, reg->g->cfg.hidden,
                            mds_gpt_residual_partial(reg->g));
}

/* Matrices come first, so that the other parameters are contiguous: only their
 * gradients have to be zeroed. */
void mds_gpt_add_block(struct registrar *reg, int number, struct block_ids *id)
{
    enum mds_norm_placement norms = reg->g->cfg.norm_placement;
    int before = norms != MDS_NORM_AFTER, after = norms != MDS_NORM_BEFORE;
    int experts = mds_model_has_experts(&reg->g->cfg, number);
    char name[24];

    snprintf(name, sizeof name, "layer.%d", number);
    id->number = number;
    reg->fp8 = mds_model_layer_is_fp8(&reg->g->cfg, number);
    id->unit = mds_gpt_add_unit(reg, name);
    add_attention_weights(reg, number, name, &id->attention);
    id->mlp = (struct mlp_ids){.up = {.weight = -1, .bias = -1},
                               .down = {.weight = -1, .bias = -1},
                               .router = {.gamma = -1, .beta = -1, .sum_at = -1}};
    if (mds_model_dense_inner(&reg->g->cfg, experts) > 0)
        add_mlp_weights(reg, name, experts, &id->mlp);
    if (experts)
        mds_gpt_add_experts(reg, name, &id->mlp);
    id->norm1 = add_norm(reg, name, "norm1", before);
    add_attention_vectors(reg, number, name, &id->attention);
    id->attention.out_norm = add_norm(reg, name, "attention.out_norm", after);
    id->norm2 = add_norm(reg, name, "norm2", before);
    id->mlp.out_norm = add_norm(reg, name, "mlp.out_norm", after);
    if (experts)
        mds_gpt_add_spread(reg, name, &id->mlp);
    else
        add_mlp_biases(reg, name, &id->mlp);
}
