/* SPDX-License-Identifier: BSD-3-Clause */
#include "metrics/flops.h"

static int64_t count_local_layers(const struct mds_model_config *m)
{
    int64_t n = 0;

    for (int64_t i = 0; i < m->layers; i++)
        n += mds_model_window(m, i) > 0;
    return n;
}

struct mds_flops_model mds_flops_model_of(const struct mds_config *c)
{
    const struct mds_model_config *m = &c->model;
    int known = c->data.seen.global > 0;

    return (struct mds_flops_model){
        .layers = m->layers,
        .hidden = m->hidden,
        .heads = m->heads,
        .kv_heads = m->kv_heads,
        .head_dim = m->head_dim,
        .ffn = m->experts.n > 0 ? m->experts.ffn_hidden : m->ffn_hidden,
        .experts = m->experts.n,
        .active = m->experts.n > 0 ? m->experts.topk : 0,
        .shared = m->experts.n > 0 ? m->experts.shared : 0,
        .dense_layers = m->experts.n > 0 ? m->layers - mds_model_expert_layers(m) : 0,
        .dense_ffn = m->ffn_hidden,
        .activation = m->activation,
        .seq = m->seq_length,
        .window = m->window,
        .local_layers = count_local_layers(m),
        .padded_vocab = m->padded_vocab,
        .seen = known ? c->data.seen : mds_pairs_whole_row(m->seq_length, m->window)};
}

static double mlp_params(const struct mds_flops_model *m, int64_t inner)
{
    int64_t up = mdsk_activation_inputs(m->activation, 1, inner);

    return (double)m->hidden * (double)(up + inner);
}

static double layer_params(const struct mds_flops_model *m)
{
    double q = (double)m->heads * (double)m->head_dim;
    double kv = (double)m->kv_heads * (double)m->head_dim;
    double attention = (double)m->hidden * (2 * q + 2 * kv); /* q, out; k, v */
    double mlp = mlp_params(m, m->ffn);

    if (m->experts > 0)
        mlp = (double)m->active * mlp + (double)(m->experts * m->hidden) +
              mlp_params(m, m->shared);
    return (double)m->layers * (attention + mlp) +
           (double)m->dense_layers * (mlp_params(m, m->dense_ffn) - mlp);
}

static double head_params(const struct mds_flops_model *m)
{
    return (double)m->hidden * (double)m->padded_vocab;
}

/* A share of the pairs, summed over the layers. */
static double sum_over_layers(const struct mds_flops_model *m, struct mds_pairs share)
{
    return (double)(m->layers - m->local_layers) * share.global +
           (double)m->local_layers * share.local;
}

double mds_flops_documents_share(const struct mds_flops_model *m)
{
    return sum_over_layers(m, m->seen) /
           sum_over_layers(m, mds_pairs_whole_row(m->seq, m->window));
}

/* One forward pass of QK^T and PV over the whole square, or over twice what is seen of
 * half of it, per token. */
static double attention_forward(const struct mds_flops_model *m)
{
    return 4.0 * (double)m->heads * (double)m->head_dim * (double)m->seq *
           sum_over_layers(m, m->seen);
}

double mds_flops_matmul_params(const struct mds_flops_model *m)
{
    return layer_params(m) + head_params(m);
}

double mds_flops_causal(const struct mds_flops_model *m, int64_t tokens)
{
    double per_token = 6 * mds_flops_matmul_params(m) + 3 * attention_forward(m) / 2;

    return per_token * (double)tokens;
}

double mds_flops_megatron(const struct mds_flops_model *m, int64_t tokens,
                          enum mds_recompute recompute)
{
    double layer_passes = recompute == MDS_RECOMPUTE_FULL ? 4 : 3;
    double attention_passes = recompute == MDS_RECOMPUTE_NONE ? 3 : 4;
    double per_token = layer_passes * 2 * layer_params(m) +
                       attention_passes * attention_forward(m) + 3 * 2 * head_params(m);

    return per_token * (double)tokens;
}
