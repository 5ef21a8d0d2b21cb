/* SPDX-License-Identifier: BSD-3-Clause */
/* --fp8-format and the options that go with it. */
#include "config/config_impl.h"

int mds_model_layer_is_fp8(const struct mds_model_config *m, int64_t layer)
{
    const struct mds_fp8_config *f = &m->fp8;

    if (f->format == MDS_FP8_NONE)
        return 0;
    return !f->first_last_bf16 ||
           (layer >= f->start_bf16 && layer < m->layers - f->end_bf16);
}

/* Tensor cores take codes 16 at a time, along both sides of a matrix. */
static void check_sizes(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_model_config *m = &run->config.model;
    int64_t tensor = run->config.parallel.tensor, routed = mds_model_expert_layers(m);
    const struct {
        const char *key, *flag;
        int64_t size;
    } sides[] = {{"model.hidden", "--hidden-size", m->hidden},
                 {"model.head_dim", "the size of heads, --kv-channels", m->head_dim},
                 {"model.ffn_hidden", "each tensor rank's part of --ffn-hidden-size",
                  routed < m->layers ? m->ffn_hidden / tensor : 0},
                 {"model.expert_shared",
                  "each tensor rank's part of --moe-shared-expert-intermediate-size",
                  routed > 0 ? m->experts.shared / tensor : 0}};
    const int64_t unit = 16;

    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        if (sides[i].size % unit != 0)
            mds_diag_fault(diag, mds_config_origin(run, sides[i].key),
                           "--fp8-format: %s is %lld, and FP8 needs a multiple of %lld",
                           sides[i].flag, (long long)sides[i].size, (long long)unit);
}

/* Warn of options that have no effect, because they need another one. */
static void warn_ignored(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_fp8_config *f = &run->config.model.fp8;
    const char *format = f->format == MDS_FP8_NONE ? "--fp8-format" : NULL;
    const char *ends = f->first_last_bf16 ? NULL : "--first-last-layers-bf16";
    const struct {
        const char *key;
        int is_on;
        const char *missing; /* NULL: it has an effect */
    } options[] = {
        {"model.first_last_layers_bf16", f->first_last_bf16, format},
        {"model.fp8_wgrad", !f->wgrad, format},
        {"model.layers_at_start_in_bf16", 1, format ? format : ends},
        {"model.layers_at_end_in_bf16", 1, format ? format : ends},
    };

    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].missing && options[i].is_on)
            mds_config_warn_ignored(run, options[i].key, options[i].missing, diag);
}

void mds_config_check_fp8(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_model_config *m = &run->config.model;
    const struct mds_fp8_config *f = &m->fp8;

    warn_ignored(run, diag);
    if (f->format == MDS_FP8_NONE)
        return;
    if (run->config.train.type != MDS_TYPE_BF16)
        mds_diag_fault(diag, mds_config_origin(run, "model.fp8_format"),
                       "--fp8-format: what is not in FP8 has to be bf16; give --bf16");
    if (f->first_last_bf16 && f->start_bf16 + f->end_bf16 >= m->layers)
        mds_diag_fault(
            diag, mds_config_origin(run, "model.first_last_layers_bf16"),
            "--first-last-layers-bf16: %lld blocks at the start and %lld at the end "
            "leave none of %lld in FP8; give --fp8-format none",
            (long long)f->start_bf16, (long long)f->end_bf16, (long long)m->layers);
    check_sizes(run, diag);
}
