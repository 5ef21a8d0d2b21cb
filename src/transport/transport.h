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
    int *world; /* [size] ranks of MPI's world; NULL where nothing moves */
    char tag[MDS_WATCH_GROUP];
    enum mds_rc broken; /* the failure after which the members no longer agree */
};

/* ---- messages (mpi.c) ----
 *
 * A slot holds up to 2 (size - 1) messages.  Messages between two ranks under one tag
 * arrive in the order of these calls.  Buffers stay the caller's and are in use until
 * test says that nothing is left.  A message has less than 2 GiB. */
enum { MDS_MPI_SLOTS = 9 }; /* 0 and up */

struct mds_mpi;

/* Collective over the members; more than one. */
enum mds_rc mds_mpi_open(struct mds_peers *peers, struct mds_mpi **out);
void mds_mpi_close(struct mds_mpi *m);

/* This process's index in ranks[n], or -1. */
int mds_mpi_find_self(const int *ranks, int n);

enum mds_rc mds_mpi_send(struct mds_mpi *m, int slot, int tag, int peer,
                         const void *buf, int64_t bytes);
enum mds_rc mds_mpi_recv(struct mds_mpi *m, int slot, int tag, int peer, void *buf,
                         int64_t bytes);

/* Without blocking: how many of the slot's messages have finished since the last call,
 * and how many are left.  With none left the slot is free for new ones. */
enum mds_rc mds_mpi_test(struct mds_mpi *m, int slot, int *finished, int *left);

/* The group's rank at the other end of one of the slot's unfinished messages, one to be
 * received if there is one; -1 if there are none. */
int mds_mpi_awaited(const struct mds_mpi *m, int slot);

/* A message of its own, outside of slots: call says to or from whom.  *handle is
 * MPI's until it is done. */
enum mds_rc mds_mpi_start(struct mds_mpi *m, const struct mds_comm_call *call, int tag,
                          void *buf, int64_t bytes, uint64_t *handle);
enum mds_rc mds_mpi_finish(struct mds_mpi *m, const struct mds_comm_call *call,
                           int64_t bytes, uint64_t *handle, int *done);

/* ---- whole collectives of device memory (nccl.c) ---- */

/* The stages of a collective over slices, in this order. */
enum {
    MDS_COMM_REDUCING = 1 << 0,   /* every rank collects its own slice, and sums */
    MDS_COMM_GATHERING = 1 << 1,  /* every rank hands its own slice to all */
    MDS_COMM_SCATTERING = 1 << 2, /* every rank hands everyone a slice of their own */
};

struct mds_slices {
    const struct mds_comm_call *call;
    const char *in;
    char *out, *sum;
    int64_t count; /* elements of all slices together */
    int64_t chunk; /* of one, but where count ends */
    int elem_bytes, stages;
};

/* What names a communicator to those who are to join it: NCCL's unique id. */
struct mds_direct_id {
    char bytes[128];
};

struct mds_direct {
    const struct mds_direct_ops *ops;
    struct mds_peers *peers;
    struct mds_dev *dev; /* borrowed */
};

/* All are queued; a ticket > 0 names what was.  wait makes the device wait for it, test
 * says whether it is over. */
struct mds_direct_ops {
    /* Make a name, and join under it: all members, or two of them, for messages one way
     * with the call's peer and tag.  Collective over those; before what needs it.  The
     * call says what a rank that waits there is doing. */
    enum mds_rc (*name)(struct mds_direct *d, struct mds_direct_id *id);
    enum mds_rc (*join)(struct mds_direct *d, const struct mds_direct_id *id,
                        const struct mds_comm_call *call);
    enum mds_rc (*join_pair)(struct mds_direct *d, const struct mds_direct_id *id,
                             const struct mds_comm_call *call);
    enum mds_rc (*collect)(struct mds_direct *d, const struct mds_slices *s,
                           int64_t *ticket);
    enum mds_rc (*broadcast)(struct mds_direct *d, const struct mds_comm_call *call,
                             void *buf, int64_t *ticket);
    enum mds_rc (*message)(struct mds_direct *d, const struct mds_comm_call *call,
                           void *buf, int64_t *ticket);
    enum mds_rc (*wait)(struct mds_direct *d, int64_t ticket);
    int (*test)(struct mds_direct *d, int64_t ticket);
    void (*close)(struct mds_direct *d); /* frees d; before the transport's */
};

/* For members that each have a GPU.  MDS_ENOSUP if this build has no NCCL. */
enum mds_rc mds_direct_open(struct mds_peers *peers, struct mds_dev *dev,
                            struct mds_direct **out);

#endif
