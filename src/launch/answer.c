/* SPDX-License-Identifier: BSD-3-Clause */
/* Which nodes of a run do not answer?  Each is asked to run true(1), by the launcher
 * that starts the ranks. */
#include "base/clock.h"
#include "base/minmax.h"
#include "launch/launch.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { AT_ONCE = 32 };

/* How long to wait for all answers; where others answer faster, three times as long as
 * they take is enough, but not less than this. */
static const double most_s = 15, least_s = 5;

struct question {
    const char *node;
    pid_t asked; /* 0: it has answered */
};

/* The launcher's command line for that node alone. */
static enum mds_rc add_question(const struct mds_launch *l, char *node,
                                struct mds_argv *out)
{
    char answer[] = "true";
    struct mds_launch_options options = *l->options;
    struct mds_launch once = *l;
    struct mds_argv none = {0};

    options.program = answer;
    once.options = &options;
    once.nodes = once.per_node = once.ranks = 1;
    once.placement = (struct mds_placement){.count = 1, .excluded = 1};
    once.placement.found[0].hosts = (struct mds_hosts){.name = &node, .count = 1};
    return mds_launch_command(&once, &none, out);
}

/* In a process group of its own, which ends as a whole. */
static _Noreturn void exec_question(char *const *argv)
{
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

    setpgid(0, 0);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        dup2(nowhere, fd);
    execvp(argv[0], argv);
    _exit(127);
}

static enum mds_rc ask(const struct mds_launch *l, char *node, struct question *q)
{
    struct mds_argv command = {0};
    enum mds_rc rc = add_question(l, node, &command);

    if (rc)
        return rc;
    *q = (struct question){.node = node, .asked = fork()};
    if (q->asked == 0)
        exec_question(command.v);
    mds_argv_fini(&command);
    return q->asked > 0 ? MDS_OK : mds_fail(MDS_EMEM, "no process to ask %s", node);
}

/* Until all have answered, or the time is over.  Who ends with an error has none. */
static void wait_for_answers(struct question *q, int n)
{
    const struct timespec often = {.tv_nsec = 20000000};
    double begin_s = mds_clock_s(), latest_s = most_s;
    int waiting = n;

    while (waiting > 0 &&
           mds_clock_s() - begin_s < fmin(most_s, fmax(least_s, 3 * latest_s))) {
        waiting = 0;
        for (int i = 0; i < n; i++) {
            int status;

            if (q[i].asked <= 0)
                continue;
            if (waitpid(q[i].asked, &status, WNOHANG) != q[i].asked) {
                waiting++;
                continue;
            }
            q[i].asked = status == 0 ? 0 : -1;
            if (status == 0)
                latest_s = mds_clock_s() - begin_s;
        }
        nanosleep(&often, NULL);
    }
}

static void add_silent(struct question *q, int n, struct mds_losses *lost)
{
    for (int i = 0; i < n; i++) {
        if (q[i].asked > 0) {
            kill(-q[i].asked, SIGKILL);
            waitpid(q[i].asked, NULL, 0);
        }
        if (q[i].asked != 0)
            mds_losses_add(lost, -1, q[i].node, "does not answer");
    }
}

enum mds_rc mds_launch_find_silent(const struct mds_launch *l, struct mds_losses *lost)
{
    const struct mds_hosts *h = mds_placement_hosts(&l->placement);
    int64_t nodes = h ? mds_min(l->nodes, (int64_t)h->count) : 0;
    struct mds_losses found = {.n = 0};

    for (int64_t at = 0; at < nodes; at += AT_ONCE) {
        struct question q[AT_ONCE];
        int n = 0;

        while (n < mds_min(AT_ONCE, nodes - at)) {
            MDS_TRY(ask(l, h->name[at + n], &q[n]));
            n++;
        }
        wait_for_answers(q, n);
        add_silent(q, n, &found);
    }
    if (found.n >= mds_min(nodes, MDS_LOSSES)) /* then it is not they */
        return MDS_OK;
    for (int i = 0; i < found.n; i++)
        mds_losses_add(lost, found.v[i].rank, found.v[i].host, found.v[i].why);
    return MDS_OK;
}
