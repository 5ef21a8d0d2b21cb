/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers that register parameters. */
#include "model/modules.h"

#include <math.h>
#include <stdio.h>

int mds_gpt_add_param(struct registrar *reg, struct mds_param_spec *spec)
{
    const struct mds_groups *groups = reg->g->groups;
    int id = -1;

    spec->axes = spec->shard == MDS_SHARD_NONE ? 0 : MDS_AXIS_TENSOR;
    spec->partial |= MDS_AXES_TOKENS;
    spec->parts = mds_groups_size(groups, spec->axes);
    spec->part = mds_groups_rank(groups, spec->axes);
    spec->axes |= reg->apart;
    /* For the gradient norm only the first rank of a stage that has the parameter
     * counts it; among ranks with other tokens, ZeRO decides. */
    if (mds_groups_rank(groups, MDS_AXES_STAGE & ~(spec->axes | MDS_AXES_TOKENS)) > 0)
        spec->duplicate = 1;
    if (reg->rc == MDS_OK)
        reg->rc = mds_params_add(reg->g->ps, spec, &id);
    return id;
}

int mds_gpt_add_unit(struct registrar *reg, const char *name)
{
    int unit = -1;

    reg->norm_sums = 0;
    if (reg->rc == MDS_OK)
        reg->rc = mds_params_add_unit(reg->g->ps, name, &unit);
    return unit;
}

void mds_gpt_set_width(const struct registrar *reg, struct mds_param_spec *spec)
{
    const struct mds_model_config *m = &reg->g->cfg;

    spec->width = m->mup.on ? mds_mup_width(m) : 0;
    spec->std /= sqrt(mds_mup_width(m));
}

/* The weight of a linear layer. */
int mds_gpt_add_matrix(struct registrar *reg, const char *name, int64_t rows,
                       int64_t cols, enum mds_shard shard, double std, int packed,
                       int in_block)
{
    struct mds_param_spec s = {.rows = rows,
                               .cols = cols,
                               .init = MDS_INIT_NORMAL,
                               .std = std,
                               .decay = 1,
                               .packed = packed,
                               .shard = shard,
                               .in_block = in_block,
                               .by_gemm = 1};

    if (in_block)
        mds_gpt_set_width(reg, &s);
    snprintf(s.name, sizeof s.name, "%s.weight", name);
    return mds_gpt_add_param(reg, &s);
}

int mds_gpt_add_vector(struct registrar *reg, const char *name, const char *suffix,
                       int64_t n, enum mds_init init, enum mds_shard shard, int packed)
{
    struct mds_param_spec s = {
        .rows = n, .init = init, .packed = packed, .shard = shard};

    snprintf(s.name, sizeof s.name, "%s.%s", name, suffix);
    return mds_gpt_add_param(reg, &s);
}
