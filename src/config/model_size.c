/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/options.h"
#include "base/minmax.h"

int64_t mds_vocab_padded(int64_t words, int64_t vocab_divisor, int64_t tensor)
{
    return mds_round_up(words, vocab_divisor * tensor);
}

static int64_t norm_params(const struct mds_model_config *m, int64_t size)
{
    return m->norm == MDS_NORM_RMSNORM ? size : 2 * size;
}

static int64_t attention_params(const struct mds_model_config *m)
{
    int64_t q = m->heads * m->head_dim, kv = 2 * m->kv_heads * m->head_dim;
    int64_t bias =
        (m->linear_bias || m->qkv_bias ? q + kv : 0) + (m->linear_bias ? m->hidden : 0);
    int64_t normed = m->qk_norm_across_heads ? q + kv / 2 : 2 * m->head_dim;
    int64_t norms = m->qk_layernorm ? norm_params(m, normed) : 0;

    return m->hidden * (q + kv) + q * m->hidden + bias + norms;
}

/* Of inner width F. */
static int64_t dense_params(const struct mds_model_config *m, int64_t F)
{
    int64_t in = mdsk_activation_inputs(m->activation, 1, F);
    int64_t bias = m->linear_bias ? in + m->hidden : 0;

    return m->hidden * in + F * m->hidden + bias;
}

static int64_t mlp_params(const struct mds_model_config *m, int64_t layer)
{
    const struct mds_experts_config *e = &m->experts;

    return mds_model_has_experts(m, layer)
               ? e->n * (dense_params(m, e->ffn_hidden) + m->hidden) +
                     dense_params(m, e->shared)
               : dense_params(m, m->ffn_hidden);
}

int64_t mds_model_block_params(const struct mds_model_config *m, int64_t layer)
{
    int norms = m->norm_placement == MDS_NORM_BOTH ? 4 : 2;

    return norms * norm_params(m, m->hidden) + attention_params(m) +
           mlp_params(m, layer);
}

int64_t mds_model_params(const struct mds_model_config *m)
{
    int64_t blocks = 0;
    int64_t words = m->padded_vocab * m->hidden * (m->tied_head ? 1 : 2);
    int64_t positions =
        m->position == MDS_POSITION_LEARNED ? m->max_positions * m->hidden : 0;

    for (int64_t i = 0; i < m->layers; i++)
        blocks += mds_model_block_params(m, i);
    return words + positions + blocks + norm_params(m, m->hidden);
}
