/* SPDX-License-Identifier: BSD-3-Clause */
/* A model of messages in a cluster: links inside nodes, adapters between them, and the
 * groups that use the same links at the same time. */
#ifndef MDS_PLAN_NETWORK_H
#define MDS_PLAN_NETWORK_H

#include "comm/comm.h"
#include "config/config.h"
#include "plan/machine.h"
#include "topo/grid.h"

struct mds_network {
    const struct mds_machine *machine; /* borrowed */
    int per_node;                      /* ranks, in order */
    int direct; /* ranks exchange shards directly (comm/), not around NCCL's rings */
};

/* The network of a run: GPUs communicate by NCCL, CPUs by comm/'s own collectives. */
struct mds_network mds_network_of(const struct mds_machine *m,
                                  const struct mds_config *c, int per_node);

/* Seconds that all calls counted in *stats take in a group, while all other groups of
 * its kind make the same calls; or the calls of one kind alone. */
double mds_network_s(const struct mds_network *n, struct mds_rank_span s,
                     const struct mds_comm_stats *stats);
double mds_network_collective_s(const struct mds_network *n, struct mds_rank_span s,
                                const struct mds_comm_stats *stats,
                                enum mds_comm_kind kind);

#endif
