/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals that end this rank: what they say first, and what its monitor process need
 * not. */
#include "monitor/monitor.h"

#include <signal.h>
#include <time.h>

static volatile sig_atomic_t suppressed, speaks;

void mds_signals_suppress(void)
{
    suppressed = 1;
    mds_monitor_suppress_node();
}

/* SA_RESETHAND has made the signal deadly again; launchers drop what they have not
 * forwarded by then. */
static void on_sigterm(int sig)
{
    const struct timespec forwarding = {.tv_nsec = 200000000};

    mds_monitor_suppress();
    if (speaks && mds_watch_use(NULL)->waits && !suppressed) {
        if (mds_watch_write("mds: error: ended by SIGTERM") < 0)
            suppressed = 1; /* nobody is left to tell */
        nanosleep(&forwarding, NULL);
    }
    raise(sig);
}

/* Somebody ends the run from a terminal: no death to tell of. */
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
    const int most = 64; /* lines; the groups of a run depend on each other */

    mds_watch_use(NULL)->rank = rank;
    speaks = rank % ((ranks + most - 1) / most) == 0;
    if (ranks < 2)
        return;
    catch_default(SIGTERM, on_sigterm);
    catch_default(SIGINT, on_interrupt);
    catch_default(SIGHUP, on_interrupt);
}
