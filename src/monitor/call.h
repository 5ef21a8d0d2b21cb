/* SPDX-License-Identifier: BSD-3-Clause */
/* One collective or message of a group, as data, for reports of what a rank is doing.
 */
#ifndef MDS_MONITOR_CALL_H
#define MDS_MONITOR_CALL_H

#include <stdint.h>

/* The kinds of calls; traffic is counted per kind. */
enum mds_comm_kind {
    MDS_COMM_ALL_REDUCE,
    MDS_COMM_REDUCE_SCATTER,
    MDS_COMM_ALL_GATHER,
    MDS_COMM_ALL_TO_ALL,
    MDS_COMM_EXCHANGE,
    MDS_COMM_BROADCAST,
    MDS_COMM_BARRIER,
    MDS_COMM_F64,
    MDS_COMM_SEND,
    MDS_COMM_RECV,
    MDS_COMM_KINDS,
};

/* "all_reduce", "send", ... */
const char *mds_comm_kind_name(enum mds_comm_kind kind);

enum mds_comm_op { MDS_COMM_SUM, MDS_COMM_MAX };

/* Part of a buffer: `bytes` bytes from byte `at` on. */
struct mds_comm_block {
    int64_t at, bytes;
};

struct mds_comm_call {
    enum mds_comm_kind kind;
    int dtype;          /* enum mdsk_dtype; -1: bytes */
    int op;             /* enum mds_comm_op; -1: none */
    int peer;           /* root of a broadcast, peer of a message; -1: none */
    int tag;            /* a message's */
    int line;           /* call site; */
    const char *file;   /* a string literal */
    int64_t count;      /* payload, in elements of dtype; of an exchange what this rank
                           sends */
    int64_t wire_bytes; /* sent per rank, averaged over the group */
    int64_t number;     /* which collective of the group, from 1; 0: a message */
};

#endif
