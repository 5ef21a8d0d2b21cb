/* Bad news between all ranks of the run: empty messages in MPI's world, where nothing
 * else travels. */
#include "comm/internal.h"

#include <mpi.h>

/* Nobody may be there to take them, so nobody waits for them to arrive. */
void mds_comm_alarm_ring(enum mds_comm_alarm why)
{
    int self = 0, ranks = 0;

    MPI_Comm_rank(MPI_COMM_WORLD, &self);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 1; i < ranks; i++) {
        MPI_Request request;

        if (MPI_Isend(NULL, 0, MPI_BYTE, (self + i) % ranks, (int)why, MPI_COMM_WORLD,
                      &request) == MPI_SUCCESS)
            MPI_Request_free(&request);
    }
}

int mds_comm_alarm_heard(enum mds_comm_alarm why)
{
    int there = 0;
    MPI_Status status;

    if (MPI_Iprobe(MPI_ANY_SOURCE, (int)why, MPI_COMM_WORLD, &there, &status) !=
        MPI_SUCCESS)
        return -1;
    return there ? status.MPI_SOURCE : -1;
}
