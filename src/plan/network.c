/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan/network.h"

#include <math.h>
#include <string.h>

struct mds_network mds_network_of(const struct mds_machine *m,
                                  const struct mds_config *c, int per_node)
{
    return (struct mds_network){.machine = m,
                                .per_node = per_node,
                                .direct = m->node.gpus == 0 ||
                                          strcmp(c->output.device, "cpu") == 0};
}

static int is_message(enum mds_comm_kind kind)
{
    return kind == MDS_COMM_SEND || kind == MDS_COMM_RECV;
}

/* Whether each rank sends to all others. */
static int goes_to_all(const struct mds_network *n, enum mds_comm_kind kind)
{
    return kind == MDS_COMM_ALL_TO_ALL || kind == MDS_COMM_EXCHANGE ||
           (n->direct && !is_message(kind));
}

/* Bytes a second of one rank in a group of so many GPUs of a node. */
static double node_rate(const struct mds_machine *m, int ranks)
{
    return ranks == 2 && m->links.pair_bytes_s > 0 ? m->links.pair_bytes_s
                                                   : m->links.gpu_bytes_s;
}

/* Bytes a second of one rank.  Inside a node: its link.  Beyond: the node's adapters
 * are shared by the groups that cross there; of what goes to the next rank each node
 * sends what one member does, of what goes to all ranks what all its members do. */
static double link_rate(const struct mds_network *n, struct mds_rank_span s,
                        enum mds_comm_kind kind)
{
    const struct mds_machine *m = n->machine;
    int here = mds_span_in_node(s, n->per_node);
    double share, beyond;

    if (here == s.size)
        return node_rate(m, is_message(kind) ? 2 : s.size);
    share = m->links.net_bytes_s / n->per_node;
    if (goes_to_all(n, kind)) {
        beyond = (double)(s.size - here) / (s.size - 1);
        return share / beyond;
    }
    share *= here;
    return share < m->links.gpu_bytes_s ? share : m->links.gpu_bytes_s;
}

static double tree_depth(double n)
{
    return n > 1 ? ceil(log2(n)) : 0;
}

/* How many latencies one call takes.  Inside a node one per doubling of ranks, as was
 * measured.  Beyond, a gather and a reduction go around a ring of the nodes (NCCL has
 * no tree for them), a sum over all around it twice, or up and down a tree of nodes,
 * whichever is shorter; a message is one more, messages to all go at once. */
static double group_hops(const struct mds_network *n, struct mds_rank_span s,
                         enum mds_comm_kind kind)
{
    int here = mds_span_in_node(s, n->per_node);
    double nodes = ceil((double)s.size / here), inside = tree_depth(here);

    if (n->direct && !is_message(kind))
        return tree_depth(s.size) * (kind == MDS_COMM_ALL_REDUCE ? 2 : 1);
    switch (kind) {
    case MDS_COMM_SEND:
    case MDS_COMM_RECV:
        return 1 + (nodes > 1);
    case MDS_COMM_ALL_GATHER:
    case MDS_COMM_REDUCE_SCATTER:
        return inside + nodes - 1;
    case MDS_COMM_ALL_REDUCE:
        return inside + fmin(2 * (nodes - 1), 2 * tree_depth(nodes));
    default:
        return tree_depth(s.size);
    }
}

double mds_network_call_s(const struct mds_network *n, struct mds_rank_span s,
                          enum mds_comm_kind kind, int64_t wire_bytes)
{
    return (double)wire_bytes / link_rate(n, s, kind) +
           group_hops(n, s, kind) * n->machine->links.latency_s;
}

/* One collective reaches 325e9 of the 450e9 bytes a second of an H200's links (NVLink
 * 4, data sheet; machines/h200.yaml).  Adapters are taken to be full. */
double mds_network_shared(const struct mds_network *n, struct mds_rank_span s,
                          enum mds_comm_kind kind)
{
    const double reached = 325e9 / 450e9;

    if (mds_span_in_node(s, n->per_node) < s.size)
        return 1;
    return fmax((link_rate(n, s, kind) + node_rate(n->machine, n->per_node)) * reached /
                        n->machine->links.gpu_bytes_s -
                    1,
                0);
}
