/* SPDX-License-Identifier: BSD-3-Clause */
/* --num-experts and the options that go with it. */
#include "config/config_impl.h"

#include "base/units.h"
#include "config/layer_list.h"

/* ---- which layers have them ---- */

/* N, if the user has said every N-th layer; 0 for a list. */
static int64_t every(const struct mds_model_config *m)
{
    int64_t n = 1;

    return m->experts.layers && mds_parse_count(m->experts.layers, &n) != 0 ? 0 : n;
}

int mds_model_has_experts(const struct mds_model_config *m, int64_t layer)
{
    int64_t n = every(m);
    int is = 0;

    if (m->experts.n == 0)
        return 0;
    if (n > 0)
        return layer % n == 0;
    mds_layer_list(m->experts.layers, layer, &is);
    return is;
}

int64_t mds_model_expert_layers(const struct mds_model_config *m)
{
    int64_t n = 0;

    for (int64_t i = 0; i < m->layers; i++)
        n += mds_model_has_experts(m, i);
    return n;
}

int64_t mds_model_expert_period(const struct mds_model_config *m)
{
    int64_t n = every(m);

    return m->experts.n == 0 ? 1 : n > 0 ? n : m->layers;
}

static void check_layers(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_model_config *m = &run->config.model;
    const char *origin = mds_config_origin(run, "model.expert_layers");
    int64_t n = every(m) > 0 ? m->layers : mds_layer_list(m->experts.layers, 0, NULL);

    if (n < 0)
        mds_diag_fault(diag, origin,
                       "--moe-layer-freq '%s' must be a number N from 1 (every N-th "
                       "layer has experts) or a list of layers such as [0]*1+[1]*11, "
                       "where 1 is a layer with experts",
                       m->experts.layers);
    else if (n != m->layers)
        mds_diag_fault(diag, origin,
                       "--moe-layer-freq %s is for %lld layers, but --num-layers is "
                       "%lld",
                       m->experts.layers, (long long)n, (long long)m->layers);
    else if (mds_model_expert_layers(m) == 0)
        mds_diag_fault(diag, origin,
                       "--moe-layer-freq %s leaves no layer with experts; leave it and "
                       "--num-experts out",
                       m->experts.layers);
}

/* ---- all options ---- */

static void fault(const struct mds_config_run *run, struct mds_diag *diag,
                  const char *key, const char *why)
{
    mds_diag_fault(diag, mds_config_origin(run, key), "%s: %s",
                   mds_settings_flag(&run->settings, key), why);
}

static void warn_ignored(const struct mds_config_run *run, struct mds_diag *diag)
{
    static const char *const keys[] = {
        "model.expert_topk",         "model.expert_ffn_hidden",
        "model.expert_pre_softmax",  "model.expert_balance",
        "model.expert_balance_loss", "model.expert_z_loss",
        "model.expert_score",        "model.expert_scale",
        "model.expert_bias",         "model.expert_bias_rate",
        "model.expert_shared",       "model.expert_layers",
        "output.log_experts"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        mds_config_warn_ignored(run, keys[i], "--num-experts", diag);
}

/* What blocks with experts do not have yet. */
static void check_features(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_config *c = &run->config;

    if (c->model.linear_bias)
        fault(run, diag, "model.experts",
              "experts have no biases; add --disable-bias-linear");
    if (c->parallel.tensor_chunks > 1)
        fault(run, diag, "parallel.tensor_chunks",
              "rows of experts are sent in one piece; leave it out");
}

static void check_router(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_experts_config *e = &run->config.model.experts;

    if (e->score == MDS_SCORE_SIGMOID && e->pre_softmax)
        fault(run, diag, "model.expert_pre_softmax",
              "there is no softmax with --moe-router-score-function sigmoid; leave one "
              "of them out");
    if (e->score != MDS_SCORE_SIGMOID && e->bias)
        fault(run, diag, "model.expert_bias",
              "biases are added to sigmoids; add --moe-router-score-function sigmoid");
    if (!e->bias)
        mds_config_warn_ignored(run, "model.expert_bias_rate",
                                "--moe-router-enable-expert-bias", diag);
}

void mds_config_check_experts(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_experts_config *e = &run->config.model.experts;

    if (e->n == 0) {
        warn_ignored(run, diag);
        return;
    }
    if (e->topk > e->n)
        mds_diag_fault(diag, mds_config_origin(run, "model.expert_topk"),
                       "--moe-router-topk %lld: there are only %lld experts "
                       "(--num-experts)",
                       (long long)e->topk, (long long)e->n);
    check_router(run, diag);
    check_layers(run, diag);
    check_features(run, diag);
}
