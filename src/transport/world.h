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

/* How many copies of this program a launcher says that it started, and which of them
 * this is: 1 and 0 if none says so.  Answers before MPI is started. */
int mds_world_copies(int *rank);

/* Start MPI.  Also works without a launcher: one rank.  With one this rank leaves, with
 * a line, if the others do not come up within mds_comm_set_timeout_s's limit; and so it
 * does whenever MPI or NCCL keep it longer inside of a call.
 *
 * MDS_ECOMM if MPI refuses, or if a launcher started several copies of this program
 * that each find themselves alone: launcher and program are then of different MPIs,
 * and every copy would do the whole job.  w->rank is then the one that the launcher
 * meant this copy to be, so that one can speak for all.
 *
 * SIGTERM still ends this rank, but if it waits in comm/ it first writes what for.  A
 * handler of the program's own may replace that.
 *
 * With a launcher, a process of its own is left beside this one until mds_world_fini:
 * it speaks if this one is killed (comm.h).  Call this before anything is started that
 * does not survive a fork: threads, accelerators.
 *
 * FUNNELED: everything in comm/ is called by the thread that called this. */
enum mds_rc mds_world_init(struct mds_world *w);

/* End MPI.  Every rank calls it; harmless if MPI never started. */
void mds_world_fini(struct mds_world *w);

/* End the whole run, whatever the other ranks are doing, with this exit status. */
_Noreturn void mds_world_abort(int exit_code);

/* End this rank at once and without a message; for signal handlers. */
_Noreturn void mds_world_drop(int exit_code);

#endif
