/* SPDX-License-Identifier: BSD-3-Clause */
/* --num-experts and the options that go with it. */
#include "config/config_impl.h"

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
        "model.expert_shared"};

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
    check_features(run, diag);
}
