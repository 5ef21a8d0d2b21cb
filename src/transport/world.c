/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/world.h"

#include "base/host.h"
#include "base/log.h"
#include "base/units.h"
#include "monitor/monitor.h"

#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

/* The variables by which launchers tell each process how many they started, in all and
 * on its node, and which of them it is.  SLURM_NTASKS and SLURM_NPROCS do not serve:
 * salloc and sbatch set them for a script that runs once. */
static const struct launcher {
    const char *variable, *rank, *here, *local, *name;
    const char *remedy; /* NULL: the default one */
} launchers[] = {
    {"PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "MPI_LOCALRANKID",
     "a launcher that speaks PMI (MPICH, Intel MPI, PALS)", NULL},
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "Open MPI's launcher", NULL},
    {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_SIZE",
     "MV2_COMM_WORLD_LOCAL_RANK", "MVAPICH's launcher", NULL},
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_TASKS_PER_NODE",
     "SLURM_LOCALID", "srun",
     "name a plugin that MPI knows (srun --mpi=list, then --mpi=pmix or --mpi=pmi2), "
     "or use that MPI's own mpiexec"},
};

enum { LAUNCHERS = sizeof launchers / sizeof *launchers };

static int ranks_up; /* number of ranks while MPI is initialised, else 0 */

/* The number of processes that the launcher says it started, or 0.  Slurm steps from
 * 0xfffffff0 on are batch scripts and interactive shells, not parallel launches. */
static long launched_ranks(const struct launcher *l)
{
    const char *text = getenv(l->variable), *step = getenv("SLURM_STEP_ID");
    int slurm = strncmp(l->variable, "SLURM_", 6) == 0;

    if (!text || (slurm && step && strtoll(step, NULL, 10) >= 0xfffffff0LL))
        return 0;
    return strtol(text, NULL, 10);
}

/* The launcher that started several processes; NULL if none did.  If another launcher
 * says 1, srun is not asked: users may run many independent single ranks under srun. */
static const struct launcher *find_parallel_launcher(void)
{
    for (int i = 0; i < LAUNCHERS; i++)
        if (launched_ranks(&launchers[i]) > 0)
            return launched_ranks(&launchers[i]) > 1 ? &launchers[i] : NULL;
    return NULL;
}

/* The rank that the launcher assigned to this process. */
static int meant_rank(const struct launcher *l)
{
    const char *meant = getenv(l->rank);

    return meant ? atoi(meant) : 0;
}

int mds_world_copies(int *rank)
{
    const struct launcher *l = find_parallel_launcher();

    *rank = l ? meant_rank(l) : 0;
    return l ? (int)launched_ranks(l) : 1;
}

/* "MPICH Version: 4.0.2", "Open MPI v4.1.4". */
static void name_library(char *text, size_t size)
{
    char all[MPI_MAX_LIBRARY_VERSION_STRING] = "unknown";
    int len;

    MPI_Get_library_version(all, &len);
    all[strcspn(all, "\n,")] = '\0';
    for (char *p = all; *p; p++)
        if (*p == '\t')
            *p = ' ';
    snprintf(text, size, "%s", all);
}

/* *rank: as the launcher assigned it, so that one rank can report this for all. */
static enum mds_rc fail_alone(const struct launcher *l, long copies, int *rank)
{
    char library[128];

    *rank = meant_rank(l);
    name_library(library, sizeof library);
    return mds_fail(
        MDS_EUSER,
        "%s started %ld copies of this program (%s), but MPI reports 1 rank in each: "
        "the program uses %s; %s",
        l->name, copies, l->variable, library,
        l->remedy ? l->remedy
                  : "use that MPI's mpiexec, or rebuild with the launcher's "
                    "(./configure --with-mpi=...)");
}

static int abort_status;

static void on_abort_stuck(int sig)
{
    (void)sig;
    mds_proxy_kill();
    _exit(abort_status);
}

/* On a host without a network MPI_Abort waits for ever, and so does the launcher's
 * process there.  This rank then ends alone, and gives back what it holds: the lock of
 * --save above all. */
static void limit_abort(int exit_code)
{
    const unsigned limit_s = 10;
    struct sigaction act = {.sa_handler = on_abort_stuck};

    abort_status = exit_code;
    sigemptyset(&act.sa_mask);
    sigaction(SIGALRM, &act, NULL);
    alarm(limit_s);
}

/* Give the others 0.2 s to learn that the abort is deliberate, and the launcher time to
 * forward this rank's last lines: MPICH's mpiexec drops what it has not forwarded. */
