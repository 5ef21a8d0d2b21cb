/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/stop.h"
#include "transport/world.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

/* A batch system may signal every process itself while the launcher forwards the same
 * signal: a second one within this time is taken for the first. */
enum { SAME_S = 1 };

static volatile sig_atomic_t caught, ended;
static struct timespec ended_at; /* used only in the handler */
static int on_terminal; /* where nobody but this process says that Ctrl-C has come */

/* A step may take minutes, in which a signal seems to be without effect. */
static void acknowledge(void)
{
    static const char text[] =
        "mds: info: leaving after this step; a second Ctrl-C leaves at once\n";

    if (on_terminal && write(STDERR_FILENO, text, sizeof text - 1) < 0)
        on_terminal = 0;
}

/* SIGUSR1 warns that SIGTERM will follow, so it is not the first of two. */
static void on_signal(int sig)
{
    struct timespec now;

    if (sig != SIGUSR1) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (ended && now.tv_sec - ended_at.tv_sec > SAME_S)
            mds_world_drop(128 + sig);
        if (!ended) {
            ended_at = now;
            acknowledge();
        }
        ended = 1;
    }
    if (sig != SIGUSR1 || !caught)
        caught = sig;
}

static void set_handlers(void (*handler)(int))
{
    struct sigaction old, act = {.sa_handler = handler, .sa_flags = SA_RESTART};

    sigfillset(&act.sa_mask);
    /* A shell's background job ignores SIGINT: Ctrl-C is for another program. */
    if (sigaction(SIGINT, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGUSR1, &act, NULL);
}

void mds_stop_watch(void)
{
    caught = ended = 0;
    on_terminal = isatty(STDERR_FILENO);
    set_handlers(on_signal);
}

int mds_stop_caught(void)
{
    return caught;
}

void mds_stop_ignore(void)
{
    set_handlers(SIG_IGN);
}
