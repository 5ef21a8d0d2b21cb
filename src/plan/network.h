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

/* Seconds of a call that sends so many bytes per rank of a group, while all other
 * groups of its kind make the same call. */
double mds_network_call_s(const struct mds_network *n, struct mds_rank_span s,
                          enum mds_comm_kind kind, int64_t wire_bytes);

/* How much longer it takes while another call uses the same links: 1 is twice as
 * long. */
double mds_network_shared(const struct mds_network *n, struct mds_rank_span s,
                          enum mds_comm_kind kind);

#endif
