/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/supervise.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- signals ---- */

static volatile sig_atomic_t caught;
static volatile pid_t child; /* 0: none runs */

/* One of the terminal (SI_KERNEL) reaches the whole foreground group by itself.  srun
 * and Open MPI's mpirun kill the ranks when they are sent SIGTERM, but every launcher
 * passes SIGUSR1 on, and the ranks save.  A second SIGTERM is passed on as it is: the
 * first may have had no effect. */
static void forward(int sig, siginfo_t *info, void *context)
{
    int sent = sig == SIGTERM && caught != SIGTERM ? SIGUSR1 : sig;

    (void)context;
    caught = sig;
    if (child > 0 && info->si_code <= 0)
        kill(child, sent);
}

static const int forwarded[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
enum { FORWARDED = sizeof forwarded / sizeof *forwarded };

/* Not those that this process was told to ignore, as a background job is SIGINT. */
static void catch_signals(void)
{
    struct sigaction old,
        act = {.sa_sigaction = forward, .sa_flags = SA_SIGINFO | SA_RESTART};

    sigfillset(&act.sa_mask);
    for (int i = 0; i < FORWARDED; i++)
        if (sigaction(forwarded[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(forwarded[i], &act, NULL);
    signal(SIGPIPE, SIG_IGN); /* who reads our output may leave before the run ends */
}

static void block_signals(int how)
{
    sigset_t set;

    sigemptyset(&set);
    for (int i = 0; i < FORWARDED; i++)
        sigaddset(&set, forwarded[i]);
    sigprocmask(how, &set, NULL);
}

int mds_supervise_caught(void)
{
    return caught;
}

/* ---- output ---- */

/* What arrives at `in` goes on to `out`. */
struct stream {
    int in; /* -1: at its end */
    struct mds_stream out;
    int log; /* -1: none */
};

/* Read what is there now. */
static void pass_on(struct stream *s)
{
    char part[16384];
    ssize_t n;

    (void)mds_stream_write(&s->out, NULL, 0); /* what was kept */
    while (s->in >= 0) {
        n = read(s->in, part, sizeof part);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            close(s->in);
            s->in = -1;
            return;
        }
        /* that nobody reads our output is no reason to hold up or to end the run */
        (void)mds_stream_write(&s->out, part, (size_t)n);
        if (s->log >= 0 && write(s->log, part, (size_t)n) < 0)
            s->log = -1; /* a full disk is no reason, either */
    }
}

static enum mds_rc open_streams(struct stream s[2], int ends[2], int log)
{
    for (int i = 0; i < 2; i++) {
        int both[2];

        if (pipe2(both, O_CLOEXEC))
            return mds_fail(MDS_EMEM, "no pipe for the ranks' output: %s",
                            strerror(errno));
        s[i] = (struct stream){.in = both[0], .out.fd = STDOUT_FILENO + i, .log = log};
        fcntl(both[0], F_SETFL, O_NONBLOCK);
        ends[i] = both[1];
    }
    return MDS_OK;
}

/* ---- the command ---- */

/* The launcher does not outlive this process: nobody would read what its ranks print.
 */
static _Noreturn void exec_command(const struct mds_argv *command, const int ends[2],
                                   pid_t parent)
{
    signal(SIGPIPE, SIG_DFL);
    block_signals(SIG_UNBLOCK);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() == parent && dup2(ends[0], STDOUT_FILENO) >= 0 &&
        dup2(ends[1], STDERR_FILENO) >= 0)
        execvp(command->v[0], command->v);
    fprintf(stderr, "mds: error: %s: %s; is it in PATH?\n", command->v[0],
            strerror(errno));
    _exit(127);
}

static enum mds_rc start_command(const struct mds_argv *command, const int ends[2])
{
    pid_t parent = getpid(), pid;

    catch_signals();
    fflush(NULL);
    block_signals(SIG_BLOCK);
    pid = fork();
    if (pid == 0)
        exec_command(command, ends, parent);
    child = pid > 0 ? pid : 0;
    block_signals(SIG_UNBLOCK);
    return pid < 0 ? mds_fail(MDS_EMEM, "cannot start %s: %s", command->v[0],
                              strerror(errno))
                   : MDS_OK;
}

/* The events that the ranks add. */
struct follow {
    const char *path; /* NULL: none */
    int64_t at;
    double read_s; /* when the file was last read */
};

static void follow_events(struct follow *f, double every_s, struct mds_losses *lost)
{
    double now_s = mds_clock_s();

    if (!f->path || now_s - f->read_s < every_s)
        return;
    f->read_s = now_s;
    mds_losses_read(lost, f->path, &f->at);
}

/* What an earlier start has left is not of this one. */
static struct follow follow_from_now(const char *path)
{
    struct stat st;

    return (struct follow){.path = path,
                           .at = path && stat(path, &st) == 0 ? st.st_size : 0};
}

/* Launchers may wait for a node that is gone.  *sent: the last signal for that. */
static void end_if_stuck(const char *name, double lost_s, int *sent)
{
    const double patience_s = 60;
    double waited_s = mds_clock_s() - lost_s;

    if (waited_s > patience_s && *sent == 0) {
        mds_warn("%s has not ended %.0f s after the loss: ending it", name, waited_s);
        kill(child, *sent = SIGTERM);
    } else if (waited_s > patience_s + 15 && *sent == SIGTERM) {
        kill(child, *sent = SIGKILL);
    }
}

/* Returns its status as wait() has it. */
static int wait_for_command(const char *name, struct stream s[2], struct follow *f,
                            struct mds_losses *lost)
{
    double lost_s = 0;
    int status = 0, sent = 0;

    while (waitpid(child, &status, WNOHANG) == 0) {
        struct pollfd p[2] = {{.fd = s[0].in, .events = POLLIN},
                              {.fd = s[1].in, .events = POLLIN}};

        poll(p, 2, s[0].in < 0 && s[1].in < 0 ? 10 : 200);
        pass_on(&s[0]);
        pass_on(&s[1]);
        follow_events(f, 1, lost);
        if (lost->cancelled && !caught)
            kill(getpid(), SIGTERM); /* to be passed on as such */
        if (lost->n > 0 && lost_s == 0)
            lost_s = mds_clock_s();
        if (lost_s > 0)
            end_if_stuck(name, lost_s, &sent);
    }
    child = 0;
    return status;
}

enum mds_rc mds_supervise(const struct mds_argv *command, int log, const char *events,
                          struct mds_outcome *out)
{
    struct follow f = follow_from_now(events);
    struct stream s[2] = {{.in = -1}, {.in = -1}};
    const double drain_s = 5;
    int ends[2] = {-1, -1}, status = 0;
    enum mds_rc rc = open_streams(s, ends, log);

    *out = (struct mds_outcome){.status = EXIT_FAILURE};
    if (!rc)
        rc = start_command(command, ends);
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
    if (!rc)
        status = wait_for_command(command->v[0], s, &f, &out->lost);
    follow_events(&f, 0, &out->lost);
    for (int i = 0; i < 2; i++) {
        pass_on(&s[i]);
        if (s[i].in >= 0)
            close(s[i].in);
        (void)mds_stream_drain(&s[i].out, drain_s);
        free(s[i].out.kept);
    }
    if (!rc)
        out->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return rc;
}
