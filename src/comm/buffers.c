/* SPDX-License-Identifier: BSD-3-Clause */
/* What NCCL takes of a GPU for a group, reckoned as it allocates.
 *
 * Source: github.com/NVIDIA/nccl, v2.28.9, with its defaults:
 * - buffers of a connection, init.cc (computeBuffSizes) and device.h: 4 MiB for the
 *   protocol Simple; for LL 8 lines x 512 threads x 8 steps x 16 bytes; for LL128 120
 *   words x 640 threads x 8 steps x 8 bytes.  The receiver has all three, the sender a
 *   page of counters (transport/p2p.cc).  Where GPUs of sm_80 read, Simple is the
 *   sender's; the sum is the same.
 * - each allocation is rounded up to 2 MiB, what cuMemCreate gives out (alloc.h).
 * - each channel of a communicator has three small ones (channel.cc), the communicator
 *   two (init.cc, devCommSetup).
 * - connections are made at the first call that needs them: reductions and gathers go
 *   around a ring (transport/generic.cc), short all-reduces along a chain of the same
 *   GPUs in both directions, so that most of them get one connection each way more;
 *   sends and receives have connections of their own to each peer (enqueue.cc).
 * - to peers on other nodes sends share one buffer each way of 16 steps x 128 KiB for
 *   each channel (transport/net.cc), and NCCL has two channels for each of all peers
 *   (graph/paths.cc, ncclTopoGetNchannels). */
#include "comm/internal.h"

enum { FLAT = 2 << 20, NET_PEER_CHANNELS = 2, LANE_CHANNELS = 8 };

/* Of a connection within a node. */
static const int64_t send_bytes = FLAT;
static const int64_t recv_bytes = INT64_C(5) * FLAT; /* 4 + 0.5 + 4.7 MiB */

/* Between nodes both ends have what the receiver has within one. */
static const int64_t net_bytes = INT64_C(5) * FLAT;

/* Streams, events, a memory pool: of each communicator, measured (lanes of a ring). */
static const int64_t handle_bytes = INT64_C(4) * FLAT;

static int64_t communicator_bytes(int channels)
{
    return handle_bytes + INT64_C(2) * FLAT + INT64_C(3) * FLAT * channels;
}

/* Once around the ring.  Of the `here` members that share a node one sends out of it,
 * and another receives: each channel chooses others. */
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

/* A line out and a line in, each a communicator of two ranks that uses one direction.
 */
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
    int most = n.peer > n.ring ? n.peer : n.ring;
    int64_t bytes, sums = count_calls(c, MDS_COMM_ALL_REDUCE);

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
    if (count_calls(c, MDS_COMM_ALL_TO_ALL) > 0)
        bytes += peer_bytes(c->peers.size, here, most, n.peer);
    return bytes;
}
