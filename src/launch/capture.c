/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/capture.h"
#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static _Noreturn void exec_command(const char *const *argv, int out)
{
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (nowhere >= 0 && dup2(nowhere, STDIN_FILENO) >= 0 &&
        dup2(nowhere, STDERR_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0)
        execvp(argv[0], (char *const *)argv);
    _exit(127);
}

/* Until its end; -1: that has not come by then. */
static int read_until_deadline(int fd, double end_s, struct mds_str *answer)
{
    char part[512];

    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        double left_s = end_s - mds_clock_s();
        ssize_t n;

        if (left_s <= 0)
            return -1;
        if (poll(&p, 1, (int)(1000 * left_s) + 1) < 1)
            continue;
        n = read(fd, part, sizeof part);
        if (n == 0 || (n < 0 && errno != EINTR))
            return 0;
        if (n > 0)
            mds_str_add(answer, "%.*s", (int)n, part);
    }
}

/* As wait() has it; -1: it is not gone by then. */
static int wait_until_deadline(pid_t child, double end_s)
{
    const struct timespec often = {.tv_nsec = 1000000};
    int status = -1;

    while (waitpid(child, &status, WNOHANG) == 0) {
        if (mds_clock_s() >= end_s)
            return -1;
        nanosleep(&often, NULL);
    }
    return status;
}

/* In the parent. */
static int read_output_of_child(pid_t child, int fd, const char *name, double limit_s,
                                struct mds_str *answer)
{
    double end_s = mds_clock_s() + limit_s;
    int late = read_until_deadline(fd, end_s, answer);
    int status = late ? -1 : wait_until_deadline(child, end_s);

    if (status < 0) {
        kill(child, SIGKILL);
        mds_warn("%s did not finish within %g s; continuing without it", name, limit_s);
    }
    return status == 0 && !answer->failed ? 0 : -1;
}

int mds_capture_output(const char *const *argv, double limit_s, struct mds_str *answer)
{
    int ends[2], rc = -1;
    pid_t child;

    if (pipe2(ends, O_CLOEXEC))
        return -1;
    child = fork();
    if (child == 0)
        exec_command(argv, ends[1]);
    close(ends[1]);
    if (child > 0)
        rc = read_output_of_child(child, ends[0], argv[0], limit_s, answer);
    close(ends[0]);
    if (rc)
        mds_str_fini(answer);
    return rc;
}
