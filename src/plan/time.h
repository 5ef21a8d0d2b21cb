/* What a step takes by a ledger: a roofline over the machine's rates and links.  For
 * predict.c alone. */
#ifndef MDS_PLAN_TIME_H
#define MDS_PLAN_TIME_H

#include "device/device.h"
#include "parallel/groups.h"
#include "plan/predict.h"

/* What one step left in the ledgers of a rank. */
struct mds_rehearsal {
    struct mds_ledger ledger;
    struct mds_comm_stats comm[MDS_GROUPS];
    struct mds_span span[MDS_GROUPS];
    int64_t host_bytes;
    int64_t host_weights; /* that the host updates */
};

/* Fills the times of *e. */
void mds_plan_time(const struct mds_machine *m, const struct mds_config *c,
                   int per_node, const struct mds_rehearsal *r, struct mds_estimate *e);

#endif
