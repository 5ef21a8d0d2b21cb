/* SPDX-License-Identifier: BSD-3-Clause */
#include "programs/ranks.h"
#include "base/log.h"
#include "base/stream.h"
#include "programs/finish.h"

#include <stdlib.h>
#include <time.h>

/* A rank, node, GPU or network failed; sysexits.h calls it EX_TEMPFAIL.  Other failures
 * would repeat. */
enum { EXIT_LOST = 75 };

_Noreturn void mds_ranks_fail(const struct mds_world *w, enum mds_rc rc)
{
    const struct timespec grace = {.tv_sec = 2};
    int is_lost = rc == MDS_ECOMM || rc == MDS_EDEVICE;

    if (w->rank > 0)
        nanosleep(&grace, NULL);
    mds_failure_log();
    if (rc == MDS_EDEVICE && w->ranks > 1) /* mds_launch reads it */
        mds_error("the device of rank %d on %s has failed", w->rank, w->host);
    mds_log_repeat_warnings();
    (void)mds_streams_drain();
    mds_world_abort(is_lost ? EXIT_LOST : EXIT_FAILURE);
}

void mds_ranks_flush_output(const struct mds_world *w)
{
    if (mds_stdout_flush())
        mds_ranks_fail(w, MDS_EIO);
}