static void abort_ranks(int exit_code)
{
    limit_abort(exit_code);
    mds_abort_notice_send(MDS_ABORT_RUN_ENDS);
    for (int i = 0; i < 20; i++) {
        mds_abort_notice_from(MDS_ABORT_RUN_ENDS); /* lets MPI send */
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    MPI_Abort(MPI_COMM_WORLD, exit_code);
}

/* Called at exit.  If a rank exits before MPI_Finalize, the others wait for it, or
 * MPICH's mpiexec ends them and reports success. */
static void abort_others(void)
{
    if (ranks_up > 1) {
        mds_error("this rank exits in the middle of the run; ending the others");
        mds_monitor_suppress_node();
        abort_ranks(EXIT_FAILURE);
    }
}

static int is_first_of_node(const struct launcher *l)
{
    const char *local = getenv(l->local);

    return local ? atoi(local) == 0 : meant_rank(l) == 0;
}

/* How many processes it started on this node; below 1: unknown. */
static int copies_here(const struct launcher *l)
{
    const char *node = getenv("SLURM_NODEID");
    int of_nodes = strncmp(l->here, "SLURM_", 6) == 0; /* a list of all nodes */

    return mds_slurm_list_entry(getenv(l->here), of_nodes && node ? atoi(node) : 0);
}

/* Warn if /dev/shm is too small: MPI libraries then fail to start, and only say that
 * memory ran out.  On every node, before MPI starts.  MPICH 4.0 over UCX took 4.2 MiB
 * per rank, Open MPI 4.1 a bit over 1. */
static void check_shared_memory(const struct launcher *l)
{
    const double each = 5 << 20;
    int copies = copies_here(l);
    char left[32], host[MDS_HOST_SIZE];
    struct statvfs s;
    double bytes;

    if (!is_first_of_node(l) || copies < 2 || statvfs("/dev/shm", &s))
        return;
    bytes = (double)s.f_bavail * (double)s.f_frsize;
    if (bytes >= each * copies)
        return;
    mds_host_name(host);
    mds_warn("/dev/shm of %s has %s left for its %d ranks, and MPI needs about 5 MiB "
             "there for each: if MPI does not start, enlarge it (containers: "
             "--shm-size)",
             host, mds_format_bytes(bytes, left, sizeof left), copies);
}

/* Set a timeout for MPI_Init, which waits if a process never starts (a node cannot load
 * the program, say). */
static void limit_start(const struct launcher *l)
{
    static char line[512];
    char host[MDS_HOST_SIZE];

    mds_host_name(host);
    snprintf(
        line, sizeof line,
        "mds: [rank %d %s] error: MPI has not started %ld rank%s in %g s "
        "(--distributed-timeout-minutes): look for the rank or node that failed to "
        "start, and its messages",
        meant_rank(l), host, launched_ranks(l), mds_plural(launched_ranks(l)),
        mds_watchdog_limit_s());
    mds_watchdog_start(line, meant_rank(l) > 0);
}

static enum mds_rc find_local_ranks(struct mds_world *w)
{
    int flag[2] = {0, -1};
    MPI_Comm node;

    MPI_Comm_rank(MPI_COMM_WORLD, &w->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &w->ranks);
    if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, w->rank,
                            MPI_INFO_NULL, &node) != MPI_SUCCESS)
        return mds_fail(MDS_ECOMM,
                        "MPI_Comm_split_type failed: unknown which ranks share a node");
    MPI_Comm_rank(node, &w->local_rank);
    MPI_Comm_size(node, &w->local_ranks);
    if (w->local_rank == 0)
        mds_monitor_create_flag(flag);
    if (MPI_Bcast(flag, 2, MPI_INT, 0, node) == MPI_SUCCESS)
        mds_monitor_use_flag(flag);
    MPI_Comm_free(&node);
    mds_host_name(w->host);
    return MDS_OK;
}

enum mds_rc mds_world_init(struct mds_world *w)
{
    const struct launcher *launcher = find_parallel_launcher();
    long copies = launcher ? launched_ranks(launcher) : 1;
    struct mds_world found = {0};
    int level;

