/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals that ask a program to leave in an orderly way: SIGINT, SIGTERM, SIGUSR1. */
#ifndef MDS_TRANSPORT_STOP_H
#define MDS_TRANSPORT_STOP_H

/* From now on they are remembered.  A second SIGINT or SIGTERM ends the process at
 * once. */
void mds_stop_watch(void);

/* The last one, or 0; SIGUSR1 only warns that another will follow, and replaces none.
 */
int mds_stop_caught(void);

/* From now on they have no effect: a launcher sends SIGTERM to all ranks as soon as one
 * has exited with a non-zero status. */
void mds_stop_ignore(void);

#endif
