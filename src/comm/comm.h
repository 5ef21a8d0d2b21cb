/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives among a group of ranks.
 *
 * Every member calls the same collectives of a group in the same order.  Groups are
 * independent of each other.  A group of one rank counts nothing.
 *
 * Sums are made in rank order: the result has the same bits on every rank, in every
 * run, with any MPI and any order of arrival.
 *
 * Every blocking call fails with MDS_ECOMM once a peer has been silent for longer than
 * the timeout (mds_comm_set_timeout_s).  After a failure the group can only be
 * destroyed: its members no longer agree on which call came last.
 *
 * What is logged when a rank is lost:
 *
 * - A rank hangs, or calls nothing any more: whoever reaches the limit tells all ranks
 *   of the run.  Each that waits then logs what for, since when, and what it completed
 *   last, and fails.  The rank without a line is the one to look at.
 * - A rank fails, or exits: its own sentence.  It ends the others (transport/world.h).
 * - A rank is killed, by the kernel for want of memory more often than by anybody else:
 *   a process that the rank left beside itself (src/monitor) says which rank on which
 *   host, by which signal, and its last collective.  Where a launcher then kills all
 *   others at once, as MPICH's does, those are silent; on other nodes one of them may
 *   speak, and the time in the lines says which was first.  (MPI libraries may abort a
 *   rank that was just reading the dead one's memory: that has a line of its own.)
 * Launchers that begin with SIGTERM (Open MPI's, srun) let ranks that wait write what
 * for, at most 64 of them; a program that catches SIGTERM itself
 * (--exit-signal-handler) does not. - Members make different calls: with
 * mds_comm_set_check, both calls and where they
 *   are in the source.  Without it, wrong results or the first of these cases. */
#ifndef MDS_COMM_COMM_H
#define MDS_COMM_COMM_H

#include "base/status.h"
#include "kernels/types.h"
#include "monitor/call.h"

#include <stdint.h>

struct mds_comm;

/* A group of n ranks of MPI's world, this one included; their order is the group's.
 * Collective over the members only.  tag names the group in messages; copied. */
enum mds_rc mds_comm_create_mpi(const int *ranks, int n, const char *tag,
                                struct mds_comm **out);

/* The same group seen by one of its ranks, without any transport: data stay as they are
 * and are never touched, calls and bytes are counted as with MPI. */
enum mds_rc mds_comm_create_dry(int rank, int n, const char *tag,
                                struct mds_comm **out);

/* The same as create_mpi for members that each have a GPU, dev: what is called with
 * addresses of the device goes by NCCL, over streams of its own; with addresses of the
 * host, and for doubles and barriers, as with MPI.  All members of a call have the same
 * kind of address.  dev is borrowed and outlives the group.
 *
 * On the device a call waits for what was queued there before it, and waiting makes
 * what is queued next wait: neither keeps the host.  `work` is not used.  Sums are made
 * in NCCL's order, the same on every rank and from run to run on the same machine, and
 * 16-bit numbers may be rounded at each hop.  What never ends is noticed while the
 * device is waited for (mds_dev_copy_out).
 *
 * dev NULL: as create_mpi.  MDS_ENOSUP if this build has no NCCL, and n > 1. */
struct mds_dev;
enum mds_rc mds_comm_create_nccl(const int *ranks, int n, const char *tag,
                                 struct mds_dev *dev, struct mds_comm **out);

/* An NCCL communicator takes some 200 MiB of GPU memory per group even if it is not
 * used, so these are only created on request.  Both calls are collective, and do
 * nothing for groups without a device.
 *
 * collectives: once before the first call with addresses of the device; again is fine.
 *
 * lane: messages travel on lanes, each independent of all others: this makes those of a
 * tag from every rank to the one `step` further on, +1 or -1, around the group. */
enum mds_rc mds_comm_add_collectives(struct mds_comm *c);
enum mds_rc mds_comm_add_lane(struct mds_comm *c, int tag, int step);

/* NULL is fine.  No request may be in flight, unless one has failed. */
void mds_comm_destroy(struct mds_comm *c);

int mds_comm_rank(const struct mds_comm *c);
int mds_comm_size(const struct mds_comm *c);

struct mds_comm_count {
    int64_t calls;
    /* The buffer of an all_reduce, broadcast or message; what a reduce_scatter takes,
     * an all_gather gives, an all_to_all takes and gives. */
    int64_t payload_bytes;
    /* Sent by a rank, in the mean over the group; for messages, by this one. */
    int64_t wire_bytes;
};

struct mds_comm_stats {
    int64_t calls, wire_bytes; /* of all kinds */
    struct mds_comm_count of[MDS_COMM_KINDS];
};

const struct mds_comm_stats *mds_comm_stats(const struct mds_comm *c);

/* How many channels NCCL has: around a ring, and to each peer for sends.
 * NCCL_DEBUG=INFO tells, "24 coll channels, ... 32 p2p channels per peer": that is
 * where an NVSwitch joins A100s or H100s. */
struct mds_comm_channels {
    int ring, peer;
};
#define MDS_COMM_CHANNELS ((struct mds_comm_channels){24, 32})

/* Memory of each GPU that NCCL takes for a group after such calls as were counted and
 * such lanes as were made, and besides, once, for its code and what is for all groups.
 * here: how many members share a node.  The same for dry groups as for others. */
int64_t mds_comm_nccl_bytes(const struct mds_comm *c, int here,
                            struct mds_comm_channels n);
#define MDS_COMM_NCCL_BYTES (INT64_C(316) << 20)

/* The name it was given. */
const char *mds_comm_tag(const struct mds_comm *c);

/* Handle of a collective in flight.  The caller embeds it, zero-initialised, and
 * neither moves nor changes it until it is done; then it may be used again. */
struct mds_comm_req {
    struct mds_comm *comm; /* borrowed; NULL: idle */
    struct mds_comm_req *next;
    struct mds_comm_call call;
    const char *in; /* borrowed until done, as are out, sum and work */
    char *out, *sum, *work;
    int64_t count; /* elements of all slices together */
    int64_t chunk; /* of one, but where count ends */
    int64_t step;  /* of each slice, that move at once */
    int64_t at;    /* first one, in each slice, of the step under way */
    int elem_bytes, stages, stage, tag, slot;
    int64_t ticket; /* on the device: which; 0: not there */
};

/* Which part of a flat buffer of count elements is this rank's: all ranks' parts are of
 * one length, a multiple of 64, but for the last ones that are shorter or empty. (Equal
 * ones are what NCCL knows.)  Arithmetic only; count >= 0, 0 <= rank < size. */
void mds_comm_slice(int64_t count, int size, int rank, int64_t *first, int64_t *n);

/* buf[count] becomes the sum over the group, on every rank.  Of dtype f32, bf16 or f16:
 * 16-bit numbers are added in f32 and rounded once.
 *
 * work: mds_comm_all_reduce_work bytes, at most about 16 MiB whatever the count.
 *
 * start returns at once; progress is made whenever anything of this header is called,
 * for any group.  Any number may be in flight, each with memory of its own: the first
 * few move at once, the others follow in order.
 * Source: a direct exchange of slices, summed by their owner, then gathered; Thakur,
 * Rabenseifner, Gropp 2005, doi:10.1177/1094342005051521, sections 4.4 and 4.5. */
int64_t mds_comm_all_reduce_work(const struct mds_comm *c, int64_t count,
                                 enum mdsk_dtype dtype);
enum mds_rc mds_comm_all_reduce_start(struct mds_comm *c, void *buf, int64_t count,
                                      enum mdsk_dtype dtype, void *work,
                                      struct mds_comm_req *req);

/* The first half of an all-reduce: this rank's slice (mds_comm_slice) of buf[count]
 * becomes the sum; the rest of buf keeps what it was.  work as for all_reduce. */
enum mds_rc mds_comm_reduce_slices_start(struct mds_comm *c, float *buf, int64_t count,
                                         float *work, struct mds_comm_req *req);

/* The other half: every rank's slice of buf, count elements of elem_bytes bytes,
 * reaches all. */
enum mds_rc mds_comm_gather_slices_start(struct mds_comm *c, void *buf, int64_t count,
                                         int elem_bytes, struct mds_comm_req *req);

/* out[size x bytes] = every rank's in[bytes], in rank order.  in may be this rank's own
 * place in out. */
enum mds_rc mds_comm_all_gather_start(struct mds_comm *c, const void *in, void *out,
                                      int64_t bytes, struct mds_comm_req *req);

/* out[per_rank] = this rank's part of the sum of every rank's in[size x per_rank].  out
 * may be that part of in.  dtype as for all_reduce.  work:
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

/* Make progress without blocking; MDS_OK whether or not the request is done.  Never
 * fails for a peer's silence. */
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

/* buf[n], for a few numbers: losses, norms, flags.  A maximum is NaN if any value is.
 * Blocking. */
enum mds_rc mds_comm_all_reduce_f64(struct mds_comm *c, double *buf, int n,
                                    enum mds_comm_op op);

/* buf[bytes] of rank `root` reaches all.  Blocking. */
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
    int64_t at;       /* first byte of the piece under way */
    int64_t piece;    /* its length; 0: none is under way */
    uint64_t message; /* the transport's name for it */
    int64_t ticket;   /* on the device: which; 0: not there */
    struct mds_comm_call call;
};

/* buf[bytes] to or from another rank of the group, 0 <= tag < MDS_COMM_P2P_TAGS.
 *
 * A send and a receive meet by peer, tag and the order of their starts; their lengths
 * must be equal.  start returns at once; any number may be in flight, also of one tag.
 * bytes may exceed an int: long messages travel in pieces.  Messages pass by
 * collectives: their order among those does not matter. */
enum mds_rc mds_comm_send_start(struct mds_comm *c, const void *buf, int64_t bytes,
                                int peer, int tag, struct mds_comm_p2p *req);
enum mds_rc mds_comm_recv_start(struct mds_comm *c, void *buf, int64_t bytes, int peer,
                                int tag, struct mds_comm_p2p *req);

/* As mds_comm_wait. */
enum mds_rc mds_comm_p2p_wait(struct mds_comm_p2p *req);

/* How long a peer may be silent; 600 until called (Megatron's
 * --distributed-timeout-minutes). */
void mds_comm_set_timeout_s(double s);

/* Floats moved per step of a long collective; the same on every rank, set while nothing
 * is in flight.  4 Mi until called: more saves little time, less saves work memory.
 * Messages travel in pieces of 64 times that, 1 GiB at most. */
void mds_comm_set_segment(int64_t floats);

/* Before each collective, compare what the members are about to call: a difference
 * fails everywhere with both calls and their places in the source.  The same on every
 * rank, set while nothing is in flight; off until called.  It is for finding mistakes:
 * a start then waits for the other members, too. */
void mds_comm_set_check(int on);

/* Record in the profile of dev (device/profile.h) how long calls take and how long they
 * are waited for, by enum mds_comm_kind; NULL (the default): do not. */
void mds_comm_set_profile(struct mds_dev *dev);

#include "comm/call_site.h"

#endif
