/* SPDX-License-Identifier: BSD-3-Clause */
/* How programs of several ranks fail. */
#ifndef MDS_PROGRAMS_RANKS_H
#define MDS_PROGRAMS_RANKS_H

#include "transport/world.h"

/* The only way out with a failure: its message, then the end of all ranks.  When all
 * ranks fail alike one line is enough: the others give rank 0, which may have been
 * slower, the time to print it and to end the run. */
_Noreturn void mds_ranks_fail(const struct mds_world *w, enum mds_rc rc);

/* Fail if standard output could not be written. */
void mds_ranks_flush_output(const struct mds_world *w);

#endif
