/* SPDX-License-Identifier: BSD-3-Clause */
/* A monitor that comes too late: its rank's parent has waited for it already, as srun
 * does at once. */
#include "monitor/monitor.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* The first child of this process. */
static int find_monitor(void)
{
    FILE *f = fopen("/proc/thread-self/children", "r");
    int pid = 0;

    if (f && fscanf(f, "%d", &pid) != 1)
        pid = 0;
    if (f)
        fclose(f);
    return pid;
}

/* A rank with a monitor, which is then halted; its errors go to `err`, the monitor's
 * number to `out`. */
static _Noreturn void be_rank(int err, int out)
{
    int pid;

    dup2(err, STDERR_FILENO);
    mds_monitor_start();
    mds_signals_start(3, 4);
    pid = find_monitor();
    if (pid > 0)
        kill(pid, SIGSTOP);
    if (write(out, &pid, sizeof pid) < 0)
        _exit(1);
    for (;;)
        pause();
}

static void a_late_monitor_knows_the_signal(void **state)
{
    struct utsname u;
    int err[2], out[2], pid = 0, major = 0, minor = 0;
    char text[1024] = "";
    ssize_t n, all = 0;
    pid_t rank;

    (void)state;
    assert_int_equal(pipe(err) || pipe(out) || uname(&u), 0);
    rank = fork();
    if (rank == 0)
        be_rank(err[1], out[1]);
    close(err[1]);
    assert_int_equal(read(out[0], &pid, sizeof pid), sizeof pid);
    kill(rank, SIGKILL);
    assert_int_equal(waitpid(rank, NULL, 0), rank);
    if (pid <= 0)
        skip(); /* a kernel that does not list children: the monitor was in time */
    kill(pid, SIGCONT);
    while (all < (ssize_t)sizeof text - 1 &&
           (n = read(err[0], text + all, sizeof text - 1 - (size_t)all)) > 0)
        all += n;
    print_message("# %s", text);
    assert_non_null(strstr(text, "mds: error: rank 3 ("));
    sscanf(u.release, "%d.%d", &major, &minor);
    if (major > 6 || (major == 6 && minor >= 15))
        assert_non_null(strstr(text, "was killed by signal 9"));
    else
        assert_non_null(
            strstr(text, "died (exit status unknown, its launcher has read it)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_monitor_knows_the_signal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
