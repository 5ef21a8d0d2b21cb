/* SPDX-License-Identifier: BSD-3-Clause */
/* What --moe-per-layer-logging writes to files: each block's load, and the losses of
 * its router by Megatron's names. */
#include "io/jsonl.h"
#include "metrics/metrics_impl.h"

#include <stdio.h>

/* "block" from 0, as in names of parameters. */
static void record_block(struct mds_metrics *m, const struct mds_metrics_step *s,
                         int64_t block, const struct mds_expert_load *l)
{
    const struct mds_router_names *names = &m->run.router_names;

    if (!mds_metrics_begin_record(m, "expert_block"))
        return;
    mds_jsonl_add_int(m->json, "iteration", s->iteration);
    mds_jsonl_add_int(m->json, "block", block);
    mds_jsonl_add_real(m->json, "expert_load_most", l->most);
    mds_jsonl_add_real(m->json, "expert_entropy", l->entropy);
    mds_jsonl_add_int(m->json, "experts_idle", l->idle);
    for (int k = 0; k < 2; k++)
        if (names->of[k])
            mds_jsonl_add_real(m->json, names->of[k], s->router_losses[2 * block + k]);
    mds_metrics_end_record(m);
}

static void write_block(struct mds_metrics *m, const char *name, int64_t iteration,
                        int64_t block, double value)
{
    char tag[64];

    snprintf(tag, sizeof tag, "moe/%s_layer_%d", name, (int)block);
    mds_metrics_scalar(m, tag, iteration, value);
}

static void report_block(struct mds_metrics *m, const struct mds_metrics_step *s,
                         int64_t block)
{
    int64_t E = m->run.model.experts;
    struct mds_expert_load l = mds_expert_load_of(s->expert_load + block * E, 1, E);
    const struct mds_router_names *names = &m->run.router_names;

    if (l.most == 0)
        return;
    record_block(m, s, block, &l);
    write_block(m, "load", s->iteration, block, l.most);
    write_block(m, "entropy", s->iteration, block, l.entropy);
    for (int k = 0; k < 2; k++)
        if (names->of[k])
            write_block(m, names->of[k], s->iteration, block,
                        s->router_losses[2 * block + k]);
}

void mds_metrics_experts(struct mds_metrics *m, const struct mds_metrics_step *s)
{
    const struct mds_router_names *names = &m->run.router_names;
    double mean[2];

    mds_expert_mean_losses(s->expert_load, s->router_losses, m->run.model.layers,
                           m->run.model.experts, mean);
    for (int k = 0; k < 2; k++)
        if (names->of[k])
            mds_metrics_scalar(m, names->of[k], s->iteration, mean[k]);
    for (int64_t b = 0; b < m->run.model.layers; b++)
        report_block(m, s, b);
}
