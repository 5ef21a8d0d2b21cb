/* SPDX-License-Identifier: BSD-3-Clause */
/* How evenly a step's tokens went to experts. */
#ifndef MDS_METRICS_EXPERTS_H
#define MDS_METRICS_EXPERTS_H

#include "config/config.h"

#include <stdint.h>

struct mds_expert_load {
    double most;    /* of the busiest expert of any block, over an even share */
    double entropy; /* mean over blocks, as a share of the largest: 1 is even */
    int64_t idle;   /* experts of all blocks that computed no token */
};

/* Megatron's names of the losses that a router adds, balance and z; NULL: the model has
 * not that one. */
struct mds_router_names {
    const char *of[2];
};

struct mds_router_names mds_router_names_of(const struct mds_experts_config *x);

/* load [blocks, experts]: how many tokens each computed. */
struct mds_expert_load mds_expert_load_of(const double *load, int64_t blocks,
                                          int64_t experts);

/* mean [2] = that of losses [blocks, 2] over the blocks with experts. */
void mds_expert_mean_losses(const double *load, const double *losses, int64_t blocks,
                            int64_t experts, double *mean);

/* An expert that computes no token learns nothing, so it stays so: warn once, after
 * that many steps in a row or up to twice as many.  idle [blocks, experts]: for how
 * many it has not so far; zeroed at first. */
enum { MDS_EXPERT_IDLE_STEPS = 100 };
void mds_expert_warn_of_idle(int64_t iteration, const double *load, int64_t blocks,
                             int64_t experts, int64_t *idle);

#endif
