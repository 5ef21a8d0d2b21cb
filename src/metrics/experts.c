/* SPDX-License-Identifier: BSD-3-Clause */
#include "metrics/experts.h"
#include "base/log.h"

#include <inttypes.h>
#include <math.h>

/* Of one block.  One without experts computes no tokens of theirs. */
static double sum_of(const double *load, int64_t experts)
{
    double sum = 0;

    for (int64_t e = 0; e < experts; e++)
        sum += load[e];
    return sum;
}

static void add_block(struct mds_expert_load *out, const double *load, int64_t experts,
                      double sum)
{
    double most = 0;

    for (int64_t e = 0; e < experts; e++) {
        most = load[e] > most ? load[e] : most;
        out->idle += load[e] == 0;
    }
    for (int64_t e = 0; e < experts; e++)
        if (load[e] > 0 && experts > 1)
            out->entropy -= load[e] / sum * log(load[e] / sum) / log((double)experts);
    most *= (double)experts / sum;
    out->most = most > out->most ? most : out->most;
}

struct mds_expert_load mds_expert_load_of(const double *load, int64_t blocks,
                                          int64_t experts)
{
    struct mds_expert_load out = {0};
    int64_t n = 0;

    for (int64_t b = 0; b < blocks; b++) {
        double sum = sum_of(load + b * experts, experts);

        if (sum == 0)
            continue;
        add_block(&out, load + b * experts, experts, sum);
        n++;
    }
    out.entropy = experts > 1 && n > 0 ? out.entropy / (double)n : 1;
    return out;
}

struct mds_router_names mds_router_names_of(const struct mds_experts_config *x)
{
    static const char *const names[] = {
        [MDS_BALANCE_NONE] = NULL,
        [MDS_BALANCE_MICRO_BATCH] = "load_balancing_loss",
        [MDS_BALANCE_SEQUENCE] = "seq_load_balancing_loss",
        [MDS_BALANCE_BATCH] = "global_load_balancing_loss"};

    return (struct mds_router_names){
        {x->n > 0 && x->balance_coeff > 0 ? names[x->balance] : NULL,
         x->n > 0 && x->z_coeff > 0 ? "z_loss" : NULL}};
}

void mds_expert_mean_losses(const double *load, const double *losses, int64_t blocks,
                            int64_t experts, double *mean)
{
    int64_t n = 0;

    mean[0] = mean[1] = 0;
    for (int64_t b = 0; b < blocks; b++) {
        if (sum_of(load + b * experts, experts) == 0)
            continue;
        n++;
        for (int k = 0; k < 2; k++)
            mean[k] += (losses[2 * b + k] - mean[k]) / (double)n;
    }
}

void mds_expert_warn_of_idle(int64_t iteration, const double *load, int64_t blocks,
                             int64_t experts, int64_t *idle)
{
    int64_t n = 0, all = 0, first = 0;

    for (int64_t i = blocks * experts - 1; i >= 0; i--) {
        if (sum_of(load + i / experts * experts, experts) == 0)
            continue;
        all++;
        idle[i] = load[i] > 0 ? 0 : idle[i] + 1;
        if (idle[i] >= MDS_EXPERT_IDLE_STEPS && idle[i] < 2 * MDS_EXPERT_IDLE_STEPS) {
            first = i;
            n++;
        }
    }
    if (n > 0 && iteration % MDS_EXPERT_IDLE_STEPS == 0)
        mds_warn(
            "iteration %" PRId64 ": %" PRId64 " of %" PRId64 " experts (number %" PRId64
            " of block %" PRId64 ") computed no token in the last %d steps; a larger "
            "--moe-aux-loss-coeff keeps them busy",
            iteration, n, all, first % experts, first / experts, MDS_EXPERT_IDLE_STEPS);
}
