/* SPDX-License-Identifier: BSD-3-Clause */
/* A timeout for calls that have none: MPI's start and end, and calls of MPI and NCCL
 * that block until other ranks arrive.  Meanwhile this rank cannot call MPI to notify
 * the others, so it writes its error line and exits, and the launcher ends the others.
 */
#include "monitor/monitor.h"

#include "base/events.h"
#include "base/exit_status.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* The limit is counted in parts, by a timer: a part in which this process was stopped
 * counts once, however long that was. */
enum { PARTS = 4 };

static double limit_s = 600;
static const char *volatile line;
static volatile sig_atomic_t left; /* parts; 0: no call is being timed */

void mds_watchdog_set_limit_s(double s)
{
    limit_s = s;
}

double mds_watchdog_limit_s(void)
{
    return limit_s;
}

/* Of the line what follows "mds: error: ". */
static void record_stuck(void)
{
    const char *reason = strstr(line, "error: ");
    struct mds_watch *w = mds_watch_use(NULL);
    char host[MDS_HOST_SIZE], call[256];
    struct mds_event e;

    mds_host_name(host);
    mds_watch_record_text(&w->entered, call, sizeof call);
    mds_event_begin(&e, "stuck");
    mds_event_add_int(&e, "rank", w->rank);
    mds_event_add_text(&e, "host", host);
    mds_event_add_text(&e, "reason", reason ? reason + strlen("error: ") : line);
    mds_event_add_text(&e, "last_call", call);
    (void)mds_event_end(&e);
}

/* The peer may be on a node that is dead or never answered, and MPICH's mpiexec would
 * wait for that node, too.  It returns once its proxy on this node is killed; before
 * that, the proxy gets time to forward the error line. */
static void on_watchdog_expired(int sig)
{
    const struct timespec forwarding = {.tv_nsec = 200000000};
    int bad;

    (void)sig;
    if (left == 0 || --left > 0) /* 0: stopped meanwhile */
        return;
    mds_monitor_suppress_node();
    record_stuck();
    bad = mds_watch_write(line) < 0;
    nanosleep(&forwarding, NULL);
    mds_proxy_kill();
    _exit(bad ? 2 : MDS_EXIT_LOST);
}

static void set_itimer_s(double part_s)
{
    struct itimerval t = {.it_interval.tv_sec = (time_t)part_s};

    t.it_interval.tv_usec = (suseconds_t)((part_s - floor(part_s)) * 1e6);
    t.it_value = t.it_interval;
    setitimer(ITIMER_REAL, &t, NULL);
}

void mds_watchdog_start(const char *text, int waits_longer)
{
    static int installed;
    struct sigaction act = {.sa_handler = on_watchdog_expired, .sa_flags = SA_RESTART};

    if (!installed) {
        sigemptyset(&act.sa_mask);
        sigaction(SIGALRM, &act, NULL);
        installed = 1;
    }
    line = text;
    left = PARTS;
    set_itimer_s((limit_s + (waits_longer != 0)) / PARTS);
}

void mds_watchdog_stop(void)
{
    set_itimer_s(0);
    left = 0;
}
