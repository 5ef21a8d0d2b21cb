/* SPDX-License-Identifier: BSD-3-Clause */
/* hydra_pmi_proxy, the process by which MPICH's mpiexec starts the ranks of a node.
 *
 * Only SIGKILL ends it before its ranks, and then nobody would end them: their monitor
 * processes find out here, and do.  If the proxy of another node never answers, mpiexec
 * waits for it even when all ranks are gone; it returns at once if a proxy that has
 * answered dies, which is what mds_proxy_kill is for. */
#include "monitor/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct process {
    int pid, parent;
    char state;
    unsigned long long started; /* tells it from a later one with this number */
    char name[16];
} proxy; /* .pid 0: none */

void mds_proxy_read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);

    text[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        close(fd);
}

/* Of /proc/PID/stat: "PID (NAME) STATE PARENT ...", started is the 22nd field. */
static int read_proc_stat(int pid, struct process *p)
{
    char path[64], text[512];
    const char *name, *rest;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    mds_proxy_read_text(path, text, sizeof text);
    name = strchr(text, '(');
    rest = strrchr(text, ')');
    if (!name || !rest)
        return -1;
    *p = (struct process){.pid = pid};
    snprintf(p->name, sizeof p->name, "%.*s", (int)(rest - name - 1), name + 1);
    return sscanf(rest,
                  ") %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                  "%*s %*s %llu",
                  &p->state, &p->parent, &p->started) == 3
               ? 0
               : -1;
}

/* Search all ancestors: a script that chooses a GPU may be between proxy and rank. */
void mds_proxy_find(void)
{
    struct process p = {.parent = getppid()};

    while (p.parent > 1 && read_proc_stat(p.parent, &p) == 0)
        if (strcmp(p.name, "hydra_pmi_proxy") == 0) {
            proxy = p;
            return;
        }
}

/* If /proc cannot be read (no descriptors are left, say), kill() tells. */
int mds_proxy_is_gone(void)
{
    struct process now;

    if (!proxy.pid)
        return 0;
    if (read_proc_stat(proxy.pid, &now))
        return kill(proxy.pid, 0) && errno == ESRCH;
    return now.state == 'Z' || now.started != proxy.started;
}

void mds_proxy_kill(void)
{
    if (proxy.pid && !mds_proxy_is_gone())
        kill(proxy.pid, SIGKILL);
}
