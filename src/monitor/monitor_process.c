/* SPDX-License-Identifier: BSD-3-Clause */
/* The monitor process, one per rank.
 *
 * It waits for a lock that the rank's main thread holds.  The kernel releases the lock
 * when that thread ends, however it ends (also by SIGKILL), and before it frees the
 * rank's memory, so before any other rank can notice.  What the rank was doing is in a
 * page that both processes share.  The monitor has a session of its own, so that
 * signals from launchers to the rank's process group do not reach it.  It keeps those
 * of the rank's descriptors whose closing tells launchers, MPICH's above all, that the
 * rank is gone.  So they learn it only when the line is written and the rank's exit
 * status is available, and end the other ranks after that. */
#include "monitor/monitor.h"

#include "base/clock.h"
#include "base/events.h"
#include "base/host.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What a rank and its monitor process share. */
struct page {
    struct mds_watch watch;
    pthread_mutex_t life;     /* held by the rank's main thread while it lives */
    pid_t rank;               /* the rank's process */
    char host[MDS_HOST_SIZE]; /* where it runs */
    int64_t killed_before;    /* count_oom_kills when the run began */
    int quiet;                /* write nothing: the reason for its end is known */
    int flag_pid, flag_fd;    /* where to open the node's flag; 0: not known yet */
};

static struct page *page; /* NULL: no monitor process */
static int *flag; /* of the node; 1: a line is written, or none shall be; NULL: none */
static pid_t monitor;

static void *map_shared(int fd, size_t size)
{
    int flags = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);

    return p == MAP_FAILED ? NULL : p;
}

/* How many processes of this node the kernel's out-of-memory killer has ended since
 * boot, in any container or job; -1 if unknown. */
static int64_t count_oom_kills(void)
{
    char text[16384];
    const char *line;

    mds_proxy_read_text("/proc/vmstat", text, sizeof text);
    line = strstr(text, "\noom_kill ");
    return line ? strtoll(line + strlen("\noom_kill "), NULL, 10) : -1;
}

/* ---- in the monitor process ---- */

/* Close all descriptors but standard output, standard error and these two. */
static void close_descriptors(int kept, int kept_too)
{
    DIR *d = opendir("/proc/self/fd");
    const struct dirent *e;

    while (d && (e = readdir(d))) {
        int fd = (int)strtol(e->d_name, NULL, 10);

        if (e->d_name[0] != '.' && fd != STDOUT_FILENO && fd != STDERR_FILENO &&
            fd != kept && fd != kept_too && fd != dirfd(d))
            close(fd);
    }
    if (d)
        closedir(d);
}

static void ignore_signals(void)
{
    sigset_t none;

    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The status of a process that its parent has waited for already, by PIDFD_GET_INFO; -1
 * before Linux 6.15.  Defined here, as linux/pidfd.h is older on build machines. */
static int exit_code_by_pidfd(int fd)
{
    enum { KNOWS_EXIT = 1 << 3 };
    struct {
        uint64_t mask, cgroup;
        uint32_t ids[11];
        int32_t exit_code;
    } info = {.mask = KNOWS_EXIT};

    if (ioctl(fd, _IOWR(0xff, 11, info), &info) < 0 || !(info.mask & KNOWS_EXIT))
        return -1;
    return info.exit_code;
}

/* The rank's status as wait() returns it, from /proc; -1 if unknown.  srun waits for
 * its ranks as soon as they end, so that /proc may no longer have this one. */
static int exit_code(int fd)
{
    char path[64], text[1024];
    const char *last;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)page->rank);
    mds_proxy_read_text(path, text, sizeof text);
    last = strrchr(text, ' ');
    return last ? (int)strtol(last, NULL, 10) : exit_code_by_pidfd(fd);
}

/* Whether a person or the batch system ended the rank. */
static int is_ordinary_end(int status)
{
    int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

    return status >= 0 && (sig == SIGTERM || sig == SIGINT || sig == SIGHUP);
}

/* Whether it may have died because a peer did: MPI libraries abort a rank when they can
 * no longer read the memory of a peer, which may still be dying. */
