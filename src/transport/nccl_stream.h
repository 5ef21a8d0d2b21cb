/* SPDX-License-Identifier: BSD-3-Clause */
/* An NCCL communicator with its own stream, and events that mark when each call queued
 * there completes.  For nccl.c; only in builds with NCCL. */
#ifndef MDS_TRANSPORT_NCCL_STREAM_H
#define MDS_TRANSPORT_NCCL_STREAM_H

#include "transport/nccl_calls.h"
#include "transport/transport.h"

#include <cuda_runtime_api.h>

enum {
    MDS_NCCL_EVENTS = 64,
    MDS_NCCL_LANE_CTAS = 8, /* of a lane: leaves the rest of the GPU to compute */
};

struct mds_nccl_stream {
    ncclComm_t comm;
    cudaStream_t stream;
    cudaEvent_t ready;                 /* on the device's stream, before a call */
    cudaEvent_t over[MDS_NCCL_EVENTS]; /* end of call t at t % MDS_NCCL_EVENTS */
    struct mds_comm_call call[MDS_NCCL_EVENTS];
    int64_t queued, completed; /* number of calls; those known to be complete */
};

/* MDS_OK, or an error that names the group and the NCCL (CUDA) call that failed. */
enum mds_rc mds_nccl_check(const struct mds_direct *d, const char *call,
                           ncclComm_t comm, ncclResult_t code);
enum mds_rc mds_nccl_check_cuda(const struct mds_direct *d, const char *call,
                                cudaError_t code);

/* Start and stop a watchdog (monitor/watchdog.c) around NCCL calls: they have no
 * timeout of their own, and block the host when they first connect to other ranks.
 * `call` says what this rank is doing meanwhile. */
void mds_nccl_limit_start(const struct mds_direct *d, const struct mds_comm_call *call);
void mds_nccl_limit_stop(void);

/* Collective over the `size` ranks that hold id.  ctas: the most thread blocks (CTAs)
 * that NCCL may use; 0: NCCL's default.  Close the stream also after a failure. */
enum mds_rc mds_nccl_stream_open(const struct mds_direct *d, struct mds_nccl_stream *st,
                                 const ncclUniqueId *id, int size, int rank, int ctas);

/* Collective.  broken: abort the communicator instead, since its kernels may be waiting
 * for peers that are gone. */
void mds_nccl_stream_close(struct mds_nccl_stream *st, int broken);

/* Before queueing an NCCL call: make it wait for everything on the device's stream, and
 * start the watchdog.  end_call must follow. */
enum mds_rc mds_nccl_stream_begin_call(const struct mds_direct *d,
                                       struct mds_nccl_stream *st,
                                       const struct mds_comm_call *call);

/* After queueing the call: stop the watchdog, and record an event for it as call
 * number `queued`.  Fails if code says that NCCL refused the call. */
enum mds_rc mds_nccl_stream_end_call(const struct mds_direct *d,
                                     struct mds_nccl_stream *st,
                                     const struct mds_comm_call *call,
                                     ncclResult_t code);

/* Make whatever is queued on the device next wait for the call with number `ticket`. */
enum mds_rc mds_nccl_stream_wait_call(const struct mds_direct *d,
                                      const struct mds_nccl_stream *st, int64_t ticket);

/* Update `completed` from the events. */
void mds_nccl_stream_update(struct mds_nccl_stream *st);

/* Whether the call is complete.  If a later call has reused its event, whether that one
 * is. */
int mds_nccl_stream_test_call(const struct mds_nccl_stream *st, int64_t ticket);

#endif
