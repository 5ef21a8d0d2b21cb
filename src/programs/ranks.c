/* SPDX-License-Identifier: BSD-3-Clause */
#include "programs/ranks.h"
#include "base/events.h"
#include "base/exit_status.h"
#include "base/host.h"
#include "base/log.h"
#include "base/stream.h"
#include "programs/finish.h"

#include <time.h>

/* A device that fails is a fault of its node, as a rank that dies is. */
static void record_failure(const struct mds_world *w, int device, int status)
{
    char host[MDS_HOST_SIZE];
    struct mds_event e;

    mds_host_name(host);
    mds_event_begin(&e, device ? "rank_lost" : "failed");
    mds_event_add_int(&e, "rank", w->rank);
    mds_event_add_text(&e, "host", host);
    if (device)
        mds_event_add_text(&e, "cause", "device");
    mds_event_add_text(&e, "reason",
                       device ? "has a device that failed" : mds_fail_text());
    if (device)
        mds_event_add_text(&e, "error", mds_fail_text());
    else
        mds_event_add_int(&e, "status", status);
    (void)mds_event_end(&e); /* the error itself is what matters now */
}

_Noreturn void mds_ranks_fail(const struct mds_world *w, enum mds_rc rc)
{
    const struct timespec grace = {.tv_sec = 2};
    int is_lost = rc == MDS_ECOMM || rc == MDS_EDEVICE;
    int status = is_lost ? MDS_EXIT_LOST : MDS_EXIT_REPEATS;

    if (w->rank > 0)
        nanosleep(&grace, NULL);
    record_failure(w, rc == MDS_EDEVICE && w->ranks > 1, status);
    mds_failure_log();
    mds_log_repeat_warnings();
    (void)mds_streams_drain();
    mds_world_abort(status);
}

void mds_ranks_flush_output(const struct mds_world *w)
{
    if (mds_stdout_flush())
        mds_ranks_fail(w, MDS_EIO);
}