static int may_be_consequence(int status)
{
    return status >= 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void append_cause(struct mds_str *s, int status)
{
    if (status >= 0 && WIFSIGNALED(status))
        mds_str_add(s, " was killed by signal %d (%s)", WTERMSIG(status),
                    strsignal(WTERMSIG(status)));
    else if (status >= 0 && WIFEXITED(status))
        mds_str_add(s, " exited with status %d", WEXITSTATUS(status));
    else
        mds_str_add(s, " died (exit status unknown, its launcher has read it)");
}

/* How many processes the kernel has killed since the run began, if that may be why the
 * rank died. */
static int64_t count_new_oom_kills(int status)
{
    int64_t killed = count_oom_kills();

    if (status >= 0 && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
        return 0;
    return killed < 0 || page->killed_before < 0 ? -1 : killed - page->killed_before;
}

static void append_oom_advice(struct mds_str *s, int status)
{
    int64_t killed = count_new_oom_kills(status);

    if (killed > 0)
        mds_str_add(s,
                    "; since the run began the kernel has killed %lld process(es) of "
                    "this node because host memory ran out: --dry-run shows what a "
                    "rank needs",
                    (long long)killed);
    else if (killed < 0)
        mds_str_add(s, "; if nobody sent that signal, see dmesg for the kernel's "
                       "out-of-memory killer");
}

static void append_calls(struct mds_str *s, const struct mds_watch *w)
{
    char entered[256], now[256];

    mds_watch_record_text(&w->entered, entered, sizeof entered);
    mds_watch_record_text(&w->now, now, sizeof now);
    mds_str_add(s, "; its last collective: %s", entered);
    if (!w->waits)
        return;
    if (strcmp(entered, now) == 0)
        mds_str_add(s, ", where it waited");
    else
        mds_str_add(s, "; it waited in %s", now);
    if (w->waited_for >= 0)
        mds_str_add(s, " for rank %d", w->waited_for);
}

static void append_rank(struct mds_str *s)
{
    mds_str_add(s, "mds: error: rank %d (%s, process %d)", page->watch.rank, page->host,
                (int)page->rank);
}

static void write_death_line(int status)
{
    struct mds_str s = {0};
    struct timespec t;
    struct tm utc;
    char when[32] = "";

    clock_gettime(CLOCK_REALTIME, &t);
    if (gmtime_r(&t.tv_sec, &utc))
        strftime(when, sizeof when, "%H:%M:%S", &utc);
    append_rank(&s);
    append_cause(&s, status);
    mds_str_add(&s, " at %s.%03ld UTC", when, t.tv_nsec / 1000000);
    append_calls(&s, &page->watch);
    append_oom_advice(&s, status);
    mds_str_add(&s, "\n");
    if (s.s && write(STDERR_FILENO, s.s, strlen(s.s)) < 0)
        _exit(1); /* nobody is left to tell */
}

/* The same for mds_launch.  Written also if nobody reads standard error. */
static void record_death(int status)
{
    int by_signal = status >= 0 && WIFSIGNALED(status);
    struct mds_str why = {0};
    char call[256];
    struct mds_event e;

    append_cause(&why, status);
    mds_watch_record_text(&page->watch.entered, call, sizeof call);
    mds_event_begin(&e, "rank_lost");
    mds_event_add_int(&e, "rank", page->watch.rank);
    mds_event_add_text(&e, "host", page->host);
    mds_event_add_text(&e, "cause",
                       by_signal                          ? "signal"
                       : status >= 0 && WIFEXITED(status) ? "exit"
                                                          : "unknown");
    if (by_signal)
        mds_event_add_int(&e, "signal", WTERMSIG(status));
    mds_event_add_int(&e, "out_of_memory", count_new_oom_kills(status) > 0);
    mds_event_add_text(&e, "reason", why.s ? why.s + 1 : "died");
    mds_event_add_text(&e, "last_call", call);
    (void)mds_event_end(&e);
    mds_str_fini(&why);
}

/* A failure is ignored: standard error may be closed by now. */
static void write_lost_launcher_line(void)
{
    struct mds_str s = {0};
    ssize_t n = 0;

    append_rank(&s);
    mds_str_add(&s, ": mpiexec's process on this node (hydra_pmi_proxy) was killed; "
                    "ending the ranks here\n");
    if (s.s)
        n = write(STDERR_FILENO, s.s, s.len);
    (void)n;
    mds_str_fini(&s);
}

static void open_node_flag(void)
{
    char path[64];
    int fd, pid = 0;

    if (!flag)
        pid = __atomic_load_n(&page->flag_pid, __ATOMIC_ACQUIRE);
    if (pid == 0)
        return;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, page->flag_fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    flag = map_shared(fd, sizeof *flag);
    close(fd);
}

static int is_node_flag_claimed(void)
{
    open_node_flag();
    return flag && __atomic_load_n(flag, __ATOMIC_SEQ_CST);
}

static int claim_node_flag(void)
{
    open_node_flag();
    return !flag || !__atomic_exchange_n(flag, 1, __ATOMIC_SEQ_CST);
}

/* 0 or EOWNERDEAD if the rank is gone, ETIMEDOUT if it still runs after s seconds. */
static int wait_for_rank_lock(double s)
{
    struct timespec until;
    double whole, part = modf(s, &whole);

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)whole;
    until.tv_nsec += (long)(part * 1e9);
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    return pthread_mutex_timedlock(&page->life, &until);
}

/* mpiexec's proxy is gone, so nobody else will end this rank, which holds locks on its
 * files.  SIGTERM first; ranks that save a checkpoint on SIGTERM have 30 s for that. */
static void end_without_launcher(double *asked_s)
{
    const double patience_s = 30;

    if (*asked_s == 0) {
        if (claim_node_flag())
            write_lost_launcher_line();
        page->quiet = 1;
        *asked_s = mds_clock_s();
        kill(page->rank, SIGTERM);
        kill(page->rank, SIGCONT); /* a stopped rank keeps mpiexec's pipes open */
    } else if (mds_clock_s() - *asked_s > patience_s) {
        kill(page->rank, SIGKILL);
    }
}

/* Wait until the rank is gone.  Poll often until the rank has published the node's
 * flag, which it does early. */
static void watch_rank(void)
{
    double asked_s = 0;

    while (wait_for_rank_lock(flag ? 1 : 0.05) == ETIMEDOUT) {
        open_node_flag();
        if (mds_proxy_is_gone())
            end_without_launcher(&asked_s);
    }
}

/* Launchers that watch the rank's descriptors do not know yet: they are open here. */
static void report_death(int status)
{
    const struct timespec peer_dies = {.tv_sec = 1};

    if (may_be_consequence(status)) {
        if (is_node_flag_claimed()) /* the cause is known */
            return;
        record_death(status);
        write_death_line(status);
        nanosleep(&peer_dies, NULL);
        claim_node_flag();
    } else if (claim_node_flag() && !is_ordinary_end(status)) {
        record_death(status);
        write_death_line(status);
    }
}

/* Wait until the rank's parent can wait for it: mpiexec of MPICH 4.2 takes the status
 * for 0 if it learns of the end before that. */
static void wait_until_waitable(int rank)
{
    struct pollfd end = {.fd = rank, .events = POLLIN};

    if (rank >= 0)
        poll(&end, 1, -1);
}

/* rank: the rank's pidfd, or -1. */
static _Noreturn void monitor_main(int rank)
{
    const char *pmi = getenv("PMI_FD");

    setsid();
    prctl(PR_SET_NAME, "mds_monitor");
    ignore_signals();
    close_descriptors(pmi ? (int)strtol(pmi, NULL, 10) : -1, rank);
    watch_rank();
    if (!page->quiet && page->watch.rank >= 0) { /* MPI was up */
        report_death(exit_code(rank));
        wait_until_waitable(rank);
    }
    _exit(0);
}

/* ---- in the rank ---- */

static int lock_rank_mutex(pthread_mutex_t *life)
{
    pthread_mutexattr_t a;
    int bad = pthread_mutexattr_init(&a) ||
              pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED) ||
              pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST) ||
              pthread_mutex_init(life, &a);

    return bad ? -1 : pthread_mutex_lock(life);
}

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* A pidfd of this process; -1 before Linux 5.3. */
static int open_own_pidfd(void)
{
    return (int)syscall(SYS_pidfd_open, getpid(), 0);
}

