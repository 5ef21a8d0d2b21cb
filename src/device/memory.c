/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/memory.h"
#include "base/str.h"
#include "base/units.h"

static const char *const tag_names[MDS_MEM_TAGS] = {
    [MDS_MEM_PARAM] = "params",     [MDS_MEM_GRAD] = "grads",
    [MDS_MEM_OPTIM] = "optimizer",  [MDS_MEM_ACT] = "activations",
    [MDS_MEM_CKPT] = "checkpoints", [MDS_MEM_WORK] = "workspace",
    [MDS_MEM_COMM] = "comm",        [MDS_MEM_SAVE] = "saving",
};

const char *mds_mem_tag_name(enum mds_mem_tag tag)
{
    return tag_names[tag];
}

static void append_row(struct mds_str *out, const char *name, double now, double peak,
                       double total_peak)
{
    char now_text[32], peak_text[32];

    mds_str_add(out, "  %-14s %12s %12s %6.1f %%\n", name,
                mds_format_bytes(now, now_text, sizeof now_text),
                mds_format_bytes(peak, peak_text, sizeof peak_text),
                total_peak > 0 ? 100 * peak / total_peak : 0.0);
}

void mds_mem_table(const struct mds_mem_account *m, struct mds_str *out)
{
    double now = 0, total = (double)m->total_peak;

    mds_str_add(out, "  %-14s %12s %12s %8s\n", "purpose", "now", "peak", "of peak");
    for (int t = 0; t < MDS_MEM_TAGS; t++) {
        if (m->peak[t] == 0)
            continue;
        now += (double)m->now[t];
        append_row(out, tag_names[t], (double)m->now[t], (double)m->peak[t], total);
    }
    append_row(out, "all", now, total, total);
}
