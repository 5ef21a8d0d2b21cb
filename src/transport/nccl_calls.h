/* SPDX-License-Identifier: BSD-3-Clause */
/* The NCCL functions that transport/ calls.  The library is opened when it is first
 * needed: kernels/library.h. */
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

/* Open NCCL and fill mds_nccl.  Call it before the first group that uses NCCL. */
enum mds_rc mds_nccl_open(void);

#endif
