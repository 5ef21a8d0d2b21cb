/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of activation memory as text, for command lines and for people. */
#include "base/units.h"
#include "config/options.h"

void mds_act_text(const struct mds_activations *a, unsigned but, struct mds_str *out)
{
    const struct mds_activations defaults = mds_act_defaults();

    for (int i = 0; i < MDS_ACT_OPTIONS; i++) {
        int64_t value = mds_act_get(a, &mds_act_options[i]);

        if (!(but & 1u << i) && value != mds_act_get(&defaults, &mds_act_options[i]))
            mds_option_text(
                mds_option_of(&mds_pretrain_options, mds_act_options[i].key), value,
                out);
    }
}

void mds_act_describe(const struct mds_activations *a, struct mds_str *out)
{
    static const char *const recomputes[] = {"", ", selective recompute",
                                             ", full recompute"};

    mds_str_add(out, "%s%s", recomputes[a->recompute],
                a->offload_activations ? ", inputs on the host" : "");
    if (a->recompute_modules)
        mds_str_add(out, " of %s", mds_recompute_modules_name(a->recompute_modules));
    if (a->recompute_layers > 1)
        mds_str_add(out, ", one for %lld blocks", (long long)a->recompute_layers);
    if (a->device_inputs)
        mds_str_add(out, ", those of %lld block%s on the device",
                    (long long)a->device_inputs, mds_plural(a->device_inputs));
    if (a->keep_attention)
        mds_str_add(out, ", attention kept of %lld block%s",
                    (long long)a->keep_attention, mds_plural(a->keep_attention));
    if (a->offload_layers)
        mds_str_add(out, ", activations of %lld block%s on the host",
                    (long long)a->offload_layers, mds_plural(a->offload_layers));
    if (a->head_groups > 1)
        mds_str_add(out, ", heads in %lld groups", (long long)a->head_groups);
    if (a->sequence_tile)
        mds_str_add(out, ", tiles of %lld", (long long)a->sequence_tile);
}
