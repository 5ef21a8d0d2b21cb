/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals that end this rank: write where it waits, and keep its monitor process quiet.
 */
#include "base/minmax.h"
#include "monitor/monitor.h"

#include <signal.h>
#include <time.h>

static volatile sig_atomic_t suppressed, writes_line;

void mds_signals_suppress(void)
{
    suppressed = 1;
    mds_monitor_suppress_node();
}

/* SA_RESETHAND has restored the default action, so raise ends the rank.  Launchers drop
 * output that they have not forwarded by then, hence the pause. */
static void on_sigterm(int sig)
{
    const struct timespec forwarding = {.tv_nsec = 200000000};

    mds_monitor_suppress();
    if (writes_line && mds_watch_use(NULL)->waits && !suppressed) {
        if (mds_watch_write("mds: error: ended by SIGTERM") < 0)
            suppressed = 1; /* nobody is left to tell */
        nanosleep(&forwarding, NULL);
    }
    raise(sig);
}

/* Somebody ends the run from a terminal: no error to report. */
static void on_interrupt(int sig)
{
    mds_monitor_suppress_node();
    raise(sig);
}

static void catch_default(int sig, void (*handler)(int))
{
    struct sigaction old, act = {.sa_handler = handler};

    act.sa_flags = (int)SA_RESETHAND;
    sigemptyset(&act.sa_mask);
    if (sigaction(sig, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
        sigaction(sig, &act, NULL);
}

void mds_signals_start(int rank, int ranks)
{
    const int most = 64; /* lines of all ranks: many wait for the same few */

    mds_watch_use(NULL)->rank = rank;
    writes_line = rank % mds_ceil_div(ranks, most) == 0;
    if (ranks < 2)
        return;
    catch_default(SIGTERM, on_sigterm);
    catch_default(SIGINT, on_interrupt);
    catch_default(SIGHUP, on_interrupt);
}
