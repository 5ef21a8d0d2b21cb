/* SPDX-License-Identifier: BSD-3-Clause */
/* The time of a step from its ledger: a roofline over the machine's rates and links.
 * Private to predict.c and its test. */
#ifndef MDS_PLAN_TIME_H
#define MDS_PLAN_TIME_H

#include "plan/predict.h"
#include "plan/dry_run.h"

/* Set the times in *e. */
void mds_plan_time(const struct mds_machine *m, const struct mds_config *c,
                   int per_node, const struct mds_dry_step *r, struct mds_estimate *e);

/* Seconds of attention, forward or backward, of which the ledger counts these FLOPs. */
double mds_plan_attention_s(const struct mds_machine *m, const struct mds_config *c,
                            double flops, int backward);

#endif
