/* SPDX-License-Identifier: BSD-3-Clause */
/* One call of a group, as data: for those who say what a rank is doing. */
#ifndef MDS_MONITOR_CALL_H
#define MDS_MONITOR_CALL_H

#include <stdint.h>

/* What is counted apart. */
enum mds_comm_kind {
    MDS_COMM_ALL_REDUCE,
    MDS_COMM_REDUCE_SCATTER,
    MDS_COMM_ALL_GATHER,
    MDS_COMM_ALL_TO_ALL,
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

struct mds_comm_call {
    enum mds_comm_kind kind;
    int dtype;          /* enum mdsk_dtype; -1: bytes */
    int op;             /* enum mds_comm_op; -1: none */
    int peer;           /* a broadcast's root, a message's other end; -1: none */
    int tag;            /* a message's */
    int line;           /* where the program made it, */
    const char *file;   /* a literal */
    int64_t count;      /* payload, in elements of dtype */
    int64_t wire_bytes; /* sent by a rank, in the mean over the group */
    int64_t number;     /* of this group's collectives, from 1; 0: a message */
};

#endif