void mds_monitor_start(void)
{
    int self;

    page = map_shared(-1, sizeof *page);
    if (!page || lock_rank_mutex(&page->life)) {
        page = NULL;
        return;
    }
    page->rank = getpid();
    page->killed_before = count_oom_kills();
    mds_host_name(page->host);
    mds_watch_use(&page->watch);
    mds_proxy_find();
    self = open_own_pidfd();
    monitor = fork();
    if (monitor == 0)
        monitor_main(self);
    if (self >= 0)
        close(self);
}

/* A memfd has no name, so nothing is left behind however the run ends.  It stays open:
 * the other processes of the node open it through /proc/PID/fd. */
void mds_monitor_create_flag(int where[2])
{
    int fd = memfd_create("mds", MFD_CLOEXEC);

    if (fd >= 0 && ftruncate(fd, sizeof *flag)) {
        close(fd);
        fd = -1;
    }
    where[0] = (int)getpid();
    where[1] = fd;
}

void mds_monitor_use_flag(const int where[2])
{
    if (where[1] < 0 || !page)
        return;
    page->flag_fd = where[1]; /* before flag_pid, which monitors read first */
    __atomic_store_n(&page->flag_pid, where[0], __ATOMIC_RELEASE);
    open_node_flag();
}

void mds_monitor_suppress(void)
{
    if (page)
        page->quiet = 1;
}

void mds_monitor_suppress_node(void)
{
    mds_monitor_suppress();
    if (flag)
        __atomic_store_n(flag, 1, __ATOMIC_SEQ_CST);
}

void mds_monitor_stop(void)
{
    mds_monitor_suppress();
    if (monitor <= 0)
        return;
    pthread_mutex_unlock(&page->life);
    waitpid(monitor, NULL, 0);
    monitor = 0;
}
