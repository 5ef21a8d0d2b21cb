/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives and point-to-point messages among a group of ranks.
 *
 * Every member calls the collectives of a group in the same order.  Groups are
 * independent of each other.  Calls of a group of one rank are not counted.
 *
 * Sums are added in rank order: the result has the same bits on every rank, in every
 * run, with any MPI and any order of arrival.  (On GPUs, NCCL chooses the order: see
 * mds_comm_create_nccl.)
 *
 * Every blocking call fails with MDS_ECOMM once a peer has been silent for longer than
 * the timeout (mds_comm_set_timeout_s).  After a failure the group can only be
 * destroyed: its members no longer agree on which call came last.
 *
 * What is logged when a rank is lost:
 *
 * - A rank hangs: the first rank to reach the timeout notifies all ranks of the run.
 *   Each waiting rank then logs what it waits for, for how long, and the last call it
 *   completed, and fails.  The rank that logs nothing is the one to look at.
 * - A rank fails or exits: it logs its own error and ends the others
 *   (transport/world.h).
 * - A rank is killed, most often by the kernel's OOM killer: its monitor process
 *   (src/monitor) logs the rank, the host, the signal and the rank's last collective.
 *   If the launcher then kills all other ranks at once, as MPICH's does, they log
 *   nothing.  Ranks on other nodes may still log a line; the times in the lines say
 *   which died first.  (An MPI library may abort a rank that was reading the dead
 *   rank's memory: that rank gets a line of its own.)  Launchers that send SIGTERM
 *   first (Open MPI's, srun) give waiting ranks time to log what they wait for, at most
 *   64 of them, unless the program catches SIGTERM itself (--exit-signal-handler).
 * - Members make different calls: with mds_comm_set_check, both calls and their call
 *   sites.  Without it, results are wrong or the ranks hang as in the first case. */
#ifndef MDS_COMM_COMM_H
#define MDS_COMM_COMM_H

#include "base/status.h"
#include "kernels/types.h"
#include "monitor/call.h"

#include <stdint.h>

struct mds_comm;

/* Create a group of n ranks of MPI_COMM_WORLD, including this one; ranks[i] gets group
 * rank i.  Collective over the members only.  tag names the group in log lines and
 * errors; it is copied. */
enum mds_rc mds_comm_create_mpi(const int *ranks, int n, const char *tag,
                                struct mds_comm **out);
/* The same of all `ranks` ranks of the program. */
enum mds_rc mds_comm_create_world(int ranks, const char *tag, struct mds_comm **out);

/* As create_mpi, for a dry run, as seen by one rank: no transport, and buffers are
 * neither read nor written.  Calls and bytes are counted as with MPI. */
enum mds_rc mds_comm_create_dry(int rank, int n, const char *tag,
                                struct mds_comm **out);

/* As create_mpi, for members that each have a GPU, dev.  Calls with device addresses
 * use NCCL, on streams of its own.  Calls with host addresses, all_reduce_f64 and
 * barrier use MPI.  All members pass the same kind of address to a call.  dev is
 * borrowed and must outlive the group.
 *
 * A call on device memory runs after everything queued on dev before it.  mds_comm_wait
 * makes whatever is queued on dev next wait for the call.  Neither blocks the host.
 * `work` is not used.  NCCL chooses the order of sums: it is the same on every rank,
 * and from run to run on the same machine; 16-bit numbers may be rounded at each hop.
 * A call that hangs is detected when the host waits for the device (mds_dev_copy_out).
 *
 * dev NULL: as create_mpi.  MDS_ENOSUP if this build has no NCCL and n > 1. */
struct mds_dev;
enum mds_rc mds_comm_create_nccl(const int *ranks, int n, const char *tag,
                                 struct mds_dev *dev, struct mds_comm **out);

/* An NCCL communicator takes some 200 MiB of GPU memory even if it is not used, so
 * communicators are only created on request.  Both calls are collective, and do nothing
 * for groups without a device.
 *
 * add_collectives: needed before the first collective with device addresses; further
 * calls do nothing.
 *
 * add_lane: needed before messages with device addresses.  A lane is a communicator of
 * two ranks, for messages of one tag in one direction; lanes are independent of each
 * other.  This creates those from every rank to the rank `step` (+1 or -1) further
 * around the group. */
enum mds_rc mds_comm_add_collectives(struct mds_comm *c);
enum mds_rc mds_comm_add_lane(struct mds_comm *c, int tag, int step);

/* Before add_collectives: NCCL uses at most n channels.  An exchange or all_to_all of 8
 * GPUs of a node takes 2.6 GiB of each with 32 channels, and 0.7 GiB with 8. */
void mds_comm_limit_channels(struct mds_comm *c, int n);

/* NULL is fine.  No request may be in flight, unless a call of the group has failed. */
void mds_comm_destroy(struct mds_comm *c);

int mds_comm_rank(const struct mds_comm *c);
int mds_comm_size(const struct mds_comm *c);

struct mds_comm_count {
    int64_t calls;
    /* Bytes of the buffer: of an all_reduce, broadcast, all_to_all or message the only
     * size there is; of a reduce_scatter the input, of an all_gather the output; of an
     * exchange what this rank sends. */
    int64_t payload_bytes;
    /* Bytes sent per rank, the mean over the group; for messages and exchanges, sent by
     * this rank. */
    int64_t wire_bytes;
};

struct mds_comm_stats {
    int64_t calls, wire_bytes; /* of all kinds */
    struct mds_comm_count of[MDS_COMM_KINDS];
};

const struct mds_comm_stats *mds_comm_stats(const struct mds_comm *c);

/* How many channels NCCL uses: for ring collectives, and per peer for sends.
 * NCCL_DEBUG=INFO prints them: "24 coll channels, ... 32 p2p channels per peer" on
 * nodes with A100s or H100s behind an NVSwitch. */
struct mds_comm_channels {
    int ring, peer;
};
#define MDS_COMM_CHANNELS ((struct mds_comm_channels){24, 32})

/* GPU memory, in bytes per GPU, that NCCL allocates for a group, given the calls
 * counted so far and the lanes added.  here: how many members share a node.  Dry groups
 * give the same answer.  MDS_COMM_NCCL_BYTES is what NCCL takes once for its code and
 * for what all groups share. */
int64_t mds_comm_nccl_bytes(const struct mds_comm *c, int here,
                            struct mds_comm_channels n);
#define MDS_COMM_NCCL_BYTES (INT64_C(316) << 20)

/* The group's name, as given when it was created; borrowed from the group. */
const char *mds_comm_tag(const struct mds_comm *c);

/* The time of calls in a dry group, on the clock of its device (device/clock.h).  They
 * begin when the stream has come to them, and are shared with the link's other calls
 * while these last; what the stream waits for is exposed. */
struct mds_comm_rates {
    struct mds_dev *dev; /* borrowed */
    int network;         /* the group's links leave the node */
    int in_turn;         /* peers work in turn: nothing hides its messages */
    double beside;       /* seconds that computing takes longer for each hidden one */
    struct {
        double call_s, byte_s; /* of a call, and of each byte on the wire */
        double shared; /* longer beside another call on the links: 1 is twice as long */
    } of[MDS_COMM_KINDS];
};
void mds_comm_set_rates(struct mds_comm *c, const struct mds_comm_rates *rates);
double mds_comm_exposed_s(const struct mds_comm *c);

/* A call that takes s seconds, and when it ends. */
struct mds_comm_flight {
    double s, end_s;
    double compute_s; /* what the device had computed when it was called */
};

/* Handle of a collective in flight.  The caller owns it, zeroes it before its first
 * use, and neither moves nor changes it until it is done; then it may be reused. */
struct mds_comm_req {
    struct mds_comm *comm; /* borrowed; NULL: idle */
    struct mds_comm_req *next;
    struct mds_comm_call call;
    const char *in; /* borrowed until done, as are out, sum and work */
    char *out, *sum, *work;
    int64_t count; /* elements of all shards together */
    int64_t shard; /* elements of one shard; the last ones are shorter or empty */
    int64_t step;  /* elements of each shard that are sent at a time */
    int64_t at;    /* first element, within each shard, of the current step */
    int elem_bytes, stages, stage, tag, slot;
    int64_t ticket;                /* of a call on the device; 0: not on the device */
    struct mds_comm_flight flight; /* in a dry run */
};

/* A rank's shard of a flat buffer of count elements: n elements from `first` on.  All
 * shards have the same length, a multiple of 64, except the last ones, which may be
 * shorter or empty.  (NCCL only handles equal shards.)  Pure arithmetic; count >= 0,
 * 0 <= rank < size. */
void mds_comm_shard(int64_t count, int size, int rank, int64_t *first, int64_t *n);

/* Replace buf[count] by its sum over the group, on every rank.  dtype is f32, bf16 or
 * f16; 16-bit numbers are added in f32 and rounded once.
 *
 * work: mds_comm_all_reduce_work bytes of scratch, at most about 16 MiB; borrowed until
 * the request is done.
 *
 * start returns at once.  Every start, poll and wait makes progress on the requests of
 * all groups.  Any number may be in flight, each with its own buffers: a few are
 * sent at a time, the others follow in order.
 * Source: a direct exchange of shards, summed by their owner, then gathered; Thakur,
 * Rabenseifner, Gropp 2005, doi:10.1177/1094342005051521, sections 4.4 and 4.5. */
int64_t mds_comm_all_reduce_work(const struct mds_comm *c, int64_t count,
                                 enum mdsk_dtype dtype);
enum mds_rc mds_comm_all_reduce_start(struct mds_comm *c, void *buf, int64_t count,
                                      enum mdsk_dtype dtype, void *work,
                                      struct mds_comm_req *req);

/* The first half of an all-reduce: replace this rank's shard (mds_comm_shard) of
 * buf[count] by its sum.  The rest of buf is unchanged.  work: as for all_reduce. */
enum mds_rc mds_comm_reduce_shards_start(struct mds_comm *c, float *buf, int64_t count,
                                         float *work, struct mds_comm_req *req);

/* The second half: copy every rank's shard of buf to all ranks.  buf has count elements
 * of elem_bytes bytes. */
enum mds_rc mds_comm_gather_shards_start(struct mds_comm *c, void *buf, int64_t count,
                                         int elem_bytes, struct mds_comm_req *req);

/* out[size x bytes] = every rank's in[bytes], in rank order.  in may point to this
 * rank's part of out (in place). */
enum mds_rc mds_comm_all_gather_start(struct mds_comm *c, const void *in, void *out,
                                      int64_t bytes, struct mds_comm_req *req);

/* out[per_rank] = this rank's part of the sum of every rank's in[size x per_rank].  out
 * may point to this rank's part of in (in place).  dtype as for all_reduce.  work:
 * mds_comm_reduce_scatter_work bytes. */
int64_t mds_comm_reduce_scatter_work(const struct mds_comm *c, int64_t per_rank,
                                     enum mdsk_dtype dtype);
enum mds_rc mds_comm_reduce_scatter_start(struct mds_comm *c, const void *in, void *out,
                                          int64_t per_rank, enum mdsk_dtype dtype,
                                          void *work, struct mds_comm_req *req);

/* out[p] = rank p's in[this rank], blocks of `bytes` bytes: in[size x bytes] and
 * out[size x bytes] do not overlap. */
enum mds_rc mds_comm_all_to_all_start(struct mds_comm *c, const void *in, void *out,
                                      int64_t bytes, struct mds_comm_req *req);

/* Make progress without blocking.  Returns MDS_OK whether or not the request is done,
 * and does not check the timeout. */
enum mds_rc mds_comm_poll(struct mds_comm_req *req);

/* Whether the request is done (or was never started). */
int mds_comm_done(const struct mds_comm_req *req);

/* Block until done. */
enum mds_rc mds_comm_wait(struct mds_comm_req *req);

/* start and wait. */
enum mds_rc mds_comm_all_reduce(struct mds_comm *c, void *buf, int64_t count,
                                enum mdsk_dtype dtype, void *work);
enum mds_rc mds_comm_all_gather(struct mds_comm *c, const void *in, void *out,
                                int64_t bytes);
enum mds_rc mds_comm_all_to_all(struct mds_comm *c, const void *in, void *out,
                                int64_t bytes);

/* All-reduce buf[n], for a few numbers: losses, norms, flags.  A maximum is NaN if any
 * value is NaN.  Blocking. */
enum mds_rc mds_comm_all_reduce_f64(struct mds_comm *c, double *buf, int n,
                                    enum mds_comm_op op);

/* out[size x bytes] = every rank's in[bytes], in rank order: for small records in host
 * memory, in log2(size) messages per 128 bytes.  Blocking. */
enum mds_rc mds_comm_gather_records(struct mds_comm *c, const void *in, int64_t bytes,
                                    void *out);

/* Blocks of any lengths, n from each rank to each: send in's blocks send[i, p] to rank
 * p, and receive out's blocks recv[i, p] from it, for all ranks p but this one; send
 * and recv [n, size].  What p sends is as long as what is received of it, block by
 * block.  Blocks of `in` may overlap; those of out do not, nor with in's.  in and out
 * are given even if nothing is sent or received.  Blocking. */
enum mds_rc mds_comm_exchange(struct mds_comm *c, int n, const void *in,
                              const struct mds_comm_block *send, void *out,
                              const struct mds_comm_block *recv);

/* Copy buf[bytes] from rank `root` to all.  Blocking. */
enum mds_rc mds_comm_broadcast(struct mds_comm *c, void *buf, int64_t bytes, int root);

/* Returns after every member has called it. */
enum mds_rc mds_comm_barrier(struct mds_comm *c);

enum { MDS_COMM_P2P_TAGS = 1 << 13 };

/* One message in flight; embedded like mds_comm_req. */
struct mds_comm_p2p {
    struct mds_comm *comm; /* borrowed; NULL: idle */
    struct mds_comm_p2p *next;
    char *buf; /* borrowed until done */
    int64_t bytes;
    int64_t at;       /* first byte of the fragment in flight */
    int64_t fragment; /* its length; 0: none is in flight */
    uint64_t message; /* its handle (mds_mpi_start) */
    int64_t ticket;   /* of a message on the device; 0: not on the device */
    struct mds_comm_flight flight; /* in a dry run */
    struct mds_comm_call call;
};

/* Send buf[bytes] to, or receive it from, another rank of the group;
 * 0 <= tag < MDS_COMM_P2P_TAGS.
 *
 * Sends and receives match by peer, tag and the order of their starts; the lengths must
 * be equal.  start returns at once; any number may be in flight, also with the same
 * tag.  bytes may exceed an int: long messages are sent in fragments.  Messages and
 * collectives are independent: their relative order does not matter. */
enum mds_rc mds_comm_send_start(struct mds_comm *c, const void *buf, int64_t bytes,
                                int peer, int tag, struct mds_comm_p2p *req);
enum mds_rc mds_comm_recv_start(struct mds_comm *c, void *buf, int64_t bytes, int peer,
                                int tag, struct mds_comm_p2p *req);

/* As mds_comm_wait. */
enum mds_rc mds_comm_p2p_wait(struct mds_comm_p2p *req);

/* How long to wait for a silent peer, in seconds; default 600 (Megatron's
 * --distributed-timeout-minutes). */
void mds_comm_set_timeout_s(double s);

/* Set how many floats a long collective sends per step.  The same on every rank, set
 * while nothing is in flight.  Default 4 Mi: a larger value saves little time, a
 * smaller one saves work memory.  Messages are sent in fragments of 64 times that, at
 * most 1 GiB. */
void mds_comm_set_segment(int64_t floats);

/* Before each collective, check that all members make the same call.  If they do not,
 * it fails on every rank with both calls and their call sites.  The same on every rank,
 * set while nothing is in flight; default off.  For debugging: even a start then waits
 * for the other members. */
void mds_comm_set_check(int on);

/* Record in the profile of dev (device/profile.h), by enum mds_comm_kind, how long
 * calls take and how long the program or the device waits for them.  NULL (default):
 * off. */
void mds_comm_set_profile(struct mds_dev *dev);

#include "comm/call_site.h"

#endif
