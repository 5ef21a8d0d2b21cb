/* SPDX-License-Identifier: BSD-3-Clause */
/* Notices between all ranks of the run that one has timed out or ends the run, and the
 * answers: small messages in MPI_COMM_WORLD, which nothing else uses. */
#include "monitor/monitor.h"

#include "base/alloc.h"

#include <mpi.h>

enum { CULPRIT = MDS_ABORT_RUN_ENDS + 1, ANSWER };

/* To all others.  The receivers may be gone, so do not wait until the messages have
 * arrived. */
static void send_to_others(int tag, const int *value, int count)
{
    int self = 0, ranks = 0;

    MPI_Comm_rank(MPI_COMM_WORLD, &self);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 1; i < ranks; i++) {
        MPI_Request request;

        if (MPI_Isend(value, count, MPI_INT, (self + i) % ranks, tag, MPI_COMM_WORLD,
                      &request) == MPI_SUCCESS)
            MPI_Request_free(&request);
    }
}

void mds_abort_notice_send(enum mds_abort_reason why)
{
    send_to_others((int)why, NULL, 0);
}

static int probe_message(int tag, MPI_Status *status)
{
    int there = 0;

    return MPI_Iprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &there, status) ==
               MPI_SUCCESS &&
           there;
}

int mds_abort_notice_from(enum mds_abort_reason why)
{
    MPI_Status status;

    return probe_message((int)why, &status) ? status.MPI_SOURCE : -1;
}

/* ---- who waits for whom ---- */

enum { NO_ANSWER = -2 };

static int *awaited_by, ranks; /* of each rank, or NO_ANSWER; NULL: nothing is known */
static int culprit = MDS_CULPRIT_UNKNOWN;

static void create_wait_table(void)
{
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    awaited_by = mds_zalloc((size_t)ranks, sizeof *awaited_by);
    for (int i = 0; awaited_by && i < ranks; i++)
        awaited_by[i] = NO_ANSWER;
}

void mds_abort_notice_exchange(int awaited)
{
    static int own;
    MPI_Request request;
    MPI_Status status;
    int theirs;

    own = awaited;
    if (!awaited_by)
        create_wait_table();
    while (probe_message(MDS_ABORT_TIMEOUT, &status)) {
        MPI_Recv(NULL, 0, MPI_BYTE, status.MPI_SOURCE, MDS_ABORT_TIMEOUT,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (MPI_Isend(&own, 1, MPI_INT, status.MPI_SOURCE, ANSWER, MPI_COMM_WORLD,
                      &request) == MPI_SUCCESS)
            MPI_Request_free(&request);
    }
    while (probe_message(ANSWER, &status)) {
        MPI_Recv(&theirs, 1, MPI_INT, status.MPI_SOURCE, ANSWER, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        if (awaited_by)
            awaited_by[status.MPI_SOURCE] = theirs;
    }
    if (probe_message(CULPRIT, &status))
        MPI_Recv(&culprit, 1, MPI_INT, status.MPI_SOURCE, CULPRIT, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static int follow_answers(int awaited)
{
    int self = 0, at = awaited;

    MPI_Comm_rank(MPI_COMM_WORLD, &self);
    for (int i = 0; awaited_by && at >= 0 && at != self && i < ranks; i++) {
        if (awaited_by[at] == NO_ANSWER)
            return at;
        at = awaited_by[at];
    }
    return MDS_CULPRIT_NONE;
}

int mds_abort_notice_culprit(void)
{
    return culprit;
}

void mds_abort_notice_find_culprit(int awaited)
{
    if (culprit != MDS_CULPRIT_UNKNOWN)
        return;
    culprit = follow_answers(awaited);
    send_to_others(CULPRIT, &culprit, 1);
}
