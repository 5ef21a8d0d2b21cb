/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPU memory that NCCL allocates for a group, computed the way NCCL does.
 *
 * Source: github.com/NVIDIA/nccl, v2.28.9, with its defaults:
 * - buffers of a connection, init.cc (computeBuffSizes) and device.h: 4 MiB for the
 *   protocol Simple; for LL 8 lines x 512 threads x 8 steps x 16 bytes; for LL128 120
 *   words x 640 threads x 8 steps x 8 bytes.  The receiver has all three, the sender a
 *   page of counters (transport/p2p.cc).  On sm_80, where the receiver reads from
 *   the sender's memory, Simple is the sender's; the sum is the same.
 * - each allocation is rounded up to 2 MiB, cuMemCreate's granularity (alloc.h).
 * - each channel of a communicator has three small ones (channel.cc), the communicator
 *   two (init.cc, devCommSetup).
 * - connections are made at the first call that needs them.  Reductions and gathers use
 *   a ring (transport/generic.cc).  Short all-reduces use a chain of the same GPUs in
 *   both directions: one more connection each way for most GPUs.  Sends and receives
 *   have their own connections to each peer (enqueue.cc).
 * - to peers on other nodes, sends share one buffer each way of 16 steps x 128 KiB per
 *   channel (transport/net.cc), and NCCL has two channels per peer
 *   (graph/paths.cc, ncclTopoGetNchannels). */
#include "comm/internal.h"

enum { GRANULE = 2 << 20, NET_PEER_CHANNELS = 2, LANE_CHANNELS = 8 };

/* Buffers of a connection within a node. */
static const int64_t send_bytes = GRANULE;
static const int64_t recv_bytes = INT64_C(5) * GRANULE; /* 4 + 0.5 + 4.7 MiB */

/* Between nodes both ends allocate what the receiver does within a node. */
static const int64_t net_bytes = INT64_C(5) * GRANULE;

/* Streams, events and a memory pool of each communicator, as measured on lanes. */
static const int64_t handle_bytes = INT64_C(4) * GRANULE;

static int64_t communicator_bytes(int channels)
{
    return handle_bytes + INT64_C(2) * GRANULE + INT64_C(3) * GRANULE * channels;
}

/* Connections of a ring.  In each channel, one of the `here` members on this node sends
 * to another node and one receives from another; which ones varies by channel, so this
 * is the mean. */
static int64_t ring_bytes(int size, int here, int channels)
{
    int64_t bytes = send_bytes + recv_bytes;

    if (here < size)
        bytes += (2 * net_bytes - bytes) / here;
    return channels * bytes;
}

static int64_t peer_bytes(int size, int here, int channels, int peer_channels)
{
    const int64_t shared = 16 * (INT64_C(128) << 10);

    if (here == size)
        return (size - 1) * peer_channels * (send_bytes + recv_bytes);
    return (here - 1) * NET_PEER_CHANNELS * (send_bytes + recv_bytes) +
           2 * channels * shared;
}

/* A lane: one communicator of two ranks to send, and one to receive. */
static int64_t lane_bytes(void)
{
    return 2 * communicator_bytes(LANE_CHANNELS) +
           LANE_CHANNELS * (send_bytes + recv_bytes);
}

static int64_t count_calls(const struct mds_comm *c, enum mds_comm_kind kind)
{
    return c->stats.of[kind].calls;
}

int64_t mds_comm_nccl_bytes(const struct mds_comm *c, int here,
                            struct mds_comm_channels n)
{
    int64_t bytes, sums = count_calls(c, MDS_COMM_ALL_REDUCE);
    int most;

    if (c->channels > 0 && c->channels < n.ring)
        n.ring = c->channels;
    if (c->channels > 0 && c->channels < n.peer)
        n.peer = c->channels;
    most = n.peer > n.ring ? n.peer : n.ring;
    if (c->peers.size == 1)
        return 0;
    bytes = c->lanes * lane_bytes();
    if (!c->has_collectives)
        return bytes;
    bytes += communicator_bytes(most);
    if (sums + count_calls(c, MDS_COMM_REDUCE_SCATTER) +
            count_calls(c, MDS_COMM_ALL_GATHER) + count_calls(c, MDS_COMM_BROADCAST) >
        0)
        bytes += ring_bytes(c->peers.size, here, n.ring);
    if (sums > 0)
        bytes += ring_bytes(c->peers.size, here, n.ring);
    if (count_calls(c, MDS_COMM_ALL_TO_ALL) + count_calls(c, MDS_COMM_EXCHANGE) > 0)
        bytes += peer_bytes(c->peers.size, here, most, n.peer);
    return bytes;
}
