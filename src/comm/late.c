/* A limit for MPI's start, which has none: where a copy of the program does not come up
 * (a node that cannot load it, a launcher's slip), the others wait for it. */
#include "comm/internal.h"

#include "base/host.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char line[512];
static size_t length;

/* Inside of MPI: nothing else can be called, and no other rank be told. */
static void on_alarm(int sig)
{
    (void)sig;
    mds_comm_sentinel_hush();
    _exit(write(STDERR_FILENO, line, length) < 0 ? 2 : EXIT_FAILURE);
}

/* Launchers end the others when the first one leaves: it has a second for that. */
void mds_comm_late_start(long rank, long copies)
{
    const double most_s = 1e9, limit_s = mds_comm_timeout_s();
    struct sigaction act = {.sa_handler = on_alarm};
    char host[MDS_HOST_SIZE];

    mds_host_name(host);
    snprintf(
        line, sizeof line,
        "mds: [rank %ld %s] error: MPI has not started %ld ranks in %g s "
        "(--distributed-timeout-minutes): one did not come up; look for what it, or "
        "its node, said\n",
        rank, host, copies, limit_s);
    length = strlen(line);
    sigemptyset(&act.sa_mask);
    sigaction(SIGALRM, &act, NULL);
    alarm((unsigned)fmin(ceil(limit_s) + (rank > 0), most_s));
}

void mds_comm_late_stop(void)
{
    alarm(0);
    signal(SIGALRM, SIG_DFL);
}
