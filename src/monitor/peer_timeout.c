/* SPDX-License-Identifier: BSD-3-Clause */
#include "monitor/monitor.h"

#include "base/events.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>

static const char (*host_of)[MDS_HOST_SIZE]; /* NULL: not known */

void mds_peer_timeout_set_hosts(const char (*hosts)[MDS_HOST_SIZE])
{
    host_of = hosts;
}

/* The rank that timed out first gives its notice and the others' answers a second to
 * arrive before its failure ends the run; the others wait until it tells them who is
 * silent. */
static void exchange_notices(int awaited, int first)
{
    double end = mds_clock_s() + (first < 0 ? 1 : 2);

    while (mds_clock_s() < end && mds_abort_notice_culprit() == MDS_CULPRIT_UNKNOWN) {
        mds_abort_notice_exchange(awaited);
        mds_clock_backoff(1);
    }
}

static void record_silent(int rank, const char *host)
{
    char why[64], call[256];
    struct mds_event e;

    snprintf(why, sizeof why, "has been silent for %g s", mds_watchdog_limit_s());
    mds_watch_record_text(&mds_watch_use(NULL)->entered, call, sizeof call);
    mds_event_begin(&e, "rank_lost");
    mds_event_add_int(&e, "rank", rank);
    mds_event_add_text(&e, "host", host);
    mds_event_add_text(&e, "cause", "silent");
    mds_event_add_text(&e, "reason", why);
    mds_event_add_text(&e, "waiting_call", call);
    (void)mds_event_end(&e);
}

/* The awaited rank may itself wait for another: the last one of that chain is named.
 * told: by the rank that followed the chain, which may have begun at another rank. */
static enum mds_rc fail_silent_rank(const char *group, int awaited, int silent,
                                    int told)
{
    const char *host = host_of && silent >= 0 ? host_of[silent] : NULL;
    char between[80] = "";

    if (!told) /* others that time out say the same */
        record_silent(silent, host);
    if (silent != awaited)
        snprintf(between, sizeof between,
                 told ? "; this rank waits for rank %d"
                      : "; rank %d, for which this rank waits, waits for it too",
                 awaited);
    return mds_fail(MDS_ECOMM,
                    "%s: rank %d has been silent for %g s, the limit "
                    "(--distributed-timeout-minutes): see what it logged last%s%s%s",
                    group, silent, mds_watchdog_limit_s(), host ? " on " : "",
                    host ? host : "", between);
}

/* first: the rank that timed out first; -1: this one. */
static enum mds_rc fail_timeout(const char *group, int awaited, double silent_s,
                                int first)
{
    char line[512];
    int culprit;

    mds_watch_line(line, sizeof line);
    mds_error("%s", line);
    if (first < 0)
        mds_abort_notice_send(MDS_ABORT_TIMEOUT);
    exchange_notices(awaited, first);
    if (first < 0)
        mds_abort_notice_find_culprit(awaited);
    culprit = mds_abort_notice_culprit();
    if (first < 0 || culprit >= 0)
        return fail_silent_rank(group, awaited, culprit >= 0 ? culprit : awaited,
                                first >= 0);
    return mds_fail(MDS_ECOMM,
                    "%s: rank %d timed out first; this rank had waited %.1f s for "
                    "rank %d",
                    group, first, silent_s, awaited);
}

void mds_peer_timeout_listen(void)
{
    if (mds_abort_notice_from(MDS_ABORT_RUN_ENDS) >= 0)
        mds_signals_suppress();
}

enum mds_rc mds_peer_timeout_check(const char *group, int awaited, double silent_s)
{
    int first = mds_abort_notice_from(MDS_ABORT_TIMEOUT);

    mds_peer_timeout_listen();
    if (first < 0 && silent_s <= mds_watchdog_limit_s())
        return MDS_OK;
    return fail_timeout(group, awaited, silent_s, first);
}
