/* SPDX-License-Identifier: BSD-3-Clause */
/* What nccl.c is made of: a communicator with a stream of its own, and events that tell
 * how far the calls queued there are.  Only where there is NCCL. */
#ifndef MDS_TRANSPORT_NCCL_STREAM_H
#define MDS_TRANSPORT_NCCL_STREAM_H

#include "transport/nccl_calls.h"
#include "transport/transport.h"

#include <cuda_runtime_api.h>

enum {
    MDS_NCCL_EVENTS = 64,
    MDS_NCCL_LANE_CTAS = 8, /* of a lane: leaves the GPU to what computes meanwhile */
};

struct mds_nccl_stream {
    ncclComm_t comm;
    cudaStream_t stream;
    cudaEvent_t ready;                 /* on the device's stream, of the newest call */
    cudaEvent_t over[MDS_NCCL_EVENTS]; /* of call t at t % MDS_NCCL_EVENTS */
    struct mds_comm_call call[MDS_NCCL_EVENTS];
    int64_t queued, completed; /* calls; known to be over */
};

/* MDS_OK, or a sentence about a call of the group. */
enum mds_rc mds_nccl_check(const struct mds_direct *d, const char *call,
                           ncclComm_t comm, ncclResult_t code);
enum mds_rc mds_nccl_check_cuda(const struct mds_direct *d, const char *call,
                                cudaError_t code);

/* Around calls that keep the host until other ranks come, as NCCL's do wherever it
 * first connects some: the limit of time that they lack (monitor/watchdog.c).  `call`
 * says what this rank is doing meanwhile. */
void mds_nccl_limit_start(const struct mds_direct *d, const struct mds_comm_call *call);
void mds_nccl_limit_stop(void);

/* Collective over the `size` ranks that know id.  ctas: at most so many blocks of the
 * GPU; 0: as NCCL likes.  After a failure the line is to be closed, too. */
enum mds_rc mds_nccl_stream_open(const struct mds_direct *d, struct mds_nccl_stream *l,
                                 const ncclUniqueId *id, int size, int rank, int ctas);

/* Collective.  broken: abort the communicator instead, since its kernels may be waiting
 * for peers that are gone. */
void mds_nccl_stream_close(struct mds_nccl_stream *l, int broken);

/* The call, which is queued on the line next, comes after all that is on the device's
 * stream, and has a limit of time: mark follows. */
enum mds_rc mds_nccl_stream_begin_call(const struct mds_direct *d,
                                       struct mds_nccl_stream *l,
                                       const struct mds_comm_call *call);

/* A call was queued, the line's `queued`-th, or NCCL refused it (code). */
enum mds_rc mds_nccl_stream_end_call(const struct mds_direct *d,
                                     struct mds_nccl_stream *l,
                                     const struct mds_comm_call *call,
                                     ncclResult_t code);

/* What is queued on the device next comes after the call. */
enum mds_rc mds_nccl_stream_wait_call(const struct mds_direct *d,
                                      const struct mds_nccl_stream *l, int64_t ticket);

/* Bring over_up_to up to date. */
void mds_nccl_stream_update(struct mds_nccl_stream *l);

/* Whether the call is over; of one whose event a later call has, whether that is. */
int mds_nccl_stream_test_call(const struct mds_nccl_stream *l, int64_t ticket);

#endif
