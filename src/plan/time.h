/* SPDX-License-Identifier: BSD-3-Clause */
/* What a step takes by a ledger: a roofline over the machine's rates and links.  For
 * predict.c alone. */
#ifndef MDS_PLAN_TIME_H
#define MDS_PLAN_TIME_H

#include "plan/predict.h"
#include "plan/rehearse.h"

/* Fills the times of *e. */
void mds_plan_time(const struct mds_machine *m, const struct mds_config *c,
                   int per_node, const struct mds_rehearsal *r, struct mds_estimate *e);

#endif
