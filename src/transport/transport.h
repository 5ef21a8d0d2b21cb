/* SPDX-License-Identifier: BSD-3-Clause */
/* Transports between the ranks of a group: MPI for host memory, NCCL for GPU memory.
 * comm/ builds its collectives from MPI messages, and uses NCCL's own collectives.  Dry
 * groups have neither. */
#ifndef MDS_TRANSPORT_TRANSPORT_H
#define MDS_TRANSPORT_TRANSPORT_H

#include "base/status.h"
#include "monitor/monitor.h"

#include <stdint.h>

struct mds_dev;

/* The members of a group.  Transports borrow it; it must outlive them. */
struct mds_peers {
    int rank, size;
    int *world; /* [size] ranks in MPI_COMM_WORLD; NULL if there is no transport */
    char tag[MDS_WATCH_GROUP];
    enum mds_rc broken; /* the first failure of the group; MDS_OK: none */
};

/* ---- messages (mpi.c) ----
 *
 * A slot holds up to 2 (size - 1) messages.  Messages between two ranks with the same
 * tag arrive in the order of these calls.  Buffers are borrowed until mds_mpi_test
 * reports that no message of the slot is left.  A message is shorter than 2 GiB. */
enum { MDS_MPI_SLOTS = 9 }; /* slots 0 .. 8 */

struct mds_mpi;

/* Collective over the members, of which there are at least two. */
enum mds_rc mds_mpi_open(struct mds_peers *peers, struct mds_mpi **out);
void mds_mpi_close(struct mds_mpi *m);

/* The index of this process's world rank in ranks[n], or -1. */
int mds_mpi_find_self(const int *ranks, int n);

enum mds_rc mds_mpi_send(struct mds_mpi *m, int slot, int tag, int peer,
                         const void *buf, int64_t bytes);
enum mds_rc mds_mpi_recv(struct mds_mpi *m, int slot, int tag, int peer, void *buf,
                         int64_t bytes);

/* Test the slot's messages without blocking: how many have finished since the last
 * call, and how many are left.  When none is left, the slot is free for new ones. */
enum mds_rc mds_mpi_test(struct mds_mpi *m, int slot, int *finished, int *left);

/* The peer (group rank) of one of the slot's unfinished messages, preferably of a
 * receive; -1 if there are none. */
int mds_mpi_awaited(const struct mds_mpi *m, int slot);

/* A single message, not in a slot.  call->kind says whether to send or to receive,
 * call->peer the other rank.  finish tests it without blocking; MDS_EBUG if the message
 * received has another length.  *handle belongs to MPI until the message is done. */
enum mds_rc mds_mpi_start(struct mds_mpi *m, const struct mds_comm_call *call, int tag,
                          void *buf, int64_t bytes, uint64_t *handle);
enum mds_rc mds_mpi_finish(struct mds_mpi *m, const struct mds_comm_call *call,
                           int64_t bytes, uint64_t *handle, int *done);

/* ---- whole collectives of device memory (nccl.c) ---- */

/* The stages of a collective over shards, in this order. */
enum {
    MDS_COMM_REDUCING = 1 << 0,   /* every rank receives its shard of all, and sums */
    MDS_COMM_GATHERING = 1 << 1,  /* every rank sends its own shard to all */
    MDS_COMM_SCATTERING = 1 << 2, /* every rank sends another shard to each rank */
};

struct mds_collective {
    const struct mds_comm_call *call;
    const char *in;
    char *out, *sum;
    int64_t count; /* elements of all shards together */
    int64_t shard; /* elements of one shard; the last ones are shorter or empty */
    int elem_bytes, stages;
};

/* The id that ranks need to join a communicator: NCCL's unique id. */
struct mds_direct_id {
    char bytes[128];
};

struct mds_direct {
    const struct mds_direct_ops *ops;
    struct mds_peers *peers;
    struct mds_dev *dev; /* borrowed */
    int channels;        /* that collectives may use; 0: as many as NCCL likes */
};

/* collect, broadcast, exchange and message queue a call and return its ticket, > 0.
 * wait makes the device wait for that call; test says whether it is complete. */
struct mds_direct_ops {
    /* name: create an id, on one rank.  join: all members create a communicator with
     * it.  join_pair: two members do, for messages in one direction with the call's
     * peer and tag.  Collective over those ranks, and needed before calls that use the
     * communicator.  call says, for the watchdog, what a rank that waits is doing. */
    enum mds_rc (*name)(struct mds_direct *d, struct mds_direct_id *id);
    enum mds_rc (*join)(struct mds_direct *d, const struct mds_direct_id *id,
                        const struct mds_comm_call *call);
    enum mds_rc (*join_pair)(struct mds_direct *d, const struct mds_direct_id *id,
                             const struct mds_comm_call *call);
    enum mds_rc (*collect)(struct mds_direct *d, const struct mds_collective *s,
                           int64_t *ticket);
    enum mds_rc (*broadcast)(struct mds_direct *d, const struct mds_comm_call *call,
                             void *buf, int64_t *ticket);
    enum mds_rc (*exchange)(struct mds_direct *d, const struct mds_comm_call *call,
                            int n, const char *in, const struct mds_comm_block *send,
                            char *out, const struct mds_comm_block *recv,
                            int64_t *ticket);
    enum mds_rc (*message)(struct mds_direct *d, const struct mds_comm_call *call,
                           void *buf, int64_t *ticket);
    enum mds_rc (*wait)(struct mds_direct *d, int64_t ticket);
    int (*test)(struct mds_direct *d, int64_t ticket);
    void (*close)(struct mds_direct *d); /* frees d */
};

/* The NCCL transport, for members that each have a GPU.  MDS_ENOSUP if this build has
 * no NCCL. */
enum mds_rc mds_direct_open(struct mds_peers *peers, struct mds_dev *dev,
                            struct mds_direct **out);

#endif
