/* SPDX-License-Identifier: BSD-3-Clause */
/* A limit for what has none of its own: MPI's start and end, and calls of MPI's and
 * NCCL's that wait for other ranks inside.  Nothing else can be called from there, and
 * no other rank be told: this one says so and leaves, and launchers end the others. */
#include "monitor/monitor.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Time passes in parts: one in which this process was stopped counts as one, however
 * long that was. */
enum { PARTS = 4 };

static double limit_s = 600;
static const char *volatile line;
static volatile sig_atomic_t left; /* parts; 0: nothing is limited */

void mds_watchdog_set_limit_s(double s)
{
    limit_s = s;
}

double mds_watchdog_limit_s(void)
{
    return limit_s;
}

/* What a rank waits for may be on a node that never answered, or is dead.  MPICH's
 * mpiexec would wait for it, too; so that it does not, it loses the process that it has
 * here, once that has handed the line on. */
static void on_watchdog_expired(int sig)
{
    const struct timespec handed_on = {.tv_nsec = 200000000};
    int bad;

    (void)sig;
    if (left == 0 || --left > 0) /* 0: the limit was lifted meanwhile */
        return;
    mds_monitor_suppress_node();
    bad = mds_watch_write(line) < 0;
    nanosleep(&handed_on, NULL);
    mds_proxy_kill();
    _exit(bad ? 2 : EXIT_FAILURE);
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
    static int knows;
    struct sigaction act = {.sa_handler = on_watchdog_expired, .sa_flags = SA_RESTART};

    if (!knows) {
        sigemptyset(&act.sa_mask);
        sigaction(SIGALRM, &act, NULL);
        knows = 1;
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
