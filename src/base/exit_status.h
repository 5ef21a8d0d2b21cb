/* SPDX-License-Identifier: BSD-3-Clause */
/* What mds_pretrain and `mds_launch run` exit with.  Job scripts decide by it. */
#ifndef MDS_BASE_EXIT_STATUS_H
#define MDS_BASE_EXIT_STATUS_H

enum mds_exit_status {
    MDS_EXIT_DONE = 0,
    MDS_EXIT_REPEATS = 1, /* it would fail again: a mistake, a full disk, divergence */
    /* A rank, node, GPU or network failed; sysexits.h calls it EX_TEMPFAIL. */
    MDS_EXIT_LOST = 75,
    /* Saved before the last iteration: the same command goes on.  HTCondor's usual
     * status for that; no shell, signal or MPI uses it. */
    MDS_EXIT_UNFINISHED = 85,
    /* The same after SIGTERM, by which batch systems preempt and cancel. */
    MDS_EXIT_TERMINATED = 86,
    MDS_EXIT_SIGNAL = 128, /* plus the signal: ended by it, and nothing is saved */
};

#endif
