/* SPDX-License-Identifier: BSD-3-Clause */
/* All ranks of a run; the only file that starts and ends MPI. */
#ifndef MDS_TRANSPORT_WORLD_H
#define MDS_TRANSPORT_WORLD_H

#include "base/host.h"
#include "base/status.h"

struct mds_world {
    int rank, ranks;
    int local_rank, local_ranks; /* among the ranks of this node */
    char host[MDS_HOST_SIZE];
};

/* The number of ranks that the launcher started, and this one's rank, as the launcher's
 * environment says; 1 and 0 without a launcher.  Works before MPI is started. */
int mds_world_copies(int *rank);

/* Start MPI.  Without a launcher there is one rank.  With one, this rank logs a line
 * and exits if the others do not start within the timeout (mds_comm_set_timeout_s), and
 * likewise whenever MPI or NCCL blocks inside a call for longer than that.
 *
 * MDS_ECOMM if MPI_Init fails, or if the launcher started several ranks but MPI reports
 * only one: launcher and program then use different MPI libraries, and every rank would
 * do the whole job.  w->rank is then the launcher's rank, so that the caller can report
 * the error on one rank alone.
 *
 * SIGTERM still ends this rank, but if it waits in comm/ it first logs what for.  The
 * program may install a handler of its own instead.
 *
 * With a launcher, this forks a monitor process, which lives until mds_world_fini and
 * logs a line if this process is killed (comm.h).  Call this before starting anything
 * that does not survive a fork: threads, accelerators.
 *
 * MPI_THREAD_FUNNELED: only the thread that calls this may call comm/. */
enum mds_rc mds_world_init(struct mds_world *w);

/* End MPI.  Every rank calls it; harmless if MPI never started. */
void mds_world_fini(struct mds_world *w);

/* The end of the program, with this status, which the launcher then has, too.  Every
 * rank calls it, with the same status. */
_Noreturn void mds_world_end(struct mds_world *w, int status);

/* End the whole run, whatever the other ranks are doing, with this exit status. */
_Noreturn void mds_world_abort(int exit_code);

/* End this rank at once and without a message; for signal handlers. */
_Noreturn void mds_world_drop(int exit_code);

#endif