    if (ranks_up)
        return mds_fail(MDS_EBUG, "mds_world_init called twice");
    if (launcher) {
        check_shared_memory(launcher);
        mds_monitor_start();
        limit_start(launcher);
    }
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS)
        return mds_fail(MDS_ECOMM, "MPI_Init_thread failed");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_up);
    atexit(abort_others);
    if (level < MPI_THREAD_FUNNELED)
        return mds_fail(
            MDS_EUSER,
            "this MPI was built without support for threads: use one that was");
    MDS_TRY(find_local_ranks(&found));
    if (launcher)
        mds_watchdog_stop();
    if (found.ranks == 1 && launcher)
        return fail_alone(launcher, copies, &w->rank);
    mds_signals_start(found.rank, found.ranks);
    *w = found;
    return MDS_OK;
}

/* The socket by which MPICH's mpiexec and this rank talk (PMI 1), or -1. */
static int mpiexec_socket(void)
{
    const char *socket = getenv("PMI_FD");

    return socket && getenv("MPI_LOCALRANKID") ? atoi(socket) : -1;
}

/* MPICH hangs in MPI_Finalize between hosts when UCX sends by TCP, one time in five
 * with MPICH 4.0 and UCX 1.13: openucx/ucx issue 8738. */
static int finalize_may_hang(const struct mds_world *w)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length;

    if (w->local_ranks == w->ranks || mpiexec_socket() < 0)
        return 0;
    MPI_Get_library_version(version, &length);
    return strncmp(version, "MPICH", 5) == 0 && strstr(version, "ch4:ucx") != NULL;
}

/* When all have arrived in the barrier, all messages have.  The pause is for a rank
 * that still reads the last ones, and for the launcher to forward the last lines. */
static void wait_for_all(void)
{
    const struct timespec reading = {.tv_nsec = 300000000};

    MPI_Barrier(MPI_COMM_WORLD);
    nanosleep(&reading, NULL);
}

/* Tell mpiexec, as MPI_Finalize does; it answers a line. */
static void finalize_without_ucx(void)
{
    static const char leave[] = "cmd=finalize\n";
    int mpiexec = mpiexec_socket();
    char answer[64];

    wait_for_all();
    if (write(mpiexec, leave, strlen(leave)) < 0 ||
        read(mpiexec, answer, sizeof answer) < 0)
        mds_warn("mpiexec has gone before the run's end: %s", strerror(errno));
}

/* Let mpiexec end all ranks, with this status, as MPI_Abort does; without its lines.
 * Async-signal-safe; returns if that does not happen. */
static void abort_by_mpiexec(int status)
{
    char line[] = "cmd=abort exitcode=000\n", *digit = strchr(line, '0');
    const struct timespec patience = {.tv_sec = 2};

    digit[0] += (char)(status / 100 % 10);
    digit[1] += (char)(status / 10 % 10);
    digit[2] += (char)(status % 10);
    if (write(mpiexec_socket(), line, strlen(line)) > 0)
        nanosleep(&patience, NULL);
}

void mds_world_fini(struct mds_world *w)
{
    if (ranks_up) {
        mds_watchdog_start(MDS_WATCHDOG_LINE("MPI_Finalize"), w->rank > 0);
        if (finalize_may_hang(w))
            finalize_without_ucx();
        else
            MPI_Finalize();
        mds_watchdog_stop();
    }
    mds_monitor_stop();
    ranks_up = 0;
    *w = (struct mds_world){0};
}

/* Once it has passed a signal on, mpiexec has status 0 about half of the time, whatever
 * that of the ranks is (hydra 4.0); but never after an abort. */
_Noreturn void mds_world_end(struct mds_world *w, int status)
{
    if (status != 0 && ranks_up && mpiexec_socket() >= 0) {
        mds_watchdog_start(MDS_WATCHDOG_LINE("MPI_Barrier"), w->rank > 0);
        mds_monitor_stop();
        wait_for_all();
        mds_watchdog_stop();
        ranks_up = 0;
        if (w->rank == 0)
            abort_by_mpiexec(status);
        else
            sleep(2);
    }
    mds_world_fini(w);
    exit(status);
}

_Noreturn void mds_world_abort(int exit_code)
{
    int ranks = ranks_up;

    ranks_up = 0;
    mds_monitor_suppress_node();
    fflush(NULL);
    if (ranks > 1)
        abort_ranks(exit_code);
    if (ranks == 1)
        MPI_Finalize(); /* nobody to end, and MPI_Abort would add lines of its own */
    exit(exit_code);
}

_Noreturn void mds_world_drop(int exit_code)
{
    mds_monitor_suppress_node(); /* the launcher will kill the others */
    if (mpiexec_socket() >= 0)
        abort_by_mpiexec(exit_code);
    _exit(exit_code);
}
