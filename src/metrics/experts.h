/* SPDX-License-Identifier: BSD-3-Clause */
/* How evenly a step's tokens went to experts. */
#ifndef MDS_METRICS_EXPERTS_H
#define MDS_METRICS_EXPERTS_H

#include <stdint.h>

struct mds_expert_load {
    double most;    /* of the busiest expert of any block, over an even share */
    double entropy; /* mean over blocks, as a share of the largest: 1 is even */
    int64_t idle;   /* experts of all blocks that computed no token */
};

/* load [blocks, experts]: how many tokens each computed. */
struct mds_expert_load mds_expert_load_of(const double *load, int64_t blocks,
                                          int64_t experts);

/* An expert that computes no token learns nothing, so it stays so: warn once, after
 * that many steps in a row or up to twice as many.  idle [blocks, experts]: for how
 * many it has not so far; zeroed at first. */
enum { MDS_EXPERT_IDLE_STEPS = 100 };
void mds_expert_warn_of_idle(int64_t iteration, const double *load, int64_t blocks,
                             int64_t experts, int64_t *idle);

#endif
