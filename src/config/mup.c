/* SPDX-License-Identifier: BSD-3-Clause */
/* Maximal update parametrization, as Megatron has it with --use-mup: Yang et al. 2022,
 * arXiv:2203.03466, table 8. */
#include "config/config_impl.h"

#include <math.h>

double mds_mup_width(const struct mds_model_config *m)
{
    return m->mup.on ? (double)m->hidden / (double)m->mup.base_hidden : 1;
}

double mds_mup_score_scale(const struct mds_model_config *m)
{
    double size = (double)m->head_dim, base = m->mup.base_head_dim;

    return m->mup.on ? (base > 0 ? sqrt(base) : 1) / size : 1 / sqrt(size);
}

double mds_mup_logit_scale(const struct mds_model_config *m)
{
    if (!m->mup.on)
        return 1;
    return m->mup.output_mult != 1 ? m->mup.output_mult : 1 / mds_mup_width(m);
}

double mds_mup_embedding_scale(const struct mds_model_config *m)
{
    return m->mup.on ? m->mup.embedding_mult : 1;
}

void mds_config_resolve_mup(struct mds_config_run *run, struct mds_diag *diag)
{
    struct mds_model_config *m = &run->config.model;
    const struct {
        const char *key;
        int changed; /* from its default */
    } settings[] = {{"model.mup_base_hidden", m->mup.base_hidden != 0},
                    {"model.mup_base_head_dim", m->mup.base_head_dim != 0},
                    {"model.mup_embedding_mult", m->mup.embedding_mult != 1},
                    {"model.mup_output_mult", m->mup.output_mult != 1}};

    if (m->mup.on)
        derive(run, "model.mup_base_hidden", &m->mup.base_hidden, m->hidden,
               "--hidden-size: this is the base model");
    for (size_t i = 0; !m->mup.on && i < sizeof settings / sizeof *settings; i++)
        if (settings[i].changed && mds_config_is_given(run, settings[i].key))
            mds_diag_fault(diag, mds_config_origin(run, settings[i].key),
                           "%s is for --use-mup; give both, or neither",
                           mds_settings_flag(&run->settings, settings[i].key));
}
