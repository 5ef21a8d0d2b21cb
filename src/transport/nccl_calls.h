/* SPDX-License-Identifier: BSD-3-Clause */
/* What this room calls of NCCL, which is opened at need: kernels/library.h. */
#ifndef MDS_TRANSPORT_NCCL_CALLS_H
#define MDS_TRANSPORT_NCCL_CALLS_H

#include "base/status.h"
#include "kernels/library.h"

#include <nccl.h>

#define MDS_NCCL_CALLS(X)                                                              \
    X(ncclAllGather)                                                                   \
    X(ncclAllReduce)                                                                   \
    X(ncclBroadcast)                                                                   \
    X(ncclCommAbort)                                                                   \
    X(ncclCommDestroy)                                                                 \
    X(ncclCommGetAsyncError)                                                           \
    X(ncclCommInitRankConfig)                                                          \
    X(ncclGetErrorString)                                                              \
    X(ncclGetLastError)                                                                \
    X(ncclGetUniqueId)                                                                 \
    X(ncclGroupEnd)                                                                    \
    X(ncclGroupStart)                                                                  \
    X(ncclRecv)                                                                        \
    X(ncclReduce)                                                                      \
    X(ncclReduceScatter)                                                               \
    X(ncclSend)

struct mds_nccl {
    MDS_NCCL_CALLS(MDSK_LIBRARY_CALL)
};

extern struct mds_nccl mds_nccl;

/* Fills it: before the first group that talks by NCCL. */
enum mds_rc mds_nccl_open(void);

#endif
